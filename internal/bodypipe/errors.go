package bodypipe

import (
	"errors"
	"fmt"
)

var (
	// ErrTooLarge means that the body, or what filters made of it, is longer than a limit allows.
	ErrTooLarge = errors.New("body too large")
	// ErrBudget means that the budget for held bytes is spent.
	ErrBudget = errors.New("budget for buffered bodies spent")
	// ErrReadOnly means that a filter replaced bytes that it may only read. It is an error of the filter.
	ErrReadOnly = errors.New("read-only filter replaced bytes of a body")
	// ErrEnded means that the caller pushed more after the end, or after Close.
	ErrEnded = errors.New("body has ended")
)

// Refusal is the error by which a filter refuses a message on purpose. It is no failure: FailOpen doesn't pass over it.
type Refusal interface {
	error
	// RefusalStatus returns the status to answer with.
	RefusalStatus() int
}

// Refuse returns a Refusal with a status and nothing more.
func Refuse(status int) error { return refusal(status) }

type refusal int

func (r refusal) Error() string { return fmt.Sprintf("refused by a filter with status %d", int(r)) }

func (r refusal) RefusalStatus() int { return int(r) }

// RequestStatus returns the status that answers a request for whose body there was an error: that of the Refusal, 413
// for ErrTooLarge, 503 for ErrBudget (with Retry-After), 500 for everything else, which is some filter's failure.
func RequestStatus(err error) int { return status(err, 413) }

// ResponseStatus returns the status to answer with in place of a response for whose body there was an error, as long as
// no header is out: as RequestStatus, but 502 for ErrTooLarge.
func ResponseStatus(err error) int { return status(err, 502) }

func status(err error, tooLarge int) int {
	if refused, ok := errors.AsType[Refusal](err); ok {
		return refused.RefusalStatus()
	}
	switch {
	case errors.Is(err, ErrTooLarge):
		return tooLarge
	case errors.Is(err, ErrBudget):
		return 503
	}
	return 500
}
