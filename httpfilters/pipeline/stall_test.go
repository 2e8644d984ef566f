package pipeline

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

const (
	// shortTimeout is a body_timeout for tests that wait for it. moment is a good deal shorter.
	shortTimeout = 400 * time.Millisecond
	moment       = shortTimeout / 8
	// ampleTimeout is one for tests in which it must not come, also while the machine is busy elsewhere. pause is longer.
	ampleTimeout = 5 * shortTimeout
	pause        = ampleTimeout + shortTimeout
)

// bodyModes are the ways for a filter to see a body.
var bodyModes = map[string]Wish{"stream": streamed, "buffer": buffered, "whole": rewrite}

// patient returns a handler with an ample timeout.
func patient(t testing.TB, wish Wish, more ...entry) *Handler {
	t.Helper()
	h := impatient(t, wish, more...)
	h.BodyTimeout = caddy.Duration(ampleTimeout)
	return h
}

// impatient returns a handler with a short timeout.
func impatient(t testing.TB, wish Wish, more ...entry) *Handler {
	t.Helper()
	h := newHandler(t, append(more, entry{name: "f", requestBody: onRequestBody{wish, idle}})...)
	h.BodyTimeout = caddy.Duration(shortTimeout)
	return h
}

// H36: a client that stalls gets 408, and the connection ends, also with what is left of the body on its way.
func TestH36_Stall(t *testing.T) {
	for name, wish := range bodyModes {
		for framing, body := range map[string]string{
			"declared": "Content-Length: 10\n\nabc", "chunked": "Transfer-Encoding: chunked\n\n3\nabc\n", "nothing": "Content-Length: 10\n\n",
		} {
			t.Run(name+" "+framing, func(t *testing.T) {
				end, over := ended()
				s := newSite(t, impatient(t, wish, end))
				check := watchCounts(t)
				c := s.wire(t)
				start := time.Now()
				c.write("POST / HTTP/1.1\nHost: a\n" + body)
				res := c.whole(http.MethodPost)
				if took := time.Since(start); res.StatusCode != http.StatusRequestTimeout || !res.Close || took < shortTimeout || took > sites.Patience/2 {
					t.Errorf("got status %d, close %v after %v", res.StatusCode, res.Close, took)
				}
				check("body_timeout 1")
				if requests := s.taken(); name != "stream" && len(requests) > 0 {
					t.Errorf("got %v at the backend", requests)
				}
				if err := within(t, "the log", over); !errors.Is(err, errStalled) {
					t.Errorf("got %v", err)
				}
				c.closed()
				s.idle(t)
			})
		}
	}
}

// H36 by HTTP/2: other streams of the connection go on.
func TestH36_StallHTTP2(t *testing.T) {
	for name, wish := range bodyModes {
		t.Run(name, func(t *testing.T) {
			s := newSiteBoth(t, impatient(t, wish))
			client := newClient(t, true)
			check := watchCounts(t)
			r, w := io.Pipe()
			defer w.Close()
			req := s.request(t, http.MethodPost, "")
			req.Body, req.ContentLength = r, -1
			go func() { _, _ = io.WriteString(w, "abc") }()
			if res := do(t, client, req); res.StatusCode != http.StatusRequestTimeout {
				t.Errorf("got status %d, want 408", res.StatusCode)
			}
			check("body_timeout 1")
			if res := s.send(t, client, http.MethodPost, "abc"); res.StatusCode != http.StatusOK {
				t.Errorf("got status %d for the next request", res.StatusCode)
			}
			s.idle(t)
		})
	}
}

// A client that is slow, but sends something all the time, isn't cut off; nor does a slow backend count as a slow client.
func TestSlowIsNoStall(t *testing.T) {
	for name, wish := range bodyModes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSiteBoth(t, patient(t, wish))
			s.backend = func(w http.ResponseWriter, r *http.Request) {
				_, err := io.ReadFull(r.Body, make([]byte, 3))
				<-time.After(pause) // the client has sent more meanwhile, and waits
				rest, err2 := io.ReadAll(r.Body)
				<-time.After(pause)
				if err := errors.Join(err, err2, r.Context().Err()); err != nil || len(rest) != 7 {
					http.Error(w, fmt.Sprintf("got %q and %v", rest, err), http.StatusBadRequest)
					return
				}
				_, _ = io.WriteString(w, "ok")
			}
			byVersion(t, s.drip)
			s.idle(t)
		})
	}
}

// drip sends ten bytes, which takes longer in all than a stall does, and wants "ok". A round in which the client was late
// itself, on a busy machine, says nothing.
func (s *site) drip(t *testing.T, client *http.Client) {
	t.Helper()
	for round := 1; ; round++ {
		gap, got, err := s.dripOnce(t, client)
		if err == nil && got == "200 ok" {
			return
		}
		if gap < ampleTimeout/2 || round == 3 {
			t.Errorf("got %q, %v in round %d, with %v between bytes at most", got, err, round, gap)
			return
		}
	}
}

// dripOnce sends the ten bytes once. It returns the longest time between two of them, and the answer.
func (s *site) dripOnce(t *testing.T, client *http.Client) (gap time.Duration, got string, err error) {
	r, w := io.Pipe()
	req := s.request(t, http.MethodPost, "")
	req.Body, req.ContentLength = r, -1
	var sending sync.WaitGroup
	sending.Go(func() {
		last := time.Now()
		for range 10 {
			_, _ = io.WriteString(w, "x")
			<-time.After(ampleTimeout / 8)
			gap, last = max(gap, time.Since(last)), time.Now()
		}
		w.Close()
		<-time.After(moment) // it reaches the server meanwhile
		gap = max(gap, time.Since(last))
	})
	res, err := client.Do(req)
	if err == nil {
		var body []byte
		body, err = io.ReadAll(res.Body)
		res.Body.Close()
		got = fmt.Sprint(res.StatusCode, " ", string(body))
	}
	sending.Wait()
	return gap, got, err
}

// The server's own limit for reading a request holds, be it shorter or longer than body_timeout.
func TestReadTimeout(t *testing.T) {
	for name, bodyTimeout := range map[string]time.Duration{"shorter": time.Hour, "longer": shortTimeout} {
		t.Run(name, func(t *testing.T) {
			h := impatient(t, buffered)
			h.BodyTimeout = caddy.Duration(bodyTimeout)
			s := prepareSite(h)
			s.Server = httptest.NewUnstartedServer(s)
			s.Config.ReadTimeout = 2 * shortTimeout
			s.Start()
			defer s.Close()
			c := s.wire(t)
			c.write("POST / HTTP/1.1\nHost: a\nContent-Length: 1000\n\n")
			stop := make(chan struct{})
			defer close(stop)
			go func() {
				for { // never a stall
					select {
					case <-stop:
						return
					case <-time.After(moment):
						_, _ = c.Write([]byte("x"))
					}
				}
			}()
			start := time.Now()
			res := c.whole(http.MethodPost)
			if took := time.Since(start); res.StatusCode != http.StatusRequestTimeout || took > sites.Patience/2 {
				t.Errorf("got status %d after %v", res.StatusCode, took)
			}
			s.idle(t)
		})
	}
}

// H92: when the client leaves, nothing goes to the backend that wasn't there before, the log phase runs, and it is no
// error of ours.
func TestH92_ClientGone(t *testing.T) {
	for name, wish := range bodyModes {
		for framing, body := range map[string]string{"declared": "Content-Length: 10\n\nabc", "chunked": "Transfer-Encoding: chunked\n\n3\nabc\n"} {
			t.Run(name+" "+framing, func(t *testing.T) {
				end, over := ended()
				h := impatient(t, wish, end)
				h.BodyTimeout = caddy.Duration(time.Hour)
				s := newSite(t, h)
				check := watchCounts(t)
				c := s.wire(t)
				c.write("POST / HTTP/1.1\nHost: a\n" + body)
				if name != "stream" {
					eventually(t, "it is held", func() bool { return h.budget.Held.Load() > 0 })
				}
				c.Close()
				if err := within(t, "the log", over); !errors.Is(err, errClientGone) {
					t.Errorf("got %v", err)
				}
				check("client_gone 1")
				if requests := s.taken(); name != "stream" && len(requests) > 0 {
					t.Errorf("got %v at the backend", requests)
				}
				s.idle(t)
			})
		}
	}
}

// H92 by HTTP/2: the client cancels a stream, or the connection ends.
func TestH92_ClientGoneHTTP2(t *testing.T) {
	for name, wish := range bodyModes {
		for _, how := range []string{"cancel", "close"} {
			t.Run(name+" "+how, func(t *testing.T) {
				end, over := ended()
				h := impatient(t, wish, end)
				h.BodyTimeout = caddy.Duration(time.Hour)
				s := newSiteBoth(t, h)
				called := make(chan struct{}, 1)
				s.next = func(_ http.ResponseWriter, r *http.Request) error {
					called <- struct{}{}
					_, err := io.Copy(io.Discard, r.Body)
					return err
				}
				check := watchCounts(t)
				r, w := io.Pipe()
				defer w.Close()
				ctx, cancel := cancelled(t)
				req := s.request(t, http.MethodPost, "").WithContext(ctx)
				req.Body, req.ContentLength = r, -1
				go func() {
					if res, err := newClient(t, true).Do(req); err == nil {
						res.Body.Close()
						t.Errorf("got status %d", res.StatusCode)
					}
				}()
				if _, err := io.WriteString(w, "abc"); err != nil {
					t.Fatal(err)
				}
				if name == "stream" {
					within(t, "the backend", called)
				} else {
					eventually(t, "it is held", func() bool { return h.budget.Held.Load() > 0 })
				}
				if how == "close" {
					s.CloseClientConnections()
				} else {
					cancel()
				}
				if err := within(t, "the log", over); !errors.Is(err, errClientGone) {
					t.Errorf("got %v", err)
				}
				check("client_gone 1")
				s.idle(t)
			})
		}
	}
}

// What isn't a body is the client's mistake.
func TestMalformed(t *testing.T) {
	for name, wish := range bodyModes {
		t.Run(name, func(t *testing.T) { checkMalformed(t, patient(t, wish)) })
	}
}

// checkMalformed sends what isn't a body.
func checkMalformed(t *testing.T, h *Handler) {
	t.Helper()
	s := newSite(t, h)
	check := watchCounts(t)
	c := s.wire(t)
	c.write("POST / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\nzz\nabc\n")
	if res := c.whole(http.MethodPost); res.StatusCode != http.StatusBadRequest || !res.Close {
		t.Errorf("got status %d, close %v", res.StatusCode, res.Close)
	}
	check("body_malformed 1")
	s.idle(t)
}
