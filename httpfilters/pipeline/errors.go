package pipeline

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

// fail keeps an error of the client's body, as the one with which the request is answered.
func (b *requestBody) fail(err error) error {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	switch {
	case b.closed:
		return errBodyClosed
	case b.shut:
		return http.ErrBodyReadAfterClose
	case b.err == nil:
		b.err = clientError(err, b.x.r)
	}
	return b.err
}

// clientError says what an error of a client's body means: with which status the request is answered, or that nobody
// waits for an answer.
func clientError(err error, r *http.Request) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return Reject(http.StatusRequestEntityTooLarge, tooLarge) // without the error of Caddy's around it
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errStalled
	case r.ProtoMajor > 1: // the stream is no more, whoever has ended it
		return errClientGone
	case r.Context().Err() != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return errClientGone
	}
	return &malformed{err}
}

// errStalled is the error of a body that doesn't go on.
var errStalled = Reject(http.StatusRequestTimeout, errors.New("body_timeout: the client sent nothing for so long"))

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
