package health

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// retries is a policy as a configuration gives it.
func retries(most int) Retry {
	return Retry{
		Max: most, On: KindSet(Connect, Reset, Timeout), Budget: Budget{DefaultBudgetPercent, DefaultBudgetMin},
		Backoff: Backoff{DefaultBackoffBase, DefaultBackoffCap},
	}
}

// failure is one of a request that may be tried again.
func failure(k Kind) Failure {
	return Failure{Outcome: Outcome{Kind: k}, Repeatable: true, Eligible: true}
}

func TestRetryDecision(t *testing.T) {
	all := retries(2)
	all.Statuses.Add(503, 503)
	change := func(f Failure, change func(*Failure)) Failure {
		change(&f)
		return f
	}
	stale := change(failure(Reset), func(f *Failure) { f.Reused = true })
	answer := Failure{Outcome: Answered(503), Repeatable: true, Eligible: true, Begun: true}
	for _, tc := range []struct {
		name     string
		policy   Retry
		f        Failure
		retries  int
		replayed bool
		action   Action
		why      Why
	}{
		{name: "connect", policy: all, f: failure(Connect), action: Again},
		{name: "the_last_retry", policy: all, f: failure(Reset), retries: 1, action: Again},
		{name: "one_too_many", policy: all, f: failure(Reset), retries: 2, why: Exhausted},
		{name: "malformed_is_final", policy: all, f: failure(Malformed), why: NotCovered},
		{name: "aborted_is_final", policy: all, f: failure(Aborted), why: NotCovered},
		{name: "Z71_a_body_that_was_not_read_yet", policy: DefaultRetry(), f: failure(Connect), action: Again},
		{name: "without_a_block_only_connect", policy: DefaultRetry(), f: failure(Reset), why: NotCovered},
		{name: "Z72_a_method_that_is_not_covered", policy: all, f: change(failure(Reset), func(f *Failure) { f.Eligible = false }), why: NotCovered},
		{name: "Z73_a_body_that_cannot_be_sent_again", policy: all, f: change(failure(Reset), func(f *Failure) { f.Repeatable = false }), why: NotRepeatable},
		{name: "Z74_reset_within_the_answer", policy: all, f: change(failure(Reset), func(f *Failure) { f.Begun, f.Passed = true, true }), why: AnswerBegun},
		{name: "Z85_an_informational_answer_counts", policy: all, f: change(failure(Reset), func(f *Failure) { f.Begun = true }), why: AnswerBegun},
		{name: "a_status_that_is_asked_for", policy: all, f: answer, action: Again},
		{name: "a_status_that_was_passed_on", policy: all, f: change(answer, func(f *Failure) { f.Passed = true }), why: AnswerBegun},
		{name: "a_status_that_is_not_asked_for", policy: all, f: change(answer, func(f *Failure) { f.Status = 500 }), why: NotCovered},
		{name: "Z81_stale", policy: all, f: stale, action: Replay},
		{name: "Z81_stale_without_a_policy", f: stale, action: Replay},
		{name: "stale_of_what_the_endpoint_may_have_seen", policy: all, f: change(stale, func(f *Failure) { f.Eligible = false }), why: NotCovered},
		{name: "Z81_stale_of_what_changes_nothing", policy: all, f: change(stale, func(f *Failure) { f.Eligible, f.Safe = false, true }), action: Replay},
		{name: "Z81_stale_of_what_the_endpoint_has_not_seen", policy: all, f: change(stale, func(f *Failure) { f.Eligible, f.Unseen = false, true }), action: Replay},
		{name: "unseen_on_a_new_connection", policy: all, f: change(failure(Reset), func(f *Failure) { f.Eligible, f.Unseen = false, true }), why: NotCovered},
		{name: "stale_within_the_answer", policy: all, f: change(stale, func(f *Failure) { f.Begun = true }), why: AnswerBegun},
		{name: "stale_of_what_cannot_be_repeated", policy: all, f: change(stale, func(f *Failure) { f.Repeatable = false }), why: NotRepeatable},
		{name: "Z82_stale_a_second_time_is_a_retry", policy: all, f: stale, replayed: true, action: Again},
		{name: "Z84_a_timeout_on_an_old_connection_is_a_retry", policy: all, f: change(failure(Timeout), func(f *Failure) { f.Reused = true }), action: Again},
	} {
		t.Run(tc.name, func(t *testing.T) {
			action, why := tc.policy.decide(&tc.f, tc.retries, tc.replayed)
			if action != tc.action || why != tc.why {
				t.Errorf("got %v, %v, want %v, %v", action, why, tc.action, tc.why)
			}
		})
	}
}

// retryOf has a request fail once, and returns it with what was said.
func (r *rig) retryOf() (*Request, Decision) {
	r.t.Helper()
	req := r.admit()
	return req, r.try(req, 0).Fail(failure(Connect), 1, r.now)
}

func TestBudget(t *testing.T) {
	for _, tc := range []struct {
		name         string
		active       int
		percent, min int
		want         int
	}{
		{"Z63_few_requests_have_the_minimum", 4, 20, 3, 3},
		{"Z63_twenty_requests", 20, 20, 2, 4},
		{"Z63_a_hundred_requests", 100, 20, 3, 20},
		{"Z64_no_minimum_and_few_requests", 4, 20, 0, 0},
		{"rounded_down", 9, 20, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := &Config{Retry: retries(1)}
			cfg.Retry.Budget = Budget{tc.percent, tc.min}
			r := newRig(t, cfg, 1)
			var attempts []*Attempt
			for range tc.active {
				attempts = append(attempts, r.try(r.admit(), 0))
			}
			got := 0
			for _, a := range attempts {
				switch d := a.Fail(failure(Connect), 1, r.now); {
				case d.Action == Again:
					got++
				case d.Why != OverBudget || d.Outcome.Kind.GatewayStatus() != 502:
					t.Errorf("got %+v, want %v and status 502", d, OverBudget)
				}
			}
			s := r.c.Stats()
			if got != tc.want || s.RetriesActive != int64(tc.want) || s.RetriesRefused != uint64(tc.active-tc.want) {
				t.Errorf("got %d and %+v, want %d", got, s, tc.want)
			}
		})
	}
	t.Run("max_retries_is_a_limit_beside_it", func(t *testing.T) {
		cfg := &Config{Retry: retries(1), Limits: Limits{Retries: 2}}
		r := newRig(t, cfg, 1)
		for _, want := range []Why{NoReason, NoReason, OverLimit} {
			if _, d := r.retryOf(); d.Why != want {
				t.Errorf("got %v, want %v", d.Why, want)
			}
		}
	})
	t.Run("Z66_a_charge_lasts_until_the_retry_is_settled", func(t *testing.T) {
		r := newRig(t, &Config{Retry: retries(2)}, 2)
		wantCharged := func(want int64) {
			t.Helper()
			if got := r.c.Stats().RetriesActive; got != want {
				t.Errorf("got %d retries, want %d", got, want)
			}
		}
		req, _ := r.retryOf()
		wantCharged(1)
		again := r.try(req, 1)
		if d := again.Fail(failure(Connect), 1, r.now); d.Action != Again {
			t.Errorf("got %+v", d)
		}
		wantCharged(1)
		last := r.try(req, 1)
		last.Done(Outcome{}, r.now)
		wantCharged(0)
		req.Finish()
		gone, _ := r.retryOf() // the client goes while the retry waits
		wantCharged(1)
		gone.Finish()
		wantCharged(0)
		r.wantIdle()
	})
}

func TestRequestPath(t *testing.T) {
	t.Run("Z69_another_endpoint_than_the_one_that_failed", func(t *testing.T) {
		r := newRig(t, &Config{Retry: retries(2)}, 3)
		req, d := r.retryOf()
		if d.Action != Again || !slices.Equal(req.Tried(), []*Endpoint{r.endpoint(0)}) {
			t.Errorf("got %+v and %v tried", d, req.Tried())
		}
		r.try(req, 1).Fail(failure(Reset), 1, r.now)
		if got := req.Tried(); len(got) != 2 || got[1] != r.endpoint(1) || req.Retries() != 2 {
			t.Errorf("got %d tried and %d retries, want 2, 2", len(got), req.Retries())
		}
		if got := r.c.Stats().Attempts; got != 2 {
			t.Errorf("got %d attempts, want 2", got)
		}
	})
	t.Run("Z80_the_client_goes", func(t *testing.T) {
		r := newRig(t, &Config{Retry: retries(2), Outlier: outlier(1)}, 2)
		req := r.admit()
		a := r.try(req, 0)
		if !a.Done(Outcome{Kind: Aborted}, r.now) || a.Fail(failure(Connect), 1, r.now).Why != Settled || a.Done(Outcome{}, r.now) {
			t.Error("the attempt was settled twice, or not at all")
		}
		req.Finish()
		r.wantIdle()
		r.wantOffers(0, 1)
		if s := r.c.Stats(); s.Retries != 0 {
			t.Errorf("got %+v, want no retry", s)
		}
	})
	t.Run("Z82_a_stale_connection_is_replaced_once_and_free", func(t *testing.T) {
		r := newRig(t, &Config{Retry: retries(1), Outlier: outlier(1)}, 2)
		req := r.admit()
		f := failure(Reset)
		f.Reused = true
		d := r.try(req, 0).Fail(f, 1, r.now)
		if d.Action != Replay || d.Delay != 0 || d.Outcome.Kind != Stale || len(req.Tried()) != 0 {
			t.Errorf("got %+v and %d tried", d, len(req.Tried()))
		}
		r.wantOffers(0, 1)
		replay := r.try(req, 0)
		if s := r.c.Stats(); s.Replays != 1 || s.Retries != 0 || s.RetriesActive != 0 {
			t.Errorf("got %+v, want 1 replay and no retry", s)
		}
		// The replay fails, and that is a failure.
		if d := replay.Fail(f, 1, r.now); d.Action != Again || d.Outcome.Kind != Reset {
			t.Errorf("got %+v, want a retry", d)
		}
		r.wantOffers(1)
	})
	t.Run("a_retry_whose_connection_is_stale_stays_one", func(t *testing.T) {
		r := newRig(t, &Config{Retry: retries(1)}, 2)
		req, _ := r.retryOf()
		f := failure(Reset)
		f.Reused = true
		if d := r.try(req, 1).Fail(f, 1, r.now); d.Action != Replay || r.c.Stats().RetriesActive != 1 {
			t.Errorf("got %+v and %+v", d, r.c.Stats())
		}
		r.try(req, 1).Done(Outcome{}, r.now)
		if got := r.c.Stats().RetriesActive; got != 0 {
			t.Errorf("got %d retries, want 0", got)
		}
	})
	t.Run("Z75_two_timeouts_of_two_seconds", func(t *testing.T) {
		cfg := &Config{Retry: retries(1), Timeouts: Timeouts{PerTry: 2 * time.Second}, Outlier: outlier(9)}
		r := newRig(t, cfg, 1)
		req, random := r.admit(), rand.New(rand.NewPCG(1, 1))
		var d Decision
		for range 2 {
			at, by := req.Deadline(r.now, true)
			a := r.try(req, 0)
			if r.now = at; by != ByTry {
				t.Fatalf("got %v, want %v", by, ByTry)
			}
			d = a.Fail(failure(Timeout), random.Uint64(), r.now)
			r.now = r.now.Add(d.Delay)
		}
		if took := r.now.Sub(t0); d.Action != Stop || took < 4*time.Second || took >= 4*time.Second+DefaultBackoffBase {
			t.Errorf("got %+v after %v", d, took)
		}
		if got := d.Outcome.Kind.GatewayStatus(); got != 504 || r.c.Stats().Timeouts != 2 || r.c.Statuses(r.now)[0].Consecutive != 2 {
			t.Errorf("got status %d, %+v", got, r.c.Stats())
		}
	})
	t.Run("Z79_no_retry_that_would_begin_too_late", func(t *testing.T) {
		cfg := &Config{Retry: retries(5), Timeouts: Timeouts{PerTry: 2 * time.Second, Request: 3 * time.Second}, Outlier: outlier(1)}
		cfg.Retry.Backoff = Backoff{}
		r := newRig(t, cfg, 2)
		req := r.admit()
		r.at(3*time.Second - 1)
		if d := r.try(req, 0).Fail(failure(Reset), 1, r.now); d.Action != Again {
			t.Errorf("got %+v, want a retry", d)
		}
		at, by := req.Deadline(r.now, true)
		if a := r.try(req, 1); by != ByRequest || at != t0.Add(3*time.Second) || !a.Done(Outcome{Kind: Aborted}, at) {
			t.Errorf("got %v at %v", by, at.Sub(t0))
		}
		r.wantOffers(1) // not charged for our own limit
		req = r.admit()
		a := r.try(req, 1)
		r.at(6*time.Second - 1)
		if d := a.Fail(failure(Reset), 1, r.now.Add(1)); d.Why != OutOfTime || r.c.Stats().RetriesActive != 0 {
			t.Errorf("got %+v, want %v", d, OutOfTime)
		}
	})
}

// outageEvent is the begin of an attempt, or the end of one.
type outageEvent struct {
	at      time.Duration
	req     *Request
	attempt *Attempt
}

type outage []outageEvent

func (o outage) Len() int           { return len(o) }
func (o outage) Less(i, j int) bool { return o[i].at < o[j].at }
func (o outage) Swap(i, j int)      { o[i], o[j] = o[j], o[i] }
func (o *outage) Push(x any)        { *o = append(*o, x.(outageEvent)) }
func (o *outage) Pop() any {
	last := (*o)[len(*o)-1]
	*o = (*o)[:len(*o)-1]
	return last
}

// TestOutage is a burst at a cluster that is down: each attempt takes 10 ms and fails.
func TestOutage(t *testing.T) {
	t.Run("Z65_the_budget_keeps_retries_few", func(t *testing.T) {
		r := newRig(t, &Config{Retry: retries(3)}, 3)
		random, queue := rand.New(rand.NewPCG(65, 1)), &outage{}
		for range 100 {
			heap.Push(queue, outageEvent{req: r.admit()})
		}
		most := int64(0)
		for queue.Len() > 0 {
			e := heap.Pop(queue).(outageEvent)
			r.at(e.at)
			if e.attempt == nil {
				heap.Push(queue, outageEvent{e.at + 10*time.Millisecond, e.req, r.try(e.req, random.IntN(3))})
				continue
			}
			if d := e.attempt.Fail(failure(Connect), random.Uint64(), r.now); d.Action == Again {
				heap.Push(queue, outageEvent{at: e.at + d.Delay, req: e.req})
			} else {
				e.req.Finish()
			}
			most = max(most, r.c.Stats().RetriesActive)
		}
		if s := r.c.Stats(); most != 20 || s.Attempts < 120 || s.Attempts > 130 {
			t.Errorf("got %d retries at once and %d attempts, want 20 and about 125", most, s.Attempts)
		}
		r.wantIdle()
	})
}

// TestElsewhere checks that what took as long as it may is tried again at another endpoint only.
func TestElsewhere(t *testing.T) {
	slow := failure(Connect)
	slow.Elsewhere = true
	r := newRig(t, &Config{Retry: retries(3)}, 2)
	req := r.admit()
	if d := r.try(req, 0).Fail(slow, 1, r.now); d.Action != Again {
		t.Errorf("with another endpoint: got %+v, want a retry", d)
	}
	if d := r.try(req, 1).Fail(slow, 1, r.now); d.Action != Stop || d.Why != NoOther {
		t.Errorf("when both have failed: got %+v, want %v", d, NoOther)
	}
	req.Finish()
	req = r.admit()
	for range 2 { // at one endpoint
		if d := r.try(req, 0).Fail(slow, 1, r.now); d.Action != Again {
			t.Errorf("with another endpoint: got %+v, want a retry", d)
		}
	}
	req.Finish()
	req = r.admit()
	r.c.Override("1", Override{Mode: Drain}, r.now)
	if d := r.try(req, 0).Fail(slow, 1, r.now); d.Action != Stop || d.Why != NoOther {
		t.Errorf("with another endpoint that isn't offered: got %+v, want %v", d, NoOther)
	}
	if d := r.try(req, 0).Fail(failure(Connect), 1, r.now); d.Why == NoOther {
		t.Errorf("a failure that takes no time: got %+v", d)
	}
	req.Finish()
	r.wantIdle()
}

// TestOneRequestBlamesOne: a request that every endpoint answers with an error says nothing about more than one of them.
// Connections that fail say so each time.
func TestOneRequestBlamesOne(t *testing.T) {
	cfg := &Config{Outlier: outlier(2)}
	cfg.Outlier.MaxPercent = 100
	cfg.Outlier.Statuses.Add(500, 599)
	cfg.Retry = Retry{Max: 2, On: KindSet(Answer, Connect), Budget: Budget{Percent: 100, Min: 10}}
	cfg.Retry.Statuses.Add(500, 599)
	r := newRig(t, cfg, 3)
	everywhere := func(o Outcome) {
		req := r.admit()
		for i := range 3 {
			f := Failure{Outcome: o, Repeatable: true, Eligible: true}
			if d := r.try(req, i).Fail(f, 1, r.now); d.Action != Again && i < 2 {
				t.Fatalf("got %+v", d)
			}
		}
		req.Finish()
	}
	everywhere(Answered(500))
	everywhere(Answered(500))
	r.wantOffers(1, 2)
	r.at(DefaultEjectionTime)
	everywhere(Outcome{Kind: Connect})
	everywhere(Outcome{Kind: Connect})
	for i := range 3 {
		r.wantReason(i, Ejected)
	}
	r.wantIdle()
}
