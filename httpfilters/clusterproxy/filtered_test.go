package clusterproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/httpfilters/pipeline"
	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// replaced is a hook that puts a text in the place of the body.
func replaced(text string) bodyHook {
	return func(_ *pipeline.Exchange, c *pipeline.Chunk) error {
		c.Replace([]byte(text))
		return nil
	}
}

// tagged is a hook that says where the body goes, behind it.
func tagged(tag string) bodyHook {
	return func(x *pipeline.Exchange, c *pipeline.Chunk) error {
		c.Replace(fmt.Appendf(bytes.Clone(c.Bytes()), " %s=%s,%s", tag, x.Cluster(), x.Endpoint()))
		return nil
	}
}

// refusing is a hook that refuses the body.
func refusing(status int) bodyHook {
	return func(*pipeline.Exchange, *pipeline.Chunk) error { return pipeline.Reject(status, errors.New("no")) }
}

// counting is a hook that does what another does, and counts.
func counting(n *atomic.Int32, hook bodyHook) bodyHook {
	return func(x *pipeline.Exchange, c *pipeline.Chunk) error {
		n.Add(1)
		return hook(x, c)
	}
}

// kept is a hook that leaves the body as it is.
func kept(*pipeline.Exchange, *pipeline.Chunk) error { return nil }

// limited returns a pipeline that holds so many bytes of a body at most.
func limited(most int, list ...object) handler {
	h := filters(list...)
	h.options["request_body_limit"] = most
	return h
}

// unread is a handler behind which nobody may read the request's own body: that would be a copy for nothing.
type unread struct{ t *testing.T }

func (u unread) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.Body != http.NoBody {
		r.Body = u
	}
	return next.ServeHTTP(w, r)
}

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the request's own body was read")
	return 0, io.EOF
}

func (unread) Close() error { return nil }

// TestFilteredFraming checks how a body goes on that a filter has made for an endpoint.
func TestFilteredFraming(t *testing.T) {
	for _, tc := range []struct {
		name, method, body, output string
		chunked                    bool
		length                     string
	}{
		{"H94_emptied", "POST", "hello", "", false, "0"},
		{"H94_grown", "POST", "hello", "hello, world", false, "12"},
		{"H94_shrunk", "POST", "hello", "hi", false, "2"},
		{"chunked_same", "POST", "hello", "hello", true, "5"},
		{"chunked_grown", "PUT", "hello", strings.Repeat("x", 100_000), true, "100000"},
		{"chunked_emptied", "PATCH", "hello", "", true, "0"},
		{"from_nothing", "POST", "", "new", false, "3"},
		{"get_stays_without_a_body", "GET", "", "", false, ""},
	} {
		for _, kind := range []string{"bound", "selected"} {
			for _, buffers := range []int{0, 1 << 20} {
				t.Run(fmt.Sprintf("%s_%s_buffers_%d", tc.name, kind, buffers), func(t *testing.T) {
					address, requests := recording(t, plainAnswer)
					proxy := proxyTo("web")
					proxy.options["request_buffers"] = buffers
					s := newFiltered(t, object{"web": web([]string{address}, nil)}, filters(hook(t, kind, replaced(tc.output))), proxy)
					s.handler = slices.Insert(s.handler.(chain), 1, caddyhttp.MiddlewareHandler(unread{t}))
					r := s.request(t, tc.method, "/", tc.body)
					if tc.chunked {
						r.ContentLength = -1
						r.Trailer = http.Header{"X-Sum": {"1"}}
					}
					r.Header.Set("Content-Digest", "sha-256=:x:")
					s.send(t, r).want(t, http.StatusOK)
					got := only(t, requests)
					if got.body != tc.output || got.header.Get("Content-Length") != tc.length {
						t.Errorf("got %q with Content-Length %q, want %q", got.body, got.header.Get("Content-Length"), tc.output)
					}
					checkAbsent(t, got.header, "Transfer-Encoding", "Trailer", "Content-Digest")
					s.quiet(t)
				})
			}
		}
	}
}

// TestFilteredRefusals checks that what filters refuse reaches no endpoint, and is nobody's failure.
func TestFilteredRefusals(t *testing.T) {
	failing := func(*pipeline.Exchange, *pipeline.Chunk) error { return errors.New("broken") }
	canceled := func(*pipeline.Exchange, *pipeline.Chunk) error { return pipeline.Reject(503, context.Canceled) }
	for _, tc := range []struct {
		name   string
		hook   bodyHook
		status int
	}{
		{"rejected", refusing(403), 403},
		{"rejected_as_if_unavailable", refusing(503), 503},
		{"H94_H96_too_long", replaced(strings.Repeat("x", 1001)), 413},
		{"failed", failing, 500},
		{"panicked", func(*pipeline.Exchange, *pipeline.Chunk) error { panic("oops") }, 500},
		{"rejected_because_of_something_canceled", canceled, 503},
	} {
		for _, kind := range []string{"bound", "selected"} {
			t.Run(tc.name+"_"+kind, func(t *testing.T) {
				b := newBackend(t, echo)
				config := web([]string{b.address}, with(retryAll(nil), object{"passive": object{"fall": 1}, "limits": object{"max_requests": 1}}))
				s := newFiltered(t, object{"web": config}, limited(1000, hook(t, kind, tc.hook)), proxyTo("web"))
				for range 3 {
					s.do(t, "POST", "hello").want(t, tc.status)
				}
				if got := b.accepted.Load(); got != 0 {
					t.Errorf("got %d connections, want 0", got)
				}
				if got := failuresOf(t, b.address); got != 0 {
					t.Errorf("got a streak of %d failures, want 0", got)
				}
				s.quiet(t)
			})
		}
	}
}

// TestFilteredAtTheLimit checks that a body which is exactly as long as allowed goes on.
func TestFilteredAtTheLimit(t *testing.T) {
	for _, kind := range []string{"bound", "selected"} {
		b := newBackend(t, echo)
		long := strings.Repeat("x", 1000)
		s := newFiltered(t, object{"web": web([]string{b.address}, nil)}, limited(1000, hook(t, kind, replaced(long))), proxyTo("web"))
		r := s.do(t, "POST", "hello")
		r.want(t, http.StatusOK)
		if r.body != "POST "+long {
			t.Errorf("%s: got a body of %d bytes, want 1005", kind, len(r.body))
		}
	}
}

// TestH95_AnsweredElsewhere checks that filters for endpoints have no part in a request that goes to none.
func TestH95_AnsweredElsewhere(t *testing.T) {
	var ran atomic.Int32
	s := newFiltered(t, object{"web": web([]string{dead(t)}, nil)},
		filters(hook(t, "bound", counting(&ran, kept)), hook(t, "selected", counting(&ran, kept))),
		handler{"static_response", object{"status_code": 204}})
	s.do(t, "POST", "hello").want(t, http.StatusNoContent)
	if got := ran.Load(); got != 0 {
		t.Errorf("got %d calls, want 0", got)
	}
	s.quiet(t)
}

// TestH97_OneCluster checks that a request which is bound to a cluster can't go to another.
func TestH97_OneCluster(t *testing.T) {
	first := newBackend(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	second := newBackend(t, echo)
	for _, tc := range []struct {
		name, second string
		status       int
	}{
		{"another", "other", http.StatusInternalServerError},
		{"the_same", "web", http.StatusNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var bound atomic.Int32
			proxy := proxyTo("web")
			proxy.options["handle_response"] = []object{{
				"match":  object{"status_code": []int{404}},
				"routes": []object{{"handle": []object{{"handler": "cluster_proxy", "cluster": tc.second}}}},
			}}
			s := newFiltered(t, object{"web": web([]string{first.address}, nil), "other": web([]string{second.address}, nil)},
				filters(hook(t, "bound", counting(&bound, tagged("bound")))), proxy)
			s.do(t, "POST", "hello").want(t, tc.status)
			if got := bound.Load(); got != 1 {
				t.Errorf("got %d bindings, want 1", got)
			}
			s.quiet(t)
		})
	}
	if got := second.accepted.Load(); got != 0 {
		t.Errorf("got %d connections to the other cluster, want 0", got)
	}
}

// TestRefusedBindingStands checks that what was refused once isn't sent when somebody tries again.
func TestRefusedBindingStands(t *testing.T) {
	b := newBackend(t, echo)
	again := []object{{"handle": []object{{"handler": "cluster_proxy", "cluster": "web"}}}}
	s := newFiltered(t, object{"web": web([]string{b.address}, nil)}, filters(hook(t, "bound", refusing(403))),
		handler{"subroute", object{"routes": again, "errors": object{"routes": again}}})
	s.do(t, "POST", "hello").want(t, http.StatusForbidden)
	if got := b.accepted.Load(); got != 0 {
		t.Errorf("got %d connections, want 0", got)
	}
	s.quiet(t)
}

// TestH98_BoundOnce checks that a body is bound once, however often the request goes round in the pipeline.
func TestH98_BoundOnce(t *testing.T) {
	var bound, selected, seen atomic.Int32
	b := newBackend(t, echo)
	loop := object{
		"name": "loop", "filter": object{"filter": "test_loop"},
		"branches": []object{{"name": "back", "on_result": object{"result": "again"}, "rejoin": "loop", "max_iterations": 5}},
	}
	s := newFiltered(t, object{"web": web([]string{b.address}, nil)}, filters(
		hook(t, "body", counting(&seen, kept)),
		hook(t, "bound", counting(&bound, tagged("bound"))), loop, hook(t, "selected", counting(&selected, kept))), proxyTo("web"))
	r := s.do(t, "POST", "hello")
	r.want(t, http.StatusOK)
	if r.body != "POST hello bound=web," {
		t.Errorf("got %q", r.body)
	}
	if got := [...]int32{seen.Load(), bound.Load(), selected.Load()}; got != [...]int32{1, 1, 1} {
		t.Errorf("got %v calls, want one each", got)
	}
	s.quiet(t)
}

// TestWithoutABody checks which requests the filters have no part in, because no body goes to the endpoint.
func TestWithoutABody(t *testing.T) {
	address, requests := recording(t, plainAnswer)
	rewritten := proxyTo("web")
	rewritten.options["rewrite"] = object{"method": "GET"}
	for _, tc := range []struct {
		name, method, body string
		upgrade            bool
		proxy              handler
		want               string
		calls              int32
	}{
		{"upgrade", "GET", "", true, proxyTo("web"), "", 0},
		{"upgrade_with_a_body", "GET", "hello", true, proxyTo("web"), "made", 1},
		{"rewritten_to_get", "POST", "hello", false, rewritten, "", 0},
		{"get_rewritten_to_get", "GET", "hello", false, rewritten, "", 0},
		{"get", "GET", "hello", false, proxyTo("web"), "made", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var calls atomic.Int32
			s := newFiltered(t, object{"web": web([]string{address}, nil)},
				filters(hook(t, "selected", counting(&calls, replaced("made")))), tc.proxy)
			r := s.request(t, tc.method, "/", tc.body)
			if tc.upgrade {
				r.Header.Set("Connection", "Upgrade")
				r.Header.Set("Upgrade", "websocket")
			}
			s.send(t, r).want(t, http.StatusOK)
			if got := only(t, requests); got.body != tc.want || calls.Load() != tc.calls {
				t.Errorf("got %q after %d calls, want %q after %d", got.body, calls.Load(), tc.want, tc.calls)
			}
			s.quiet(t)
		})
	}
	t.Run("upgrade_that_is_not_passed_on", func(t *testing.T) {
		s := newFiltered(t, object{"web": web([]string{address}, nil)}, filters(hook(t, "selected", replaced("made"))), proxyTo("web"))
		for _, header := range []http.Header{
			{"Connection": {"Upgrade"}, "Upgrade": {"other"}}, {"Upgrade": {"websocket"}},
		} {
			r := s.request(t, "POST", "/", "")
			r.Header = header
			s.send(t, r).want(t, http.StatusOK)
			if got := only(t, requests); got.body != "made" {
				t.Errorf("%v: got %q, want what the filter has made", header, got.body)
			}
		}
	})
}

// TestZ114_ExpectContinue checks that a client which waits for 100 gets one, and the endpoint what filters made of the body,
// without an Expect of its own.
func TestZ114_ExpectContinue(t *testing.T) {
	address, requests := recording(t, plainAnswer)
	s := newFiltered(t, object{"web": web([]string{address}, nil)}, filters(hook(t, "selected", replaced("hello, world"))), proxyTo("web"))
	c := sites.Dial(t, s.Server)
	fmt.Fprint(c, lines("POST / HTTP/1.1", "Host: a.example", "Expect: 100-continue", "Content-Length: 5", "Connection: close"))
	if m, err := readMessage(c.Reader); m.line != "HTTP/1.1 100 Continue" {
		t.Fatalf("got %q, %v, want 100", m.line, err)
	}
	fmt.Fprint(c, "hello")
	if got := rest(t, c.Reader); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") {
		t.Errorf("got %q, want the answer and nothing before it", got)
	}
	got := only(t, requests)
	if got.body != "hello, world" || got.header.Get("Content-Length") != "12" {
		t.Errorf("got %q with Content-Length %q", got.body, got.header.Get("Content-Length"))
	}
	checkAbsent(t, got.header, "Expect")
	s.quiet(t)
}
