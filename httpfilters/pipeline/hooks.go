package pipeline

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

// call calls a hook of filter i on the goroutine of the handlers. While it runs, it has mu, and nobody reads the body.
func (x *Exchange) call(i int, hook func(*Exchange) error) (err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.unshield(x.shield())
	before := x.at
	x.at = i
	defer func() {
		if p := recover(); p != nil {
			err = x.panicked(p)
		}
		x.at = before
	}()
	return x.judge(&x.h.entries[i], hook(x))
}

// callBody calls a filter for a piece of a body. Who calls it holds mu, but before the next handler has the request. It
// may be the goroutine that sends the request on, where nobody recovers from anything.
func (x *Exchange) callBody(i int, c *Chunk, hook func(*Exchange, *Chunk) (Action, error)) (act Action, err error) {
	e, before := &x.h.entries[i], x.at
	x.at, x.last, x.inBody = i, i, true
	defer func() {
		if p := recover(); p != nil {
			err = x.failed(p)
		}
		x.at, x.inBody = before, false
		x.struck = err != nil && (!e.open || isRefusal(err))
	}()
	act, err = hook(x, c)
	if err = checkRefusal(err); err == nil || isRefusal(err) {
		return act, err
	}
	if e.open && !x.passed.Has(i) {
		x.passed |= bit(i)
		x.passOver(e, err) // so does the pipe, for each piece
	}
	return act, e.named(err)
}

// callLog calls a filter at the end.
func (x *Exchange) callLog(i int, e *entry) {
	before := x.at
	x.at = i
	defer func() {
		if p := recover(); p != nil {
			_ = x.failed(p)
		}
		x.at = before
	}()
	e.log.Log(x)
}

// isRefusal reports whether a filter means its error.
func isRefusal(err error) bool {
	_, refused := errors.AsType[bodypipe.Refusal](err)
	return refused
}

// checkRefusal makes a refusal with a status that is none for a refusal a fault of the filter: nobody finds it in the error.
func checkRefusal(err error) error {
	refused, ok := errors.AsType[bodypipe.Refusal](err)
	if !ok {
		return err
	}
	status := refused.RefusalStatus()
	if status >= http.StatusBadRequest && status <= maxStatus {
		return err
	}
	return fmt.Errorf("it rejects with status %d, must be %d to %d: %s", status, http.StatusBadRequest, maxStatus, err.Error())
}

// judge passes over the error of a filter that may fail.
func (x *Exchange) judge(e *entry, err error) error {
	err = checkRefusal(err)
	switch {
	case err == nil, isRefusal(err):
		return err
	case !e.open:
		return e.named(err)
	}
	x.passOver(e, err)
	return nil
}

// named says of an error which filter has failed.
func (e *entry) named(err error) error {
	if _, handled := errors.AsType[caddyhttp.HandlerError](err); handled {
		err = accident{err}
	}
	return fmt.Errorf("filter %s: %w", e.name, err)
}

// accident is an error of Caddy's that a filter didn't make into a Rejection: its status isn't meant for the client.
type accident struct{ err error }

func (a accident) Error() string        { return a.err.Error() }
func (a accident) Is(target error) bool { return errors.Is(a.err, target) }

// passOver warns that a filter has failed, and that the request goes on.
func (x *Exchange) passOver(e *entry, err error) {
	count(passedOver)
	if entry := x.h.logger.Check(zapcore.WarnLevel, "filter failed, request goes on"); entry != nil {
		entry.Write(zap.String("filter", e.name), zap.Error(err))
	}
}

// panicked is failed, but a panic that is to end the connection does so.
func (x *Exchange) panicked(p any) error {
	if p == http.ErrAbortHandler { //nolint:errorlint // panics are compared so
		panic(p)
	}
	return x.failed(p)
}

// failed turns a panic of the filter whose hook runs into an error that ends the request.
func (x *Exchange) failed(p any) error {
	count(panicked)
	name := x.h.entries[x.at].name
	x.h.logger.Error("filter panicked", zap.String("filter", name), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
	return crash(fmt.Sprintf("filter %s panicked", name))
}
