package health

import "time"

// Defaults of retries.
const (
	// DefaultMaxRetries, DefaultBudgetPercent and DefaultBudgetMin hold where a cluster says nothing about retries.
	DefaultMaxRetries    = 3
	DefaultBudgetPercent = 20
	DefaultBudgetMin     = 3
	// DefaultBackoffBase and DefaultBackoffCap hold where it says something, but not that.
	DefaultBackoffBase = 25 * time.Millisecond
	DefaultBackoffCap  = time.Second
	// MaxRetries is the most that Retry.Max may be.
	MaxRetries = 5
)

// Budget limits retries to a share of the requests, so that an outage isn't multiplied by them. It limits how many go on
// at a time, not how many there are in a second.
type Budget struct {
	// Percent is the share of the requests under way.
	Percent int
	// Min is how many retries may go on however few requests there are.
	Min int
}

// Bound returns how many retries may go on beside a number of requests, the ones that are retried included.
func (b *Budget) Bound(requests int64) int64 {
	return max(int64(b.Min), requests*int64(b.Percent)/100)
}

// Retry says which failures are tried again. The zero value tries none; a stale connection is replaced all the same.
type Retry struct {
	// Max is how many times a request is tried again.
	Max int
	// On are the kinds of failures that are tried again; with Answer, those with a status in Statuses.
	On Kinds
	// Statuses are the statuses that are tried again.
	Statuses StatusSet
	Backoff  Backoff
	Budget   Budget
}

// DefaultRetry is the policy of a cluster that says nothing about retries: failures to connect, without waiting.
func DefaultRetry() Retry {
	return Retry{Max: DefaultMaxRetries, On: KindSet(Connect), Budget: Budget{Percent: DefaultBudgetPercent, Min: DefaultBudgetMin}}
}

// Failure is what is known about an attempt that has failed.
type Failure struct {
	Outcome
	// Repeatable says that the whole request can be sent again.
	Repeatable bool
	// Eligible says that the policy covers the request, by its method for example.
	Eligible bool
	// Safe says that the request changes nothing, so that nobody minds if it is made twice (RFC 9110 section 9.2.1).
	Safe bool
	// Reused says that the connection came out of a pool. One that is broken then was perhaps stale: closed by the
	// endpoint before it knew of the request. It is replaced if the request is eligible or safe, or else Unseen.
	Reused bool
	// Unseen says that the endpoint has certainly not got the request, nor a part of it.
	Unseen bool
	// Begun says that some of the answer has arrived. Then nothing is tried again, unless the answer as a whole is the
	// failure (Answer) and none of it was passed on.
	Begun bool
	// Passed says that some of the answer was passed on to the client.
	Passed bool
	// Elsewhere says that only an endpoint at which the request hasn't failed may do. It is for what took as long as it
	// may, as the same endpoint would only take that long once more, and for callers that try none twice.
	Elsewhere bool
}

// Action is what to do after a failure.
type Action uint8

const (
	// Stop means that the failure stands.
	Stop Action = iota
	// Replay means to send the request to the same endpoint again at once, on a new connection.
	Replay
	// Move means the same at another endpoint, since that one is no longer offered, or has no room. It is no retry.
	Move
	// Again means to wait for Decision.Delay, and then to try an endpoint that wasn't tried.
	Again
)

// Why says why a failure stands.
type Why uint8

const (
	// NoReason is for what doesn't stand.
	NoReason Why = iota
	// Settled means that the attempt had ended before.
	Settled
	// AnswerBegun means that the client may have seen some of the answer, or that there was one.
	AnswerBegun
	// NotRepeatable means that the request can't be sent again.
	NotRepeatable
	// NotCovered means that the policy doesn't cover the request, or this kind of failure.
	NotCovered
	// Exhausted means that there were as many retries as there may be.
	Exhausted
	// OutOfTime means that the request would be over before the retry.
	OutOfTime
	// OverLimit means that there are as many retries in the cluster as there may be.
	OverLimit
	// OverBudget means that there are too many retries for the number of requests.
	OverBudget
	// NoOther means that only another endpoint would do, and none is offered.
	NoOther
	whyCount
)

// whyNames has a name for each reason.
var whyNames = [whyCount]string{
	"none", "settled", "answer_begun", "not_repeatable", "not_covered", "exhausted", "out_of_time", "over_limit", "over_budget",
	"no_other_endpoint",
}

// String returns the name of the reason; "unknown" for a value that is none.
func (w Why) String() string {
	if w >= whyCount {
		return "unknown"
	}
	return whyNames[w]
}

// Decision is the answer to a failure.
type Decision struct {
	Action Action
	// Why is set with Stop.
	Why Why
	// Delay is set with Again.
	Delay time.Duration
	// Outcome is what the attempt was settled with.
	Outcome Outcome
}

// decide returns what to do about a failure, as far as it depends on the failure and on what the request has used up.
// Time and budget are looked at later.
func (r *Retry) decide(f *Failure, retries int, replayed bool) (Action, Why) {
	switch {
	case f.Passed, f.Begun && f.Kind != Answer:
		return Stop, AnswerBegun
	case !f.Repeatable:
		return Stop, NotRepeatable
	case f.stale() && !replayed:
		return Replay, NoReason
	case !f.Eligible, !r.covers(f.Outcome):
		return Stop, NotCovered
	case retries >= r.Max:
		return Stop, Exhausted
	}
	return Again, NoReason
}

// stale says whether the failure is that of a stale connection, or looks like one and may be taken for one: if the
// endpoint has worked on the request after all, it does no harm that it gets it again.
func (f *Failure) stale() bool {
	return f.Reused && f.Kind == Reset && (f.Eligible || f.Safe || f.Unseen)
}

// covers says whether the policy covers a kind of failure.
func (r *Retry) covers(o Outcome) bool {
	if o.Kind == Answer {
		return r.Statuses.Has(o.Status)
	}
	return r.On.Has(o.Kind)
}
