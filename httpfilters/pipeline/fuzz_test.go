package pipeline

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
	"github.com/caddy-sluice/sluice/internal/permit"
	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// FuzzPipeline states the law of the pipeline: what the next handler gets of a request, and the client of its answer, is
// what a model makes of the whole bodies, however they are cut and framed.
func FuzzPipeline(f *testing.F) {
	server := newLawServer(f)
	rng := rand.New(rand.NewPCG(7, 1))
	for range 60 {
		f.Add(randomTape(rng))
	}
	f.Fuzz(func(t *testing.T, decisions []byte) { checkWorld(t, server, decisions) })
}

// TestLaws is FuzzPipeline with many random worlds.
func TestLaws(t *testing.T) {
	server := newLawServer(t)
	rng := rand.New(rand.NewPCG(7, 2))
	kinds := make(map[string]int)
	for range 4000 {
		decisions := randomTape(rng)
		(&tape{decisions}).world().count(kinds)
		if checkWorld(t, server, decisions); t.Failed() {
			return
		}
	}
	for _, kind := range []string{"one of several releases", "all of several release", "fails in the middle", "is read aside"} {
		if kinds[kind] < 10 {
			t.Errorf("got %d worlds in which a body or handler %s, want more", kinds[kind], kind)
		}
	}
}

func randomTape(rng *rand.Rand) []byte {
	b := make([]byte, 60+rng.IntN(300))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func checkWorld(t *testing.T, server *lawServer, decisions []byte) {
	t.Helper()
	w := (&tape{decisions}).world()
	p := newPassage(t, w)
	p.run(server)
	p.check()
	if t.Failed() {
		t.Logf("%v\ncalls %v", w, p.calls)
	}
}

// lawServer serves connections that exist in memory only.
type lawServer struct {
	conns chan net.Conn
	done  chan struct{}
}

// lawConn is a connection of a passage.
type lawConn struct {
	net.Conn
	passage *passage
}

type passageKey struct{}

func newLawServer(t testing.TB) *lawServer {
	s := &lawServer{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{
		Handler:  http.HandlerFunc(serveLaw),
		ErrorLog: zap.NewStdLog(zap.NewNop()), Protocols: new(http.Protocols),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, passageKey{}, c.(*lawConn).passage)
		},
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go server.Serve(s) // ends with the test
	t.Cleanup(func() { server.Close() })
	return s
}

func (s *lawServer) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

func (s *lawServer) Close() error   { close(s.done); return nil }
func (s *lawServer) Addr() net.Addr { return &net.TCPAddr{} }

// serveLaw is what Caddy's server does with a request.
func serveLaw(w http.ResponseWriter, r *http.Request) {
	p := r.Context().Value(passageKey{}).(*passage)
	if r.URL.Path == "/again" {
		_, _ = io.WriteString(w, "again")
		return
	}
	defer close(p.served)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	defer func() {
		if panicked := recover(); panicked != nil {
			p.panicked = panicked
			panic(http.ErrAbortHandler)
		}
	}()
	if err := p.handler.ServeHTTP(w, r, caddyhttp.HandlerFunc(p.next)); err != nil {
		w.WriteHeader(sites.Status(err))
	}
}

// passage is a request and its answer on their way.
type passage struct {
	t       *testing.T
	w       *world
	handler *Handler
	actors  [2][]*lawActor
	// calls are the hooks for headers and the end, in the order in which they were called.
	calls    []string
	served   chan struct{}
	panicked any

	// called says that the next handler was called, with a body that it has read to readErr, and with such a header.
	called   bool
	body     []byte
	readErr  error
	length   int64
	encoding []string
	header   http.Header
	trailer  http.Header

	// response is what the client got, its body up to responseErr; nil if it got none.
	response    *http.Response
	got         []byte
	responseErr error

	// reader is who reads the body while the handler answers.
	reader sync.WaitGroup
	// awaited says that the handler has waited for it.
	awaited bool
}

func newPassage(t *testing.T, w *world) *passage {
	t.Helper()
	p := &passage{t: t, w: w, served: make(chan struct{})}
	h := &Handler{
		RequestBodyLimit: int64(w.ceilings[toNext]), ResponseBodyLimit: int64(w.ceilings[toClient]),
		logger: zap.NewNop(), budget: bodypipe.Budget{Held: new(permit.Gauge), Limit: w.budget},
	}
	lanes := [2]*lane{w.lane(toNext, 0), w.lane(toClient, w.status)}
	for i := range w.members {
		h.entries = append(h.entries, p.entry(i, lanes))
	}
	if err := h.provisionSettings(); err != nil {
		t.Fatal(err)
	}
	if err := h.plan(); err != nil {
		t.Fatal(err)
	}
	p.handler = h
	return p
}

// entry returns a filter as its member says.
func (p *passage) entry(i int, lanes [2]*lane) entry {
	m := &p.w.members[i]
	note := func(what string) { p.calls = append(p.calls, what+strconv.Itoa(i)) }
	e := entry{
		name: fmt.Sprintf("f%d", i), open: m.open,
		request: onRequest(func(x *Exchange) error {
			note("request")
			return hookOf(&m.header[toNext], x.UpgradeRequestBody)
		}),
		response: onResponse(func(x *Exchange) error {
			note("response")
			if x.Err() != nil {
				return nil
			}
			s := &m.header[toClient]
			if s.status != 0 && m.fails(toClient) == 0 {
				x.Response().Status = s.status
			}
			return hookOf(s, x.UpgradeResponseBody)
		}),
		log: onLog(func(*Exchange) { note("log") }),
	}
	if m.skipped {
		e.conditions = []condition{{match: caddyhttp.MatcherSets{{caddyhttp.MatchMethod{"NONE"}}}, want: true}}
	}
	if m.successful {
		e.onResponse = statusMatcher
	}
	var hooks [2]func(*Exchange, *Chunk) (Action, error)
	for direction := range hooks {
		a := &lawActor{bodyScript: &m.body[direction], ask: func(Mode, int64) bool { return false }}
		p.actors[direction] = append(p.actors[direction], a)
		first := lanes[direction].fresh(a.bodyScript)
		hooks[direction] = func(x *Exchange, c *Chunk) (Action, error) {
			if first {
				a.ask = []func(Mode, int64) bool{x.UpgradeRequestBody, x.UpgradeResponseBody}[direction]
			}
			return a.piece(x, c)
		}
	}
	e.requestBody = onRequestBody{m.body[toNext].wish, hooks[toNext]}
	e.responseBody = onResponseBody{m.body[toClient].wish, hooks[toClient]}
	return e
}

// hookOf runs the script of a hook for a header.
func hookOf(s *hookScript, ask func(Mode, int64) bool) error {
	if s.asks.Mode != Stream {
		ask(s.asks.Mode, s.asks.Max)
	}
	switch {
	case s.refusal != 0:
		return Reject(s.refusal, errLaw)
	case s.fault == breaks:
		return errLaw
	case s.fault == panics:
		panic(errLaw)
	}
	return nil
}

// run sends the request and reads the answer, and has another request follow on the same connection if it may.
func (p *passage) run(server *lawServer) {
	near, far := net.Pipe()
	_ = near.SetDeadline(time.Now().Add(sites.Patience))
	server.conns <- &lawConn{far, p}
	written := make(chan struct{})
	go func() { // ends with the connection, and is waited for
		defer close(written)
		p.send(near)
	}()
	r := bufio.NewReader(near)
	p.response, p.responseErr = http.ReadResponse(r, &http.Request{Method: p.w.method})
	if p.responseErr == nil {
		p.got, p.responseErr = io.ReadAll(p.response.Body)
	}
	<-p.served
	if p.responseErr == nil && !p.response.Close && p.panicked == nil && p.w.aside != asideLeft {
		<-written
		_, _ = io.WriteString(near, "GET /again HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		all, err := io.ReadAll(r)
		again := strings.HasPrefix(string(all), "HTTP/1.1 200 OK\r\n") && strings.HasSuffix(string(all), "\r\n\r\nagain")
		// A body that was left in the middle may end the connection.
		left := p.w.aside == asideAwaited && !p.delivered()
		if !again && !(left && len(all) == 0) {
			p.t.Errorf("the next request on the connection got %q, %v", all, err)
		}
	}
	near.Close()
	<-written
	if p.responseErr != nil && errors.Is(p.responseErr, context.DeadlineExceeded) {
		p.t.Fatal(p.responseErr)
	}
}

// send writes the request. The server may end the connection before it has read all of it.
func (p *passage) send(c net.Conn) {
	w := p.w
	head := w.method + " / HTTP/1.1\r\nHost: h\r\nContent-Digest: d\r\n"
	body := w.bodies[toNext]
	switch {
	case !w.declared[toNext]:
		head += "Transfer-Encoding: chunked\r\n"
		if w.trailers {
			head += "Trailer: X-Sum\r\n"
		}
	case len(body) > 0 || len(w.cuts[toNext]) > 2:
		head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	if _, err := io.WriteString(c, head+"\r\n"); err != nil {
		return
	}
	for _, piece := range pieces(body, w.cuts[toNext]) {
		if len(piece) == 0 {
			continue
		}
		if !w.declared[toNext] {
			piece = fmt.Appendf(nil, "%x\r\n%s\r\n", len(piece), piece)
		}
		if _, err := c.Write(piece); err != nil {
			return
		}
	}
	switch {
	case w.trailers:
		_, _ = io.WriteString(c, "0\r\nX-Sum: 1\r\n\r\n")
	case !w.declared[toNext]:
		_, _ = io.WriteString(c, "0\r\n\r\n")
	}
}
