package health

// Kind is what became of an attempt.
type Kind uint8

const (
	// Success means that the attempt did its work.
	Success Kind = iota
	// Answer means that the endpoint answered with Outcome.Status. It depends on the detector whether that is a
	// failure; where a status isn't asked for, an answer is a success.
	Answer
	// Connect means that no connection could be made, a failed TLS handshake included.
	Connect
	// Reset means that the connection broke: an error of a read or a write, or its end before the answer.
	Reset
	// Timeout means that the time for one attempt was over.
	Timeout
	// Malformed means that what was answered couldn't be understood.
	Malformed
	// Stale means that a connection out of a pool turned out to be closed. It is neutral: it says nothing about the
	// endpoint.
	Stale
	// Aborted means that the attempt was given up for a reason of our own: the client went away, the time for the
	// whole request was over, or a limit stood in the way. It is neutral.
	Aborted
	kindCount
)

// kindNames has a name for each kind.
var kindNames = [kindCount]string{"success", "answer", "connect", "reset", "timeout", "malformed", "stale_connection", "aborted"}

// String returns the name of the kind; "unknown" for a value that is none.
func (k Kind) String() string {
	if k >= kindCount {
		return "unknown"
	}
	return kindNames[k]
}

// GatewayStatus returns the HTTP status for a request whose last attempt failed in this way.
func (k Kind) GatewayStatus() int {
	if k == Timeout {
		return 504
	}
	return 502
}

// Kinds is a set of kinds.
type Kinds uint16

// KindSet returns the set of the kinds given.
func KindSet(kinds ...Kind) (s Kinds) {
	for _, k := range kinds {
		s |= 1 << k
	}
	return s
}

// Has says whether a kind is in the set.
func (s Kinds) Has(k Kind) bool { return k < kindCount && s&(1<<k) != 0 }

// Outcome is how an attempt ended. The zero value is a success.
type Outcome struct {
	Kind Kind
	// Status is the status of the answer. It counts with Answer only.
	Status int
}

// Answered returns the outcome of an attempt that was answered with a status.
func Answered(status int) Outcome { return Outcome{Kind: Answer, Status: status} }

// verdict is what an outcome means to a detector.
type verdict uint8

const (
	neutral verdict = iota
	good
	bad
)

// judge returns what the outcome means to a detector that takes the statuses in failing for failures.
func (o Outcome) judge(failing *StatusSet) verdict {
	switch {
	case o.Kind == Success, o.Kind == Answer && !failing.Has(o.Status):
		return good
	case o.Kind == Stale, o.Kind == Aborted:
		return neutral
	}
	return bad
}

// Status codes that a StatusSet can hold.
const (
	minStatus = 100
	maxStatus = 599
)

// StatusSet is a set of HTTP status codes from 100 to 599. The zero value is empty.
type StatusSet [(maxStatus-minStatus)/64 + 1]uint64

// Add puts the codes from first to last into the set, both included. Codes that are none are left out.
func (s *StatusSet) Add(first, last int) {
	for code := max(first, minStatus); code <= min(last, maxStatus); code++ {
		s[(code-minStatus)/64] |= 1 << ((code - minStatus) % 64)
	}
}

// Has says whether a code is in the set.
func (s *StatusSet) Has(code int) bool {
	return code >= minStatus && code <= maxStatus && s[(code-minStatus)/64]&(1<<((code-minStatus)%64)) != 0
}
