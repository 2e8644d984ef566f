package healthchecks

import (
	"errors"
	"slices"
	"syscall"
)

// ErrNotMade says that a check wasn't made, for a reason that lies with us: it is no verdict on the endpoint.
var ErrNotMade = errors.New("the check was not made")

// NotMade says whether an error of a check says nothing about the endpoint: it wraps ErrNotMade, or a system error that
// means that this machine is short of what a connection needs.
func NotMade(err error) bool {
	if errors.Is(err, ErrNotMade) {
		return true
	}
	number, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(shortages, number)
}
