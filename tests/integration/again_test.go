package integration

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// maxAsks is how many times something is asked for, pauseToAsk the time between: the server before is gone by then.
	maxAsks    = 20
	pauseToAsk = 50 * time.Millisecond
)

// again asks again when a question got no answer. For a moment after a reload the HTTP server of the config before, and
// the admin server, still have sockets of their own, and drop what they have just accepted.
type again struct {
	http.RoundTripper
	// lost says whether an error is one of those.
	lost func(error) bool
	// asked counts the questions that were asked again, if it isn't nil.
	asked *atomic.Int64
}

// RoundTrip implements http.RoundTripper. It asks again for what changes nothing.
func (a again) RoundTrip(req *http.Request) (*http.Response, error) {
	for asks := 1; ; asks++ {
		res, err := a.RoundTripper.RoundTrip(req)
		if err == nil || asks == maxAsks || req.Method != http.MethodGet || !a.lost(err) {
			return res, err
		}
		if a.asked != nil {
			a.asked.Add(1)
		}
		time.Sleep(pauseToAsk)
	}
}

// dropped says whether an error is that of a connection which ended without an answer. The transport itself asks again
// where the connection had been used before, so here it is a fresh one.
func dropped(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	// The transport says so if the end comes before the question is written.
	return err != nil && strings.Contains(err.Error(), "server closed idle connection")
}

// anyError is for servers that may be gone, too.
func anyError(error) bool { return true }

// ordered is a transport to the admin server, which drops what it has just accepted before it looks at it. So what changes
// something can be asked again, too.
type ordered struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o ordered) RoundTrip(req *http.Request) (*http.Response, error) {
	for asks := 1; ; asks++ {
		res, err := o.RoundTripper.RoundTrip(req)
		if err == nil || asks == maxAsks || !dropped(err) {
			return res, err
		}
		if req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			req = req.Clone(req.Context())
			req.Body = body
		}
		time.Sleep(pauseToAsk)
	}
}

// freshClient returns a client that makes a connection for each request, and may be used right after a reload.
func freshClient() *http.Client {
	return &http.Client{Transport: again{&http.Transport{DisableKeepAlives: true}, dropped, nil}, Timeout: patience}
}
