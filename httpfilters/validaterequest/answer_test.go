package validaterequest

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestAnswersAreCleaned sends reserved headers from the backend in every way there is (H49).
func TestAnswersAreCleaned(t *testing.T) {
	set := func(w http.ResponseWriter) {
		w.Header().Set("X-Sluice-Secret", "a")
		w.Header()["x_sluice_other"] = []string{"b"}
		w.Header().Set("X-Kept", "c")
	}
	for _, tc := range []struct {
		name    string
		backend http.HandlerFunc
		status  int
		body    string
	}{
		{"H49_header", func(w http.ResponseWriter, _ *http.Request) {
			set(w)
			w.WriteHeader(http.StatusTeapot)
		}, http.StatusTeapot, ""},
		{"H49_write", func(w http.ResponseWriter, _ *http.Request) {
			set(w)
			_, _ = io.WriteString(w, "x")
		}, http.StatusOK, "x"},
		{"H49_read_from", func(w http.ResponseWriter, _ *http.Request) {
			set(w)
			_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("x"))
		}, http.StatusOK, "x"},
		{"H49_flush", func(w http.ResponseWriter, _ *http.Request) {
			set(w)
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "x")
		}, http.StatusOK, "x"},
		{"H49_nothing_written", func(w http.ResponseWriter, _ *http.Request) { set(w) }, http.StatusOK, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t, `{}`)
			s.backend = tc.backend
			got := s.exchange(t, lines("GET / HTTP/1.1", "Host: a.example"))
			if got.status != tc.status || got.body != tc.body || got.header.Get("X-Kept") != "c" {
				t.Errorf("got %+v, want %d %q", got, tc.status, tc.body)
			}
			checkClean(t, got.header)
		})
	}
}

// checkClean checks that nothing reserved is in a header.
func checkClean(t *testing.T, header http.Header) {
	t.Helper()
	for name := range header {
		if folded := strings.ReplaceAll(strings.ToLower(name), "_", "-"); strings.HasPrefix(folded, "x-sluice-") {
			t.Errorf("got header %s", name)
		}
	}
}

// TestTrailersAreCleaned sends reserved trailers, announced and not.
func TestTrailersAreCleaned(t *testing.T) {
	s := newSite(t, `{}`)
	s.backend = func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Trailer"] = []string{"X-Sluice-A, X-Sum", "X-Sluice-B"}
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
		w.Header().Set("X-Sluice-A", "1")
		w.Header().Set("X-Sum", "2")
		w.Header().Set(http.TrailerPrefix+"X-Sluice-C", "3")
		w.Header().Set(http.TrailerPrefix+"X-Late", "4")
	}
	got := s.exchange(t, lines("GET / HTTP/1.1", "Host: a.example"))
	if got.trailer.Get("X-Sum") != "2" || got.trailer.Get("X-Late") != "4" || len(got.trailer) != 2 {
		t.Errorf("got trailers %v, want X-Sum and X-Late", got.trailer)
	}
}

// TestAnnouncements checks what is left of announced trailers.
func TestAnnouncements(t *testing.T) {
	h := load(t, `{}`)
	for _, tc := range []struct {
		lines []string
		want  string
	}{
		{[]string{"X-Sum"}, "X-Sum"},
		{[]string{"X-Sluice-A"}, ""},
		{[]string{"X-Sum ,X-Sluice-A", "X-Other"}, "X-Sum, X-Other"},
	} {
		header := http.Header{"Trailer": tc.lines}
		removeFrom(h.reserved, header)
		if got := strings.Join(header["Trailer"], "|"); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.lines, got, tc.want)
		}
	}
}

// TestInformationalAnswers checks that each of several headers is cleaned.
func TestInformationalAnswers(t *testing.T) {
	s := newSite(t, `{}`)
	s.backend = func(w http.ResponseWriter, _ *http.Request) {
		for _, status := range []int{http.StatusEarlyHints, http.StatusEarlyHints, http.StatusNoContent} {
			w.Header().Set("X-Sluice-A", "1")
			w.Header().Set("X-Kept", "c")
			w.WriteHeader(status)
		}
	}
	c := s.dial(t)
	c.write(lines("GET / HTTP/1.1", "Host: a.example"))
	for _, want := range []int{http.StatusEarlyHints, http.StatusEarlyHints, http.StatusNoContent} {
		got := c.read(t, http.MethodGet)
		if got.status != want || got.header.Get("X-Kept") != "c" {
			t.Errorf("got %+v, want %d", got, want)
		}
		checkClean(t, got.header)
	}
}

// TestUpgrade checks that a connection can be taken over behind the handler.
func TestUpgrade(t *testing.T) {
	s := newSite(t, `{}`)
	s.backend = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("X-Sluice-A", "1")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		line, _ := buffered.ReadString('\n')
		_, _ = io.WriteString(conn, "echo "+line)
	}
	c := s.dial(t)
	c.write(lines("GET / HTTP/1.1", "Host: a.example", "Connection: Upgrade", "Upgrade: websocket"))
	res, err := http.ReadResponse(c.Reader, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v, want 101", res, err)
	}
	checkClean(t, res.Header)
	c.write("hello\n")
	if got, _ := bufio.NewReader(io.MultiReader(res.Body, c.Reader)).ReadString('\n'); got != "echo hello\n" {
		t.Errorf("got %q", got)
	}
}

// TestAnsweredHere sends requests that go no further.
func TestAnsweredHere(t *testing.T) {
	s := newSite(t, `{}`)
	secrets := []string{
		"Authorization: Basic s", "Cookie: a=s", "Proxy-Authorization: s", "Set-Cookie: a=s", "X-Api-Key: s", "X-CSRF-Token: s",
	}
	request := append([]string{"TRACE /a?b HTTP/1.1", "Host: a.example", "Max-Forwards: 0", "X-B: 2", "X-B: 3", "X-A: \xff"}, secrets...)
	got := s.exchange(t, lines(request...))
	want := "TRACE /a?b HTTP/1.1\r\nHost: a.example\r\nMax-Forwards: 0\r\nX-A: [binary]\r\nX-B: 2\r\nX-B: 3\r\n\r\n"
	if got.status != 200 || got.body != want || got.header.Get("Content-Type") != "message/http" {
		t.Errorf("H25 TRACE: got %+v, want body %q", got, want)
	}
	for _, value := range []string{"0", " 0\t", "000"} {
		got = s.exchange(t, lines("OPTIONS / HTTP/1.1", "Host: a.example", "Max-Forwards: "+value))
		if got.status != 200 || got.body != "" || got.header.Get("Content-Length") != "0" || got.header.Get("Content-Type") != "" {
			t.Errorf("H26 OPTIONS %q: got %+v, want 200 without a body", value, got)
		}
	}
	if requests := s.taken(); len(requests) > 0 {
		t.Errorf("got %d requests at the backend, want none", len(requests))
	}
	// The rules come first.
	if got := s.exchange(t, lines("OPTIONS / HTTP/1.1", "Host: a.example", "Max-Forwards: 0", "X-Sluice-A: 1")); got.status != 400 {
		t.Errorf("with a reserved header: got %d, want 400", got.status)
	}
}

// TestMaxForwardsOnce has several handlers in the way of a request. They are one hop.
func TestMaxForwardsOnce(t *testing.T) {
	one, other := load(t, `{}`), load(t, `{"encoded_slashes":"refuse"}`)
	none := load(t, `{"max_forwards":"off"}`)
	for _, tc := range []struct {
		name       string
		handlers   []*Handler
		sent, want string
	}{
		{"two", []*Handler{one, other}, "5", "4"},
		{"two, to the last hop", []*Handler{one, other}, "1", "0"},
		{"the same twice", []*Handler{one, one}, "5", "4"},
		{"the first takes no notice", []*Handler{none, one}, "5", "4"},
		{"none takes notice", []*Handler{none, none}, "5", "5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodOptions, "/", http.NoBody)
			r.Header.Set("Max-Forwards", tc.sent)
			r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, new(caddyhttp.Server))
			var next caddyhttp.Handler = caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
				if got := r.Header.Get("Max-Forwards"); got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
				return errors.New("came through")
			})
			for _, h := range slices.Backward(tc.handlers) {
				behind := next
				next = caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, behind) })
			}
			if err := next.ServeHTTP(httptest.NewRecorder(), r); err == nil {
				t.Error("got an answer, want the request at the last handler")
			}
		})
	}
}

// discard is a writer that says whether ReadFrom was reached.
type discard struct {
	header   http.Header
	readFrom bool
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}
func (d *discard) ReadFrom(r io.Reader) (int64, error) {
	d.readFrom = true
	return io.Copy(io.Discard, r)
}

// TestReadFromIsKept checks that files can still be sent by the kernel.
func TestReadFromIsKept(t *testing.T) {
	h, w := load(t, `{}`), &discard{header: make(http.Header)}
	err := h.ServeHTTP(w, ordinary(), caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		_, err := io.Copy(w, io.LimitReader(strings.NewReader("abc"), 3))
		return err
	}))
	if err != nil || !w.readFrom {
		t.Errorf("got %v, ReadFrom reached %v", err, w.readFrom)
	}
}

// ordinary is a request as browsers make it.
func ordinary() *http.Request {
	r := httptest.NewRequest(http.MethodGet, "https://www.example.com/a/b%20c?d=e", http.NoBody)
	for _, name := range []string{"Accept", "Accept-Encoding", "Accept-Language", "Cookie", "Referer", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "User-Agent", "X-Forwarded-For"} {
		r.Header.Set(name, "some value of the usual length")
	}
	return r
}

// answering is a next handler that answers as backends do.
func answering(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusOK)
	return nil
}

// TestAllocations checks what a request costs that is in order: the one writer, and nothing without reserved names.
func TestAllocations(t *testing.T) {
	for config, want := range map[string]float64{`{}`: 1, `{"reserved_headers":[]}`: 0} {
		h, r := load(t, config), ordinary()
		w := &discard{header: http.Header{"Content-Type": {"text/plain"}}}
		next := caddyhttp.HandlerFunc(answering)
		if got := testing.AllocsPerRun(1000, func() { _ = h.ServeHTTP(w, r, next) }); got > want {
			t.Errorf("%s: got %v allocations, want %v", config, got, want)
		}
	}
}

func BenchmarkHandler(b *testing.B) {
	h, r := load(b, `{}`), ordinary()
	w := &discard{header: http.Header{"Content-Type": {"text/plain"}, "Date": {"x"}, "Server": {"x"}, "Content-Length": {"2"}}}
	next := caddyhttp.HandlerFunc(answering)
	b.ReportAllocs()
	for b.Loop() {
		_ = h.ServeHTTP(w, r, next)
	}
}
