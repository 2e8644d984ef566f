// Package integration runs a whole Caddy with Sluice in it, between real clients and real backends. It is the only
// package whose tests start Caddy, which is one per process: its tests run one after the other.
package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/mholt/caddy-l4/modules/l4proxy"
	_ "github.com/mholt/caddy-l4/modules/l4subroute"

	_ "github.com/caddy-sluice/sluice/modules"
)

const (
	// patience bounds every wait for something that must happen. It is generous, for machines that are busy.
	patience = time.Minute
	// soon is what an end may take that waits for no timer. Tests that measure it set what timers there are to more.
	soon = 15 * time.Second
)

// The ports of what the tests start are below those that systems give to who asks for any: a test that runs beside this one
// could get it between two configs.
const (
	firstPort = 12_000
	portCount = 20_000
)

// nextPort is the port after the one that was handed out last, less firstPort. No test gets one twice: what is to listen there
// may not listen yet.
var nextPort = rand.IntN(portCount)

// offConfig is what Caddy runs between two tests: nothing, not even the admin endpoint.
const offConfig = `{"admin":{"disabled":true,"config":{"persist":false}},` +
	`"logging":{"logs":{"default":{"writer":{"output":"discard"}}}}}`

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sluice")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} {
		os.Setenv(name, dir)
	}
	// The first config starts what lives as long as the process and would look like a leak of the first test.
	if err := caddy.Load([]byte(offConfig), true); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	before := countFiles(isPipe)
	code := m.Run()
	// The relay keeps pipes for the next connections for some seconds.
	for deadline := time.Now().Add(patience); countFiles(isPipe) > before; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "pipes left open: got %d, want %d\n", countFiles(isPipe), before)
			return 1
		}
	}
	return code
}

// lab is what surrounds one test. When the test and its cleanups are over, no goroutine and no descriptor may be left.
type lab struct {
	testing.TB
	dir string
}

// newLab must come before anything that opens or starts something.
func newLab(t testing.TB) *lab {
	t.Helper()
	// t.TempDir has the test's name in it and gets too long for the path of a socket.
	dir, err := os.MkdirTemp("", "sl")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{TB: t, dir: dir}
	goroutines, files := runtime.NumGoroutine()-endless(), openFiles()
	t.Cleanup(func() {
		os.RemoveAll(dir)
		l.eventually(fmt.Sprintf("goroutines and files are back to %d, %d", goroutines, files), func() (string, bool) {
			g, f := runtime.NumGoroutine()-endless(), openFiles()
			return fmt.Sprintf("%d, %d", g, f), g <= goroutines && f <= files
		})
		if t.Failed() && runtime.NumGoroutine() > goroutines {
			buf := make([]byte, 1<<20)
			t.Logf("%s", buf[:runtime.Stack(buf, true)])
		}
	})
	return l
}

// endless counts the goroutines that Caddy's reverse proxy starts for dynamic upstreams, once in a process, and never ends.
func endless() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "created by github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy.(*Upstream).fillDynamicHost")
}

// openFiles counts the descriptors of this process but for pipes, which the relay pools.
func openFiles() int { return countFiles(func(target string) bool { return !isPipe(target) }) }

func isPipe(target string) bool { return strings.HasPrefix(target, "pipe:") }

// countFiles counts the descriptors of this process by what they are; 0 where the system doesn't tell.
func countFiles(match func(target string) bool) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	n := 0
	for _, entry := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && match(target) {
			n++
		}
	}
	return n
}

// eventually polls until ok, and fails with the last state when that takes too long.
func (l *lab) eventually(what string, probe func() (state string, ok bool)) {
	l.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		state, ok := probe()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			l.Errorf("%s: got %s after %v", what, state, patience)
			return
		}
	}
}

// freeAddr returns an address of loopback that nobody listens on.
func (l *lab) freeAddr() string {
	l.Helper()
	return l.freeAddrOf("127.0.0.1")
}

// freeAddrOf is freeAddr for another address of loopback.
func (l *lab) freeAddrOf(host string) string {
	l.Helper()
	var err error
	for range 100 {
		addr := net.JoinHostPort(host, strconv.Itoa(firstPort+nextPort))
		nextPort = (nextPort + 1) % portCount
		var ln net.Listener
		if ln, err = net.Listen("tcp", addr); err == nil {
			ln.Close()
			return addr
		}
	}
	l.Fatal(err)
	return ""
}

// proxy is a running Caddy.
type proxy struct {
	*lab
	// addr is the address of its layer-4 server, if it was started with one.
	addr  string
	admin *http.Client
}

// start runs Caddy with one layer-4 server that has one route with these handlers.
func (l *lab) start(handlers string) *proxy {
	l.Helper()
	return l.startServer("route {\n" + handlers + "\n}")
}

// startServer runs Caddy with one layer-4 server with these routes and named matchers.
func (l *lab) startServer(body string) *proxy {
	l.Helper()
	addr := l.freeAddr()
	p := l.run(server(addr, body), "")
	p.addr = addr
	return p
}

// server returns a layer-4 app with one server.
func server(addr, body string) string { return fmt.Sprintf("layer4 {\n%s {\n%s\n}\n}\n", addr, body) }

// run runs Caddy with these global options and sites, and stops it when the test is over.
func (l *lab) run(options, sites string) *proxy {
	l.Helper()
	records.reset()
	drainSightings()
	p := &proxy{lab: l, admin: l.adminClient()}
	l.Cleanup(p.stop)
	if err := p.load(options, sites); err != nil {
		l.Fatal(err)
	}
	return p
}

// load makes Caddy change to another config.
func (p *proxy) load(options, sites string) error {
	p.Helper()
	return caddy.Load(p.adapt(p.globals(options)+sites), true)
}

// route changes the config to other handlers in the only route of the layer-4 server.
func (p *proxy) route(handlers string) error {
	p.Helper()
	return p.load(server(p.addr, "route {\n"+handlers+"\n}"), "")
}

// globals returns these global options and ours. The log is without Caddy's events: to have those, Caddy copies its TLS app for each
// handshake and each certificate, and what comes between the starts of its apps, which are in no order, is a data race then.
func (l *lab) globals(options string) string {
	return fmt.Sprintf(`{
	admin unix/%s
	storage file_system %s
	persist_config off
	skip_install_trust
	log {
		output sluicetest
		format json
		level DEBUG
		exclude events
	}
	%s
}
`, l.adminSocket(), l.dir, options)
}

func (l *lab) adapt(caddyfile string) []byte {
	l.Helper()
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), nil)
	if err != nil {
		l.Fatalf("%v\n%s", err, caddyfile)
	}
	return config
}

func (l *lab) adminSocket() string { return filepath.Join(l.dir, "admin") }

func (l *lab) adminClient() *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", l.adminSocket())
	}
	direct := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	return &http.Client{Transport: again{ordered{direct}, anyError, nil}, Timeout: patience}
}

// stop ends Caddy. The config without an admin endpoint is what stops the admin server, which caddy.Stop doesn't.
func (p *proxy) stop() {
	p.Helper()
	if err := caddy.Load([]byte(offConfig), true); err != nil {
		p.Error(err)
	}
	if p.Failed() {
		p.Logf("log:\n%s", strings.Join(records.tail(60), "\n"))
	}
}
