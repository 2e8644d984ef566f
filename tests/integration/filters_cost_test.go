package integration

import (
	"io"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/testkit/conns"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/modules/session"
)

func init() { caddy.RegisterModule(nullWriter{}) }

// nullWriter is a log writer that has its lines made before it throws them away, which Caddy's own has not.
type nullWriter struct{}

// nullLog is a log with that writer.
var nullLog = caddy.BaseLog{WriterRaw: []byte(`{"output":"sluicenull"}`), EncoderRaw: []byte(`{"format":"json"}`)}

// CaddyModule returns the Caddy module information.
func (nullWriter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.writers.sluicenull", New: func() caddy.Module { return new(nullWriter) }}
}

func (nullWriter) String() string                        { return "sluicenull" }
func (nullWriter) WriterKey() string                     { return "sluicenull" }
func (w nullWriter) OpenWriter() (io.WriteCloser, error) { return w, nil }
func (nullWriter) Write(line []byte) (int, error)        { return len(line), nil }
func (nullWriter) Close() error                          { return nil }

// maxFilterAllocs is what all filters together may allocate for one connection, its line in the log included.
const maxFilterAllocs = 18

// allFilters are the filters in front of a forward, as JSON.
var allFilters = []struct{ id, config string }{
	{"layer4.handlers.access_log", "{}"},
	{"layer4.handlers.admission", `{"max_connections":1000000,"max_connections_per_ip":1000000}`},
	{"layer4.handlers.ip_acl", `{"allow":["192.0.2.0/24","10.0.0.0/8"],"deny":["192.0.2.128/25"]}`},
}

// end is what stands behind the filters: a session that is completed.
var endOfChain = layer4.HandlerFunc(func(cx *layer4.Connection) error {
	sess := session.Enter(cx)
	defer sess.Leave(zap.NewNop())
	sess.End(session.Completed)
	return nil
})

// chained returns the handlers, one behind the other, and the end of the chain behind them.
func chained(tb testing.TB, ctx caddy.Context, n int) layer4.Handler {
	tb.Helper()
	var next layer4.Handler = endOfChain
	for i := n - 1; i >= 0; i-- {
		mod, err := ctx.LoadModuleByID(allFilters[i].id, []byte(allFilters[i].config))
		if err != nil {
			tb.Fatal(err)
		}
		handler, behind := mod.(layer4.NextHandler), next
		next = layer4.HandlerFunc(func(cx *layer4.Connection) error { return handler.Handle(cx, behind) })
	}
	return next
}

// BenchmarkFilters is what a connection costs in the filters: none, and all of them. Compare the two in one interleaved
// run, with -count.
func BenchmarkFilters(b *testing.B) {
	for _, bc := range []struct {
		name string
		n    int
	}{{"none", 0}, {"all", len(allFilters)}} {
		b.Run(bc.name, func(b *testing.B) {
			h := chained(b, modules.ContextLogging(b, nullLog), bc.n)
			conn := conns.New(b, "192.0.2.1:40000", "192.0.2.2:443").Conn
			buf := make([]byte, 0, 2048)
			b.ReportAllocs()
			for b.Loop() {
				if err := h.Handle(layer4.WrapConnection(conn, buf, zap.NewNop())); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestFilterAllocs checks that what the filters allocate for a connection is fixed, and small.
func TestFilterAllocs(t *testing.T) {
	ctx := modules.ContextLogging(t, nullLog)
	conn := conns.New(t, "192.0.2.1:40000", "192.0.2.2:443").Conn
	buf := make([]byte, 0, 2048)
	measure := func(h layer4.Handler) float64 {
		return testing.AllocsPerRun(2000, func() {
			_ = h.Handle(layer4.WrapConnection(conn, buf, zap.NewNop()))
		})
	}
	none, all := measure(chained(t, ctx, 0)), measure(chained(t, ctx, len(allFilters)))
	if got := all - none; got > maxFilterAllocs {
		t.Errorf("got %v allocations in all filters, want at most %d", got, maxFilterAllocs)
	}
}
