package clusterproxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-sluice/sluice/httpfilters/pipeline"
)

// inputs keeps what a hook gets.
type inputs struct {
	mu  sync.Mutex
	got []string
}

// noting is a hook that does what another does, and keeps what it gets.
func (in *inputs) noting(hook bodyHook) bodyHook {
	return func(x *pipeline.Exchange, c *pipeline.Chunk) error {
		in.mu.Lock()
		in.got = append(in.got, string(c.Bytes()))
		in.mu.Unlock()
		return hook(x, c)
	}
}

// TestFilteredRetry checks that each attempt gets the body that is made for its endpoint, from the same one.
func TestFilteredRetry(t *testing.T) {
	bodies := make(chan string, 8)
	broken := newRaw(t, func(_ int, c net.Conn) {
		if _, body, err := readRequest(c); err == nil {
			bodies <- string(body)
		}
	})
	refused, live := dead(t), newBackend(t, echo)
	var bound atomic.Int32
	var selected inputs
	config := web([]string{refused, broken.address, live.address}, retryAll(nil))
	s := newFiltered(t, object{"web": config}, filters(
		hook(t, "bound", counting(&bound, tagged("bound"))), hook(t, "selected", selected.noting(tagged("selected")))), proxyTo("web"))
	r := s.request(t, "POST", "/", "hello")
	r.ContentLength = -1
	t.Run("H115_the_same_body", func(t *testing.T) {
		got := s.send(t, r)
		got.want(t, http.StatusOK)
		if want := "POST hello bound=web, selected=web," + live.address; got.body != want {
			t.Errorf("got %q, want %q", got.body, want)
		}
		if got, want := <-bodies, "hello bound=web, selected=web,"+broken.address; got != want {
			t.Errorf("got %q at the first endpoint, want %q", got, want)
		}
		if want := strings.Repeat("hello bound=web,;", 3); strings.Join(selected.got, ";")+";" != want || bound.Load() != 1 {
			t.Errorf("got %q after %d bindings, want %q after one", selected.got, bound.Load(), want)
		}
	})
	s.quiet(t)
}

// TestFilteredRetryLimit checks that a request isn't tried again if its body is, or was, longer than that.
func TestFilteredRetryLimit(t *testing.T) {
	small, large := strings.Repeat("x", 65536), strings.Repeat("x", 65537)
	for _, tc := range []struct {
		name, sent, seen, bound, selected string
		settings                          object
		status                            int
	}{
		{"H113_at_the_limit", small, small, small, small, nil, 200},
		{"H113_above_the_limit", large, large, large, large, nil, 502},
		{"H114_grown_to_the_limit", "x", "x", "x", small, nil, 200},
		{"H114_grown_for_the_endpoint", "x", "x", "x", large, nil, 502},
		{"H114_grown_for_the_cluster", "x", "x", large, "x", nil, 502},
		{"H114_grown_before", "x", large, "x", "x", nil, 502},
		{"H114_shrunk", large, "x", "x", "x", nil, 502},
		{"without_a_limit_for_bodies", "x", "x", "x", "", retryAll(object{"body_limit": 0}), 502},
		{"H113_default_methods", "x", "x", "x", "x", object{}, 502},
	} {
		t.Run(tc.name, func(t *testing.T) {
			settings := tc.settings
			if settings == nil {
				settings = retryAll(nil)
			}
			live, broken := newBackend(t, echo), resetAfter(t, 1)
			s := newFiltered(t, object{"web": web([]string{broken.address, live.address}, settings)}, filters(
				hook(t, "body", replaced(tc.seen)), hook(t, "bound", replaced(tc.bound)), hook(t, "selected", replaced(tc.selected))),
				proxyTo("web"))
			s.do(t, "POST", tc.sent).want(t, tc.status)
			want := int32(0)
			if tc.status == http.StatusOK {
				want = 1
			}
			if got := live.requests.Load(); got != want {
				t.Errorf("got %d requests at the other endpoint, want %d", got, want)
			}
			s.quiet(t)
		})
	}
	t.Run("H114_refused_connection", func(t *testing.T) {
		live := newBackend(t, echo)
		s := newFiltered(t, object{"web": web([]string{dead(t), live.address}, retryAll(nil))},
			filters(hook(t, "selected", replaced(large))), proxyTo("web"))
		s.do(t, "POST", "x").want(t, http.StatusBadGateway)
		s.quiet(t)
	})
}

// TestFilteredRefusalOfARetry checks that a retry which a filter refuses is answered so, and is nobody's failure.
func TestFilteredRefusalOfARetry(t *testing.T) {
	broken, live := resetAfter(t, 1), newBackend(t, echo)
	var calls atomic.Int32
	second := func(x *pipeline.Exchange, c *pipeline.Chunk) error {
		if calls.Add(1) > 1 {
			return refusing(422)(x, c)
		}
		return nil
	}
	settings := with(retryAll(nil), object{"passive": object{"fall": 5}})
	s := newFiltered(t, object{"web": web([]string{broken.address, live.address, dead(t)}, settings)},
		filters(hook(t, "selected", second)), proxyTo("web"))
	s.do(t, "POST", "hello").want(t, http.StatusUnprocessableEntity)
	if got := [...]int{int(calls.Load()), int(live.accepted.Load()), failuresOf(t, live.address)}; got != [...]int{2, 0, 0} {
		t.Errorf("got calls, connections and failures %v, want 2 0 0", got)
	}
	s.quiet(t)
}

// TestFilteredCrowd checks that a body of any length goes to another endpoint if the first has no room: nothing was sent.
func TestFilteredCrowd(t *testing.T) {
	release, inside := make(chan struct{}), make(chan struct{})
	busy := newBackend(t, func(http.ResponseWriter, *http.Request) {
		inside <- struct{}{}
		<-release
	})
	live := newBackend(t, echo)
	large := strings.Repeat("x", 100_000)
	config := web(nil, object{"endpoints": []object{
		{"address": busy.address, "limits": object{"max_connections": 1}}, {"address": live.address},
	}})
	s := newFiltered(t, object{"web": config}, filters(hook(t, "selected", replaced(large))), proxyTo("web"))
	var first sync.WaitGroup
	first.Go(func() { s.do(t, "POST", "1") })
	<-inside
	r := s.do(t, "POST", "2")
	close(release)
	first.Wait()
	r.want(t, http.StatusOK)
	s.quiet(t)
}

// TestFilteredReplay checks that a stale connection is replaced without asking the filters again: the endpoint is the same.
func TestFilteredReplay(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		bodies := make(chan string, 16)
		stale := newRaw(t, func(_ int, c net.Conn) {
			in := bufio.NewReader(c)
			for n := range 2 {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				body, _ := io.ReadAll(r.Body)
				bodies <- string(body)
				if n == 1 {
					_ = c.(*net.TCPConn).SetLinger(0)
					return
				}
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nraw")
			}
		})
		var selected atomic.Int32
		settings := with(retryAll(nil), object{"passive": object{"fall": 5}})
		s := newFiltered(t, object{"web": web([]string{stale.address}, settings)},
			filters(hook(t, "selected", counting(&selected, tagged("s")))), proxyTo("web"))
		for range 2 {
			s.do(t, method, "hello").want(t, http.StatusOK)
		}
		if got := s.placeholder("replayed") + s.placeholder("retries"); got != "true0" {
			t.Errorf("%s: got replayed and retries %s, want true0", method, got)
		}
		if got := selected.Load(); got != 2 {
			t.Errorf("%s: got %d selections, want 2", method, got)
		}
		if got := len(bodies); got != 3 {
			t.Errorf("%s: got %d requests at the endpoint, want 3", method, got)
		}
		for len(bodies) > 0 {
			if got, want := <-bodies, "hello s=web,"+stale.address; got != want {
				t.Errorf("%s: got %q, want %q", method, got, want)
			}
		}
		s.quiet(t)
	}
}

// TestTwoPipelines checks that bodies pass the filters of both pipelines, those of the first one first.
func TestTwoPipelines(t *testing.T) {
	broken, live := resetAfter(t, 1), newBackend(t, echo)
	two := func(name string) handler {
		return filters(hook(t, "bound", tagged("b"+name)), hook(t, "selected", tagged("s"+name)))
	}
	s := newFiltered(t, object{"web": web([]string{broken.address, live.address}, retryAll(nil))}, two("1"), two("2"), proxyTo("web"))
	r := s.do(t, "POST", "hello")
	r.want(t, http.StatusOK)
	to := "=web," + live.address
	if want := "POST hello b1=web, b2=web, s1" + to + " s2" + to; r.body != want {
		t.Errorf("got %q, want %q", r.body, want)
	}
	s.quiet(t)
	t.Run("one_without_filters_for_endpoints", func(t *testing.T) {
		live := newBackend(t, echo)
		s := newFiltered(t, object{"web": web([]string{live.address}, nil)}, two("1"), filters(hook(t, "body", kept)), proxyTo("web"))
		if r := s.do(t, "POST", "hello"); r.body != "POST hello b1=web, s1=web,"+live.address {
			t.Errorf("got %q", r.body)
		}
		s.quiet(t)
	})
	t.Run("refused_by_the_first", func(t *testing.T) {
		live := newBackend(t, echo)
		s := newFiltered(t, object{"web": web([]string{live.address}, nil)}, filters(hook(t, "selected", refusing(403))), two("2"), proxyTo("web"))
		s.do(t, "POST", "hello").want(t, http.StatusForbidden)
		s.quiet(t)
	})
}

// TestFilteredEarlyAnswer has an endpoint answer without reading the body, so that it may still be sent when the request
// is over, and the memory is another's.
func TestFilteredEarlyAnswer(t *testing.T) {
	b := newRaw(t, func(_ int, c net.Conn) {
		if _, err := bufio.NewReaderSize(c, 16).ReadString('\n'); err != nil {
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
		_, _ = io.Copy(io.Discard, c)
	})
	s := newFiltered(t, object{"web": web([]string{b.address}, retryAll(nil))},
		filters(hook(t, "bound", tagged("b")), hook(t, "selected", tagged("s"))), proxyTo("web"))
	body := strings.Repeat("x", 4<<20)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 4 {
				if r := s.do(t, "POST", body); r.status != http.StatusOK {
					t.Errorf("got %d, %v", r.status, r.err)
				}
			}
		})
	}
	all.Wait()
	s.quiet(t)
}

// TestFilteredHTTP2 checks that an endpoint with HTTP/2 gets the length too.
func TestFilteredHTTP2(t *testing.T) {
	b := secure(t, true, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, r.Proto, " ", r.ContentLength, " ", string(body))
	})
	set := object{"tls": object{"insecure_skip_verify": true}}
	s := newFiltered(t, object{"web": web([]string{b.address}, set)}, filters(hook(t, "selected", replaced("made"))), proxyTo("web"))
	r := s.request(t, "POST", "/", "hello")
	r.ContentLength = -1
	if got := s.send(t, r); got.body != "HTTP/2.0 4 made" {
		t.Errorf("got %q", got.body)
	}
	s.quiet(t)
}
