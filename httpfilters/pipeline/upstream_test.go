package pipeline

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// upstreamHook is a hook for upstream bodies.
type upstreamHook func(x *Exchange, c *Chunk) error

// binds and selects are filters for upstream bodies.
func binds(hook upstreamHook) entry { return entry{name: "b", bound: onBound{ReadWrite, hook}} }

func selects(hook upstreamHook) entry { return entry{name: "s", selected: onSelected{ReadWrite, hook}} }

// putsBehind is a hook that puts a text behind the body.
func putsBehind(text string) upstreamHook {
	return func(_ *Exchange, c *Chunk) error {
		c.Replace(append(bytes.Clone(c.Bytes()), text...))
		return nil
	}
}

// pass passes a request by handlers, each the next of the one before, to one that knows clusters.
func pass(t *testing.T, body string, next func(r *http.Request) error, handlers ...*Handler) (*httptest.ResponseRecorder, error) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	var last caddyhttp.Handler = caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error { return next(r) })
	for _, h := range slices.Backward(handlers) {
		inner := last
		last = caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, inner) })
	}
	err := last.ServeHTTP(w, r)
	for _, h := range handlers {
		if held := h.budget.Held.Load(); held != 0 {
			t.Errorf("got %d bytes held, want 0", held)
		}
	}
	return w, err
}

// wantStatus checks the status with which an error is answered; 0 is no error.
func wantStatus(t *testing.T, what string, err error, status int) {
	t.Helper()
	got := 0
	if err != nil {
		got = sites.Status(err)
	}
	if got != status {
		t.Errorf("%s: got %d (%v), want %d", what, got, err, status)
	}
}

// sent returns what goes to an endpoint.
func sent(t *testing.T, b *Bodies, endpoint string) string {
	t.Helper()
	p, err := b.Select(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(p.Open())
	if err != nil || int64(len(got)) != p.Len() {
		t.Fatalf("got %q, %v, want %d bytes", got, err, p.Len())
	}
	return string(got)
}

func TestBodiesOf(t *testing.T) {
	for _, tt := range []struct {
		name  string
		entry entry
		want  bool
	}{
		{"bound", binds(putsBehind("!")), true},
		{"selected", selects(putsBehind("!")), true},
		{"request", entry{request: onRequest(func(*Exchange) error { return nil })}, false},
	} {
		_, _ = pass(t, "x", func(r *http.Request) error {
			if got := BodiesOf(r) != nil; got != tt.want {
				t.Errorf("%s: got bodies %v, want %v", tt.name, got, tt.want)
			}
			return nil
		}, newHandler(t, tt.entry))
	}
}

func TestBind(t *testing.T) {
	calls := 0
	h := newHandler(t, binds(func(x *Exchange, c *Chunk) error {
		calls++
		return putsBehind(" to "+x.Cluster())(x, c)
	}), selects(func(x *Exchange, c *Chunk) error { return putsBehind(" at "+x.Endpoint())(x, c) }))
	_, err := pass(t, "body", func(r *http.Request) error {
		b := BodiesOf(r)
		_, err := b.Select("e")
		wantStatus(t, "unbound", err, 500)
		wantStatus(t, "first", b.Bind("web"), 0)
		for _, e := range []string{"e1", "e2"} {
			if got, want := sent(t, b, e), "body to web at "+e; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		wantStatus(t, "again", b.Bind("web"), 0)
		if got := b.Size(); got != int64(len("body to web")) {
			t.Errorf("got size %d", got)
		}
		return b.Bind("other")
	}, h)
	wantStatus(t, "another cluster", err, 500)
	if calls != 1 {
		t.Errorf("got %d bindings, want 1", calls)
	}
}

// TestRefusedBind checks that a refusal stands, whoever tries again.
func TestRefusedBind(t *testing.T) {
	h := newHandler(t, binds(func(*Exchange, *Chunk) error { return Reject(451, errors.New("no")) }))
	_, err := pass(t, "body", func(r *http.Request) error {
		b := BodiesOf(r)
		wantStatus(t, "first", b.Bind("web"), 451)
		wantStatus(t, "again", b.Bind("web"), 451)
		_, err := b.Select("e")
		return err
	}, h)
	wantStatus(t, "for an endpoint", err, 451)
}

// TestBindTwice checks that a body which the second pipeline has bound isn't bound again by the first, nor sent once its
// memory is gone.
func TestBindTwice(t *testing.T) {
	calls := 0
	outer := newHandler(t, binds(func(x *Exchange, c *Chunk) error {
		calls++
		return putsBehind(" 1")(x, c)
	}))
	inner := newHandler(t, binds(putsBehind(" 2")))
	_, err := pass(t, "body", func(r *http.Request) error {
		first, again := BodiesOf(r), r.WithContext(r.Context())
		through := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
			b := BodiesOf(r)
			if err := b.Bind("web"); err != nil {
				return err
			}
			if got := sent(t, b, "e"); got != "body 1 2" {
				t.Errorf("got %q", got)
			}
			return nil
		})
		wantStatus(t, "second pipeline", inner.ServeHTTP(httptest.NewRecorder(), r, through), 0)
		if BodiesOf(r) != first {
			t.Error("got the bodies of a pipeline that is over")
		}
		wantStatus(t, "second pipeline again", inner.ServeHTTP(httptest.NewRecorder(), again, through), 500)
		_, err := first.Select("e")
		wantStatus(t, "first pipeline, for an endpoint", err, 500)
		return first.Bind("web")
	}, outer)
	wantStatus(t, "first pipeline", err, 500)
	if calls != 1 {
		t.Errorf("got %d bindings, want 1", calls)
	}
}

// TestPayloadEnds checks that a payload can be read as often as one likes, until there is another, or the request is over.
func TestPayloadEnds(t *testing.T) {
	var last io.Reader
	_, _ = pass(t, "body", func(r *http.Request) error {
		b := BodiesOf(r)
		wantStatus(t, "bind", b.Bind("web"), 0)
		first, _ := b.Select("e1")
		old := first.Open()
		for range 2 {
			if got, err := io.ReadAll(first.Open()); string(got) != "body!" {
				t.Errorf("got %q, %v", got, err)
			}
		}
		second, _ := b.Select("e2")
		if n, err := old.Read(make([]byte, 9)); n != 0 || !errors.Is(err, errBodyClosed) {
			t.Errorf("got %d bytes, %v of an earlier payload", n, err)
		}
		last = second.Open()
		_, err := io.ReadFull(last, make([]byte, 2))
		return err
	}, newHandler(t, selects(putsBehind("!"))))
	if n, err := last.Read(make([]byte, 9)); n != 0 || !errors.Is(err, errBodyClosed) {
		t.Errorf("got %d bytes, %v after the request", n, err)
	}
}

// TestPayloadHeader checks what a header says of a body that filters have changed.
func TestPayloadHeader(t *testing.T) {
	for name, want := range map[string]string{"": "x", "!": ""} {
		_, _ = pass(t, "body", func(r *http.Request) error {
			b := BodiesOf(r)
			wantStatus(t, "bind", b.Bind("web"), 0)
			p, _ := b.Select("e")
			header := http.Header{"Content-Digest": {"x"}}
			if got := p.Header(header).Get("Content-Digest"); got != want || header.Get("Content-Digest") != "x" {
				t.Errorf("appending %q: got %q, want %q", name, got, want)
			}
			return nil
		}, newHandler(t, selects(func(x *Exchange, c *Chunk) error {
			if name == "" {
				return nil
			}
			return putsBehind(name)(x, c)
		})))
	}
}

// TestUnbound checks when it is said that filters for upstream bodies had no part.
func TestUnbound(t *testing.T) {
	for _, tt := range []struct {
		name string
		next func(b *Bodies) error
		want int
	}{
		{"answered_elsewhere", func(*Bodies) error { return nil }, 1},
		{"bound", func(b *Bodies) error { return b.Bind("web") }, 0},
		{"no_body_to_send", func(b *Bodies) error { b.Skip(); return nil }, 0},
		{"failed", func(*Bodies) error { return errors.New("broken") }, 0},
	} {
		core, logs := observer.New(zap.WarnLevel)
		outer, inner := newHandler(t, binds(putsBehind("1"))), newHandler(t, binds(putsBehind("2")))
		outer.logger, inner.logger = zap.New(core), zap.New(core)
		for range 3 {
			_, _ = pass(t, "x", func(r *http.Request) error { return tt.next(BodiesOf(r)) }, outer, inner)
		}
		if got := logs.Len(); got != 2*tt.want {
			t.Errorf("%s: got %d warnings, want %d of each pipeline", tt.name, got, tt.want)
		}
	}
}

// TestPastTheFilters checks that nobody reads a body past filters that must see it, whatever became of them.
func TestPastTheFilters(t *testing.T) {
	refuses := binds(func(*Exchange, *Chunk) error { return Reject(http.StatusForbidden, errors.New("no")) })
	for name, tc := range map[string]struct {
		e    entry
		does func(b *Bodies)
	}{
		"nothing": {binds(putsBehind("1")), func(*Bodies) {}},
		"skipped": {binds(putsBehind("1")), func(b *Bodies) { b.Skip() }},
		"bound":   {binds(putsBehind("1")), func(b *Bodies) { _ = b.Bind("web") }},
		"refused": {refuses, func(b *Bodies) { _ = b.Bind("web") }},
	} {
		var got []byte
		_, err := pass(t, "secret", func(r *http.Request) (err error) {
			tc.does(BodiesOf(r))
			got, err = io.ReadAll(r.Body)
			return err
		}, newHandler(t, tc.e))
		if len(got) > 0 {
			t.Errorf("%s: got %q past the filters", name, got)
		}
		wantStatus(t, name, err, 500)
	}
}

// TestUpstreamBudget checks that a client whose body finds no memory learns when to try again.
func TestUpstreamBudget(t *testing.T) {
	for name, e := range map[string]entry{"bound": binds(putsBehind("more")), "selected": selects(putsBehind("more"))} {
		h := newHandler(t, e)
		h.budget.Limit = 3
		w, err := pass(t, "", func(r *http.Request) error {
			b := BodiesOf(r)
			if err := b.Bind("web"); err != nil {
				return err
			}
			_, err := b.Select("e")
			return err
		}, h)
		if err != nil || w.Code != http.StatusServiceUnavailable { // without error routes it is no error, and no line in the log
			t.Errorf("%s: got status %d, %v, want 503", name, w.Code, err)
		}
		if got := w.Header().Get("Retry-After"); got != retryAfterBudget {
			t.Errorf("%s: got Retry-After %q, want %q", name, got, retryAfterBudget)
		}
	}
}

// TestUpstreamPanics checks that a hook which panics ends the request, and nothing waits for it.
func TestUpstreamPanics(t *testing.T) {
	for name, what := range map[string]any{"broken": "broken", "abort": http.ErrAbortHandler} {
		h := newHandler(t, binds(func(*Exchange, *Chunk) error { panic(what) }))
		_, err := pass(t, "x", func(r *http.Request) error { return BodiesOf(r).Bind("web") }, h)
		wantStatus(t, name, err, 500)
	}
}
