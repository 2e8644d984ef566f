package l4sni

import (
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	values "github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/modules/session"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

func init() {
	caddy.RegisterModule(&probe{})
}

// probe is a handler that notes that a connection has come to it.
type probe struct {
	// Name is what it notes.
	Name string `json:"name"`
	// Do is what it does then: read the stream to its end (the default), call "next", "panic", or "handover".
	Do string `json:"do"`
}

func (*probe) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "layer4.handlers.probe", New: func() caddy.Module { return new(probe) }}
}

// noteVar is the key of what the probes of a connection note.
const noteVar = "test.note"

// note is what happened to a connection.
type note struct {
	path   []string // names of the probes, in order
	stream string   // what the last one read
}

// noteOf returns the connection's note.
func noteOf(cx *layer4.Connection) *note {
	n, ok := cx.GetVar(noteVar).(*note)
	if !ok {
		n = new(note)
		cx.SetVar(noteVar, n)
	}
	return n
}

func (p *probe) Handle(cx *layer4.Connection, next layer4.Handler) error {
	n := noteOf(cx)
	n.path = append(n.path, p.Name)
	switch p.Do {
	case "next":
		return next.Handle(cx)
	case "panic":
		panic("probe " + p.Name)
	case "handover":
		session.Of(cx).Handover()
	}
	stream, err := io.ReadAll(cx)
	n.stream = string(stream)
	return err
}

// end is what stands behind the last handler of a test.
var end = layer4.HandlerFunc(func(cx *layer4.Connection) error { return (&probe{Name: "end"}).Handle(cx, nil) })

// newApp returns an app with its defaults.
func newApp(t testing.TB) *sluiceapp.App {
	t.Helper()
	app, err := sluiceapp.Of(modules.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// observed is a logger whose entries can be looked at.
func observed() (*zap.Logger, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	return zap.New(core), logs
}

// newRouter provisions an sni_router.
func newRouter(t testing.TB, config string) (*Router, *observer.ObservedLogs) {
	t.Helper()
	mod, err := modules.Load(t, "layer4.handlers.sni_router", config)
	if err != nil {
		t.Fatal(err)
	}
	h := mod.(*Router)
	var logs *observer.ObservedLogs
	h.logger, logs = observed()
	return h, logs
}

// newPreread provisions a preread.
func newPreread(t testing.TB, config string) (*Preread, *observer.ObservedLogs) {
	t.Helper()
	mod, err := modules.Load(t, "layer4.handlers.preread", config)
	if err != nil {
		t.Fatal(err)
	}
	h := mod.(*Preread)
	var logs *observer.ObservedLogs
	h.logger, logs = observed()
	return h, logs
}

// counts are the values of our metrics by series: the name without the common prefix, and the label's value. Of a
// histogram it is the number of observations.
type counts map[string]float64

// count reads the metrics.
func count(t testing.TB) counts {
	t.Helper()
	c := make(counts)
	for name, value := range values.Of(t, metrics.register) {
		c[strings.TrimPrefix(name, "caddy_sluice_preread_")] = value
	}
	return c
}

// since returns what has changed.
func (c counts) since(before counts) counts {
	diff := make(counts)
	for name, value := range c {
		if d := value - before[name]; d != 0 {
			diff[name] = d
		}
	}
	return diff
}

// checkCounts says what has changed since before.
func checkCounts(t *testing.T, before, want counts) {
	t.Helper()
	if got := count(t).since(before); !maps.Equal(got, want) {
		t.Errorf("got counts %v, want %v", got, want)
	}
}

// checkPath checks which probes the connection has come to.
func checkPath(t *testing.T, cx *layer4.Connection, want ...string) {
	t.Helper()
	if got := noteOf(cx).path; !slices.Equal(got, want) {
		t.Errorf("got path %q, want %q", got, want)
	}
}

// checkQuiet checks that nothing was logged that an operator would see.
func checkQuiet(t *testing.T, logs *observer.ObservedLogs) {
	t.Helper()
	for _, entry := range logs.All() {
		if entry.Level > zap.DebugLevel {
			t.Errorf("got log entry %v %q, want none above debug", entry.Level, entry.Message)
		}
	}
}

// hello is the wire form of a hello with this name and these protocols.
func hello(name string, alpn ...string) []byte {
	return hellos.New(hellos.Options{ServerName: name, ALPN: alpn})
}
