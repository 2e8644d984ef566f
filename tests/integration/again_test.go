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
	maxAsks    = 5
	pauseToAsk = 20 * time.Millisecond
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

// RoundTrip implements http.RoundTripper. Only what has no body can be asked again.
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

// freshClient returns a client that makes a connection for each request, and may be used right after a reload.
func freshClient() *http.Client {
	return &http.Client{Transport: again{&http.Transport{DisableKeepAlives: true}, dropped, nil}, Timeout: patience}
}
