package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/modules/session"
)

func init() {
	caddy.RegisterModule(&recorder{})
}

// recorder is a handler that keeps the connection and notes that it has got it. It has the name of one that does, the
// stock proxy.
type recorder struct {
	Upstream string `json:"upstream"`
}

const tookVar = "test.took"

func (*recorder) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "layer4.handlers.proxy", New: func() caddy.Module { return new(recorder) }}
}

func (h *recorder) Handle(cx *layer4.Connection, _ layer4.Handler) error {
	cx.SetVar(tookVar, h.Upstream)
	return nil
}

// outcome is what can be compared of what a server did and what explain says.
type outcome struct {
	took                      string // the recorder that got it; "end" for what is behind all routes
	reason, pattern, protocol string
	alert                     int
}

// peerConn is one end of a pipe with the address of a TCP peer.
type peerConn struct {
	net.Conn
	peer net.Addr
}

func (c peerConn) RemoteAddr() net.Addr { return c.peer }

// provision loads layer-4 routes.
func provision(t *testing.T, raw string) layer4.Handler {
	t.Helper()
	ctx := modules.Context(t)
	var routes layer4.RouteList
	if err := json.Unmarshal([]byte(raw), &routes); err != nil {
		t.Fatal(err)
	}
	if err := routes.Provision(ctx); err != nil {
		t.Fatal(err)
	}
	return routes.Compile(zap.NewNop(), time.Second, layer4.HandlerFunc(func(cx *layer4.Connection) error {
		cx.SetVar(tookVar, "end")
		return nil
	}))
}

// served sends a flight to the routes and says what they did. It runs in a bubble: the client stays until the
// deadline.
func served(t *testing.T, handler layer4.Handler, f flight, handsOver bool) outcome {
	client, conn := net.Pipe()
	cx := layer4.WrapConnection(peerConn{conn, net.TCPAddrFromAddrPort(netip.AddrPortFrom(f.peer, 4711))}, nil, zap.NewNop())
	sess := session.Of(cx)
	sess.HandsOver = handsOver
	go func() { _, _ = client.Write(f.bytes) }()
	answer := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(client)
		answer <- b
	}()
	if err := handler.Handle(cx); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	o := outcome{pattern: sess.Pattern, protocol: formatProtocol(sess.Protocol)}
	o.took, _ = cx.GetVar(tookVar).(string)
	if sess.Reason != 0 {
		o.reason = sess.Reason.String()
	}
	if b := <-answer; len(b) == 7 {
		o.alert = int(b[6])
	}
	return o
}

// explained says what explain thinks of the same.
func explained(t *testing.T, routes string, f flight, handsOver bool) outcome {
	t.Helper()
	config := `{"apps":{"layer4":{"servers":{"s":{"listen":[":443"],"routes":` + routes + `}}}}}`
	if handsOver {
		config = `{"apps":{"http":{"servers":{"s":{"listen":[":443"],"listener_wrappers":[{"wrapper":"sluice","routes":` + routes + `},{"wrapper":"tls"}]}}}}}`
	}
	answers, err := explain([]byte(config), f)
	if err != nil {
		t.Fatal(err)
	}
	var last *answer
	for i := range answers {
		if answers[i].NotReached == "" {
			last = &answers[i]
		}
	}
	o := outcome{reason: last.Reason, pattern: last.Pattern, protocol: last.Protocol}
	if last.Alert != nil {
		o.alert = int(last.Alert.Number)
	}
	switch to := strings.Join(last.Handlers, ","); {
	case last.Action == actionHandedOver, to == "next":
		o.took = "end"
	default:
		o.took = strings.TrimPrefix(to, "proxy ")
	}
	return o
}

// to is a list of handlers with one recorder.
func to(name string) string {
	return fmt.Sprintf(`"handle":[{"handler":"proxy","upstream":%q}]`, name)
}

// table is the inside of a router that has routes of all kinds.
var table = `"handler":"sni_router","routes":[
	{"names":["a.test"],"alpn":["h2"],` + to("a-h2") + `},
	{"names":["a.test"],"alpn":["http/1.1","x,\u0001"],` + to("a-http1") + `},
	{"names":["*.b.test","sni.example.test"],` + to("b") + `},
	{"names":["**.b.test"],` + to("deep") + `},
	{"names":[".c.test"],` + to("c") + `},
	{"names":["c.test"],"alpn":["imap"],` + to("c-imap") + `},
	{"names":["{env.SLUICE_TEST_NAME}"],` + to("env") + `}]`

var serverConfigs = map[string]string{
	"alone":          `[{"handle":[{` + table + `}]}]`,
	"silent":         `[{"handle":[{` + table + `,"alert":"off"}]}]`,
	"all reasons":    `[{"handle":[{` + table + `,"fallback":[{` + to("rest") + `}]}]}]`,
	"some reasons":   `[{"handle":[{` + table + `,"fallback":[{"reasons":["not_tls","fragmented"],` + to("plain") + `},{"reasons":["sni_unmatched","no_sni"],` + to("unknown") + `}]}]}]`,
	"fallback next":  `[{"handle":[{` + table + `,"fallback":[{"handle":[{"handler":"next"}]}]}]}]`,
	"only fallback":  `[{"handle":[{"handler":"sni_router","fallback":[{"reasons":["alpn_unmatched"],` + to("never") + `}]}]}]`,
	"preread":        `[{"handle":[{"handler":"preread","max_bytes":100,"timeout":"20ms"},{` + table + `}]}]`,
	"small":          `[{"handle":[{"handler":"preread","max_bytes":5},{` + table + `,"fallback":[{"reasons":["too_large"],` + to("large") + `}]}]}]`,
	"proxy protocol": `[{"handle":[{"handler":"preread","proxy_protocol":{"from":["10.0.0.0/8"]}},{` + table + `}]}]`,
	"twice": `[{"handle":[{"handler":"preread","proxy_protocol":{"from":["10.0.0.0/8"]}},
		{"handler":"preread","proxy_protocol":{"from":["192.0.2.0/24"]}},{` + table + `}]}]`,
	"earlier route": `[{"handle":[{"handler":"preread","max_bytes":300}]},{"handle":[{` + table + `}]}]`,
	"one after another": `[{"handle":[{"handler":"sni_router","routes":[{"names":["a.test"],` + to("first") + `}],
		"fallback":[{"reasons":["sni_unmatched","no_sni"],"handle":[{"handler":"next"}]}]},{` + table + `}]}]`,
	"one in another": `[{"handle":[{"handler":"sni_router","routes":[{"names":["**.test"],"handle":[{"handler":"next"},{` + table + `}]}],
		"fallback":[{"handle":[{` + table + `,"fallback":[{"reasons":["not_tls"],` + to("inner") + `}]}]}]}]}]`,
}

// flights are first flights of all kinds.
func flights() map[string][]byte {
	all := map[string][]byte{"nothing": {}, "http": []byte("GET / HTTP/1.1\r\n\r\n"), "alert record": {21, 3, 3, 0, 2, 1, 0}}
	for _, r := range hellos.Recorded() {
		all[r.Name] = r.Bytes
	}
	for _, name := range []string{
		"a.test", "A.Test.", "x.b.test", "x.y.b.test", "b.test", "c.test", "x.c.test", "from.env.test",
		"other.example", "192.0.2.1", "a..test", strings.Repeat("a.", 130) + "test",
	} {
		all["name "+name] = hellos.New(hellos.Options{ServerName: name})
		all["h2 "+name] = hellos.New(hellos.Options{ServerName: name, ALPN: []string{"spdy", "h2", "http/1.1"}})
		all["odd protocol "+name] = hellos.New(hellos.Options{ServerName: name, ALPN: []string{"\x00\xff", "x,\x01"}})
	}
	hello := hellos.New(hellos.Options{ServerName: "a.test", ALPN: []string{"h2"}, ECH: true})
	all["ech"] = hello
	all["no name"] = hellos.New(hellos.Options{})
	all["ech, no name"] = hellos.New(hellos.Options{ECH: true})
	all["in records of 7"] = hellos.Wrap(hellos.Message(hellos.Options{ServerName: "x.b.test"}), 7)
	all["large"] = hellos.New(hellos.Options{ServerName: "a.test", ALPN: []string{"h2"}, Pad: 40000})
	all["cut"] = hello[:len(hello)-1]
	all["cut in the header"] = hello[:3]
	all["another message"] = hellos.Wrap(hellos.Handshake(2, make([]byte, 40)))
	all["record too long"] = hellos.Record(22, 0x0301, make([]byte, 16385))
	all["bytes behind it"] = append(slices.Clip(hello), "early data"...)
	for name, header := range map[string]string{"v1": "PROXY TCP4 192.0.2.7 192.0.2.8 1 443\r\n", "wrong": "PROXY TCP5 ", "half": "PROXY TCP"} {
		all["PROXY "+name] = append([]byte(header), hello...)
	}
	all["PROXY cut"] = []byte("PROXY TCP4 192.")
	return all
}

// TestSameAsServer lets a server and explain answer about the same flights.
func TestSameAsServer(t *testing.T) {
	t.Setenv("SLUICE_TEST_NAME", "from.env.test")
	seen := make(map[string]int)
	for name, routes := range serverConfigs {
		handler := provision(t, routes)
		for flightName, b := range flights() {
			for _, peer := range []string{"10.1.2.3", "198.51.100.9"} {
				f := flight{bytes: b, peer: netip.MustParseAddr(peer)}
				for _, handsOver := range []bool{false, true} {
					got := explained(t, routes, f, handsOver)
					var want outcome
					synctest.Test(t, func(t *testing.T) { want = served(t, handler, f, handsOver) })
					if got != want {
						t.Errorf("%s, %s from %s, hands over %v: got %+v, want %+v", name, flightName, peer, handsOver, got, want)
					}
					seen[want.reason]++
				}
			}
		}
	}
	// All but front_closed, which no captured bytes show; and a route.
	if len(seen) != 11 {
		t.Errorf("got %v, want 10 reasons and none", seen)
	}
}
