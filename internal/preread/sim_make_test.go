package preread

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/caddy-sluice/sluice/internal/snitable"
	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// pick returns one element.
func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// oneIn is true once in n times.
func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

var simPatterns = []string{
	"a.example.com", "*.example.com", "**.example.com", ".example.com", "b.a.example.com", "**.a.example.com", "single", ".test",
}

var simProtocols = []string{"h2", "http/1.1", "acme-tls/1", "\x0a\x0a"}

// simNames are names as sent and what they are normalised to: empty for those that no host can have.
var simNames = []struct{ raw, name string }{
	{"a.example.com", "a.example.com"},
	{"A.Example.COM", "a.example.com"},
	{"a.example.com.", "a.example.com"},
	{"b.a.example.com", "b.a.example.com"},
	{"c.b.a.example.com", "c.b.a.example.com"},
	{"example.com", "example.com"},
	{"x.example.com", "x.example.com"},
	{"SINGLE", "single"},
	{"x.y.test", "x.y.test"},
	{"test.", "test"},
	{"example.net", "example.net"},
	{"notexample.com", "notexample.com"},
	{"", ""},
	{".", ""},
	{"192.0.2.1", ""},
	{"2001:db8::1", ""},
	{"a..example.com", ""},
	{".example.com", ""},
	{"*.example.com", ""},
	{"a.example.com..", ""},
	{"a b.example.com", ""},
	{"ü.example.com", ""},
	{strings.Repeat("a", 64) + ".example.com", ""},
}

// simTable makes a table: each pattern may have routes for some protocols, a catch-all, or both, in any order.
func simTable(r *rand.Rand) []snitable.Route {
	var routes []snitable.Route
	for _, p := range simPatterns {
		kinds := [][]string{nil, {"h2"}, {"http/1.1", "acme-tls/1"}}
		for _, alpn := range kinds {
			if oneIn(r, 3) {
				routes = append(routes, snitable.Route{Names: []string{p}, ALPN: alpn})
			}
		}
	}
	r.Shuffle(len(routes), func(i, j int) { routes[i], routes[j] = routes[j], routes[i] })
	return routes
}

// simKinds are the kinds of connections with their weights. Each gets a connection with a table and a valid PROXY
// header or none, and adds the rest.
var simKinds = []struct {
	name   string
	weight int
	make   func(r *rand.Rand, routes []snitable.Route, c *simConn)
}{
	{"hello", 10, makeHello},
	{"not_tls", 1, makeNotTLS},
	{"proxy_unexpected", 1, makeProxyUnexpected},
	{"proxy_invalid", 2, makeProxyInvalid},
	{"long_record", 1, makeLongRecord},
	{"interrupted", 1, makeInterrupted},
	{"wrong_message", 1, makeWrongMessage},
	{"bad_body", 2, makeBadBody},
	{"endless", 1, makeEndless},
	{"half", 2, makeHalf},
	{"silent", 1, makeSilent},
	{"chaos", 2, makeChaos},
}

func makeConn(r *rand.Rand, routes []snitable.Route, table *snitable.Table) *simConn {
	c := &simConn{cfg: Config{Table: table, Proxy: oneIn(r, 3), Timeout: DefaultTimeout}}
	if c.cfg.Proxy {
		c.wire = bytes.Clone(pick(r, proxyHeaders).header)
		c.header = len(c.wire)
	}
	total := 0
	for _, k := range simKinds {
		total += k.weight
	}
	n := r.IntN(total)
	for _, k := range simKinds {
		if n -= k.weight; n < 0 {
			c.kind = k.name
			k.make(r, routes, c)
			break
		}
	}
	c.cfg.MaxBytes = simLimit(r, c)
	return c
}

// simLimit chooses mostly the default, else something around the length that matters.
func simLimit(r *rand.Rand, c *simConn) int {
	switch edge := max(c.at, MinMaxBytes); r.IntN(10) {
	case 0:
		return edge
	case 1:
		return max(edge-1, MinMaxBytes)
	case 2:
		return MinMaxBytes + r.IntN(len(c.wire)+1)
	}
	return DefaultMaxBytes
}

// decides appends what decides the connection, and maybe bytes that no longer matter.
func (c *simConn) decides(r *rand.Rand, b []byte, want Verdict) {
	c.wire = append(c.wire, b...)
	c.at, c.want = len(c.wire), want
	if oneIn(r, 2) {
		c.wire = append(c.wire, randomBytes(r, r.IntN(200))...)
	}
}

// frame cuts a message into records, some of them empty.
func (c *simConn) frame(r *rand.Rand, message []byte) []byte {
	var sizes []int
	switch r.IntN(4) {
	case 0:
		for range 1 + r.IntN(6) {
			sizes = append(sizes, r.IntN(60))
		}
		sizes = append(sizes, 1+r.IntN(len(message)))
	case 1:
		sizes = []int{1 + r.IntN(len(message))}
	default:
		sizes = []int{hellos.MaxRecord}
	}
	wire := hellos.Wrap(message, sizes...)
	c.records = 1 + (len(wire)-len(message)-5)/5
	return wire
}

func makeHello(r *rand.Rand, routes []snitable.Route, c *simConn) {
	name := pick(r, simNames)
	offered := slices.Clone(simProtocols)
	r.Shuffle(len(offered), func(i, j int) { offered[i], offered[j] = offered[j], offered[i] })
	o := hellos.Options{ServerName: name.raw, ALPN: offered[:r.IntN(len(offered)+1)], ECH: oneIn(r, 3)}
	if oneIn(r, 4) {
		o.Pad = 1000 + r.IntN(2000)
	}
	c.name = name.name
	c.decides(r, c.frame(r, hellos.Message(o)), shadowRoute(routes, name.name, o.ALPN, o.ECH))
}

func makeNotTLS(r *rand.Rand, _ []snitable.Route, c *simConn) {
	c.decides(r, []byte{pick(r, []byte{'G', 'S', 0, 20, 21, 23, 0x80, 0xff})}, rejected(NotTLS))
}

func makeProxyUnexpected(r *rand.Rand, _ []snitable.Route, c *simConn) {
	header := pick(r, proxyHeaders).header
	c.decides(r, header[:1], rejected(NotTLS))
	c.wire = append(c.wire[:c.at], header[1:]...)
}

func makeProxyInvalid(r *rand.Rand, _ []snitable.Route, c *simConn) {
	c.cfg.Proxy, c.wire, c.header = true, nil, 0
	c.decides(r, pick(r, [][]byte{
		{22},
		[]byte("GET"[:1]), []byte("PU"), []byte("PROXY TCP5"), []byte("PROXY TCP4 1.1.1.1 1.1.1 "),
		[]byte(proxySignature + "\x11"), proxyV2(0x21, 0x11), proxyV2(0x21, 0x31, make([]byte, 216)...),
	}), rejected(ProxyHeaderInvalid))
}

// begun is the beginning of a hello in whole records.
func begun(r *rand.Rand, c *simConn) []byte {
	message := hellos.Message(hellos.Options{ServerName: "a.example.com"})
	return c.frame(r, message[:1+r.IntN(len(message)-1)])
}

func makeLongRecord(r *rand.Rand, _ []snitable.Route, c *simConn) {
	var head []byte
	if oneIn(r, 2) {
		head = begun(r, c)
	}
	n := hellos.MaxRecord + 1 + r.IntN(0xffff-hellos.MaxRecord)
	c.decides(r, append(head, hellos.TypeHandshake, 3, 3, byte(n>>8), byte(n)), rejected(MalformedRecord))
}

func makeInterrupted(r *rand.Rand, _ []snitable.Route, c *simConn) {
	header := []byte{pick(r, []byte{0, 20, 21, 23, 24}), 3, 3, 0, 2}
	c.decides(r, append(begun(r, c), header...), rejected(MalformedRecord))
}

func makeWrongMessage(r *rand.Rand, _ []snitable.Route, c *simConn) {
	message := hellos.Handshake(pick(r, []byte{0, 2, 11, 255}), randomBytes(r, r.IntN(50)))
	c.decides(r, hellos.Wrap(message), rejected(MalformedHandshake))
}

func makeBadBody(r *rand.Rand, _ []snitable.Route, c *simConn) {
	name := hellos.ServerName(hellos.Name{Name: "a.example.com"})
	bad := pick(r, []hellos.Options{
		{Extensions: []hellos.Extension{name, name}},
		{Extensions: []hellos.Extension{hellos.ServerName(hellos.Name{Name: "a"}, hellos.Name{Name: "b"})}},
		{Extensions: []hellos.Extension{{Type: hellos.TypeServerName, Data: []byte{0}}}},
		{Extensions: []hellos.Extension{name, hellos.ALPN()}},
		{Extensions: []hellos.Extension{name, hellos.ALPN("h2", "")}},
		{Extensions: []hellos.Extension{hellos.ALPN("h2"), hellos.ALPN("h2")}},
		{ServerName: "\xff\xfe"},
		{Tail: []byte{9}},
		{Tail: []byte{0, 9, 0}},
	})
	c.decides(r, c.frame(r, hellos.Message(bad)), rejected(MalformedHandshake))
}

// makeEndless announces the longest message there is, and goes on for a while.
func makeEndless(r *rand.Rand, _ []snitable.Route, c *simConn) {
	message := append([]byte{1, 0xff, 0xff, 0xff}, randomBytes(r, r.IntN(3000))...)
	c.wire = append(c.wire, c.frame(r, message)...)
}

func makeHalf(r *rand.Rand, _ []snitable.Route, c *simConn) {
	whole := c.frame(r, hellos.Message(hellos.Options{ServerName: "a.example.com"}))
	c.wire = append(c.wire, whole[:1+r.IntN(len(whole)-1)]...)
}

func makeSilent(_ *rand.Rand, _ []snitable.Route, c *simConn) {
	c.wire, c.header = nil, 0
}

func makeChaos(r *rand.Rand, routes []snitable.Route, c *simConn) {
	makeHello(r, routes, c)
	c.wire[r.IntN(len(c.wire))] ^= 0xff
	c.chaos = true
}
