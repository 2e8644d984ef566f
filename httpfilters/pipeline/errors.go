package pipeline

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/http2"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

// clientError says what an error of a client's body means: with which status the request is answered, or that nobody
// waits for an answer. It may be the error of a handler in front that reads the body too.
func clientError(err error, r *http.Request) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return Reject(http.StatusRequestEntityTooLarge, tooLarge) // without the error of Caddy's around it
	case errors.Is(err, errClientGone):
		return errClientGone
	case judged(err):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errStalled
	case r.Context().Err() != nil, isGone(err), r.ProtoMajor == 2 && strings.HasSuffix(err.Error(), lostHTTP2):
		return errClientGone
	}
	return &malformed{err}
}

// judged reports whether an error says itself what it means.
func judged(err error) bool {
	_, handled := errors.AsType[caddyhttp.HandlerError](err)
	return handled || isRefusal(err) || errors.Is(err, bodypipe.ErrTooLarge) || errors.Is(err, bodypipe.ErrBudget)
}

// lostHTTP2 is what Go's server has for all streams of a connection by HTTP/2 that has ended. It has no name there.
const lostHTTP2 = "client disconnected"

// isGone reports whether an error says that the connection has ended, or the stream of HTTP/2 or HTTP/3.
func isGone(err error) bool {
	var h2 http2.StreamError
	var h3 *http3.Error
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return true
	}
	return errors.Is(err, net.ErrClosed) || errors.As(err, &h2) || errors.As(err, &h3)
}

// errStalled is the error of a body that doesn't go on.
var errStalled = Reject(http.StatusRequestTimeout, errors.New("body_timeout: the client sent nothing for so long"))

// errConnect is the error of a request for a tunnel that filters for bodies have a part in: what goes through it is no
// body, and would go by unseen.
var errConnect = Reject(http.StatusMethodNotAllowed, errors.New("CONNECT: filters look at the request's body, and there is none"))

// errUnfiltered is the error of a body that a handler reads which doesn't know of filters for upstream bodies.
var errUnfiltered = errors.New("the body must pass filters for upstream bodies, and so go to cluster_proxy")

// malformed is the error of a body that isn't one.
type malformed struct{ err error }

func (m *malformed) Error() string      { return fmt.Sprintf("reading the body: %v", m.err) }
func (m *malformed) Unwrap() error      { return m.err }
func (m *malformed) RefusalStatus() int { return http.StatusBadRequest }

// invalid is the error of a response that isn't one.
type invalid struct{ err error }

func (i *invalid) Error() string      { return i.err.Error() }
func (i *invalid) Unwrap() error      { return i.err }
func (i *invalid) RefusalStatus() int { return http.StatusBadGateway }

// crash is the error of a filter that panicked. It is counted already.
type crash string

func (c crash) Error() string      { return string(c) }
func (c crash) RefusalStatus() int { return http.StatusInternalServerError }

// Interface guards
var (
	_ bodypipe.Refusal = crash("")
	_ bodypipe.Refusal = (*malformed)(nil)
	_ bodypipe.Refusal = (*invalid)(nil)
)
