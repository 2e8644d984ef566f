package pipeline

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
	"github.com/caddy-sluice/sluice/modules/refusal"
)

// settle ends the request once the handlers have returned, with their error.
func (x *Exchange) settle(err error) error {
	if x.out.refused() {
		return nil // the deferred function answers
	}
	if x.out.err != nil {
		x.setErr(x.out.err)
		panic(http.ErrAbortHandler) // the client must not take what it has for complete
	}
	if x.body != nil {
		switch failed := x.body.leave(); {
		case failed == nil, x.out.lost():
		case !x.out.sent():
			return x.instead(failed)
		default:
			x.countOnce(failed)
			x.setErr(failed)
			panic(http.ErrAbortHandler) // what comes next on the connection may be a part of this body
		}
	}
	if err != nil {
		return x.giveUp(err)
	}
	x.out.finish()
	if x.out.err != nil && x.out.sent() {
		x.setErr(x.out.err)
		panic(http.ErrAbortHandler) // the client must not take what it has for complete
	}
	return nil
}

// instead has the request answered because of an error of its body, whatever the handlers have begun to answer.
func (x *Exchange) instead(failed error) error {
	x.out.restore()
	return x.answer(failed)
}

// giveUp ends a request whose handler has failed. An answer that filters have made another of may have lost its length, so
// that one which ends too early looks complete.
func (x *Exchange) giveUp(err error) error {
	x.setErr(err)
	switch {
	case !x.out.sent():
		return x.answer(notOurs(err))
	case !x.out.piped:
		return err
	}
	level := zapcore.WarnLevel
	if x.out.broken {
		level = zapcore.DebugLevel // the client has left
	}
	if entry := x.h.logger.Check(level, "handler failed, the answer breaks off"); entry != nil {
		entry.Write(zap.Error(err))
	}
	panic(http.ErrAbortHandler)
}

// notOurs makes an error of the next handler one that isn't taken for that of a filter.
func notOurs(err error) error {
	if errors.Is(err, errClientGone) {
		return err
	}
	return caddyhttp.Error(http.StatusInternalServerError, err)
}

// answer has the request answered because of an error: nothing has gone out yet.
func (x *Exchange) answer(err error) error {
	x.out.discard()
	if errors.Is(err, errClientGone) {
		x.countOnce(err)
		x.setErr(errClientGone)
		x.setResponse(refusal.ClientGone, x.w.Header())
		x.w.WriteHeader(refusal.ClientGone)
		return nil
	}
	err = x.refuse(err)
	if x.r.ProtoMajor == 1 && x.body != nil && !x.body.drained() {
		x.body.closing = true
		x.w.Header().Set("Connection", "close")
	}
	x.setErr(err)
	status := statusOf(err)
	x.setResponse(status, x.w.Header())
	for at := len(x.h.entries); at > 0; {
		var failed error
		if at, failed = x.respond(at); failed != nil && x.out.err == nil { // a response is refused once, and for one reason
			err = x.refuse(failed)
			x.setErr(err)
			status = statusOf(err)
			x.setStatus(status)
		}
	}
	x.keepStatus(status)
	return x.write(err)
}

// setResponse sets the response that hooks see.
func (x *Exchange) setResponse(status int, header http.Header) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.response = Response{Status: status, Header: header}
}

// setStatus changes its status.
func (x *Exchange) setStatus(status int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.response.Status = status
}

// setErr sets why the request has failed, for hooks.
func (x *Exchange) setErr(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.err = err
}

// keepStatus keeps the status of a response, if a filter has changed it to what it can't be.
func (x *Exchange) keepStatus(was int) {
	if s := x.response.Status; s < http.StatusOK || s > maxStatus || was == http.StatusSwitchingProtocols {
		x.setStatus(was)
	}
}

// write writes the answer to a Rejection with a body. All else is for Caddy to write, or for the pipeline in front whose
// filter has refused the body.
func (x *Exchange) write(err error) error {
	if x.outer().failedBy(err) {
		return withStatus(err, x.response.Status)
	}
	rejection, ok := errors.AsType[*Rejection](err)
	if ok {
		for name, values := range rejection.Header {
			x.w.Header()[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
	switch {
	case ok && rejection.Body != nil:
	case errors.Is(err, bodypipe.ErrBudget):
		return refusal.Answer(x.w, x.r, x.response.Status, withStatus(err, x.response.Status))
	default:
		return withStatus(err, x.response.Status)
	}
	x.w.Header().Set("Content-Length", strconv.Itoa(len(rejection.Body)))
	x.w.WriteHeader(x.response.Status)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(rejection.Body)
	}
	return nil
}

// replace has the client get the answer in the place of a response that is refused at once, as Caddy would write it: the
// handler may take long to return. What it returns then is of no use any more.
func (x *Exchange) replace(err error) {
	if err = x.answer(err); err != nil {
		x.logRefusal(err)
		if bodypipe.ResponseContent(x.r.Method, x.response.Status) == bodypipe.HasContent {
			x.w.Header().Set("Content-Length", "0")
		}
		x.w.WriteHeader(x.response.Status)
	}
	x.out.sentHeader = x.w.Header().Clone()
	_ = http.NewResponseController(x.w).Flush()
}

// replaced has the request answered whose response was refused, once the handlers have returned.
func (x *Exchange) replaced() error {
	if !x.out.replaced {
		return x.answer(x.out.err)
	}
	// What handlers have set since is of the response that nobody gets. A writer in front may still look at it.
	header := x.w.Header()
	clear(header)
	maps.Copy(header, x.out.sentHeader)
	return nil
}

// logRefusal logs the error of a response as Caddy logs errors. A panic is in the log already.
func (x *Exchange) logRefusal(err error) {
	if isCrash(err) {
		return
	}
	level := zapcore.DebugLevel
	if x.response.Status >= http.StatusInternalServerError {
		level = zapcore.ErrorLevel
	}
	if entry := x.h.logger.Check(level, "response refused"); entry != nil {
		entry.Write(zap.Int("status", x.response.Status), zap.Error(err))
	}
}

// withStatus gives an error the status to which a filter has changed it.
func withStatus(err error, status int) error {
	handled, ok := errors.AsType[caddyhttp.HandlerError](err)
	if !ok || handled.StatusCode == status {
		return err
	}
	handled.StatusCode = status
	return handled
}
