package l4sni

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/mholt/caddy-l4/layer4"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/offstack"
	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/modules/session"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

// errUDP is returned for connections that are not streams: to send a ClientHello in datagrams there is QUIC, which
// needs another parser.
var errUDP = errors.New("only stream connections can be preread, not udp")

// prereader reads a connection up to its verdict.
type prereader struct {
	cfg preread.Config
	// from are the peers that must send a PROXY header.
	from []netip.Prefix
	app  *sluiceapp.App
}

// result is what a preread has come to.
type result struct {
	// cx begins with the TLS bytes, all of them. It is nil if the connection is over: it was not admitted, there was no
	// memory for it, or it was stopped from outside. Then the session has its close reason, and nothing else is set.
	cx      *layer4.Connection
	verdict preread.Verdict
	err     error
}

// read feeds the connection's first bytes to the core until there is a verdict, and writes what was learned into the
// session.
func (p *prereader) read(cx *layer4.Connection, sess *session.Session) *result {
	r := new(result)
	offstack.Call(func() { p.run(cx, sess, r) })
	return r
}

// run is read, on whatever stack.
func (p *prereader) run(cx *layer4.Connection, sess *session.Session, r *result) {
	if isUDP(cx) {
		r.err = errUDP
		return
	}
	h := &helloReader{cfg: p.cfg, intake: intake{cx: cx, app: p.app, limit: p.cfg.MaxBytes}}
	h.cfg.Proxy = contains(p.from, cx.RemoteAddr())
	if r.verdict, r.err = h.feed(h, sess.Start.Add(p.cfg.Timeout)); r.err != nil || h.over(sess, r.verdict) {
		return
	}
	conn := replay.New(cx.Conn, h.window[r.verdict.Offset:])
	keepHeader(cx, conn, sess, h.ProxyHeader(), h.window)
	record(sess, &h.Core, r.verdict)
	r.cx = cx.Wrap(conn)
}

// isUDP says whether a connection is made of datagrams.
func isUDP(cx *layer4.Connection) bool {
	_, isUDP := cx.LocalAddr().(*net.UDPAddr)
	return isUDP
}

// helloReader is an intake whose bytes are for the core.
type helloReader struct {
	intake
	preread.Core
	cfg preread.Config
}

// bytes implements decider.
func (h *helloReader) bytes(window []byte) preread.Verdict {
	return h.Bytes(&h.cfg, window, time.Now())
}

// record writes what the preread learned into the session.
func record(sess *session.Session, core *preread.Core, verdict preread.Verdict) {
	sess.Set(func() {
		sess.Preread = true
		sess.Reason = verdict.Reason
		sess.PrereadTime = time.Since(sess.Start)
		if hello := core.Hello(); hello != nil {
			sess.Hello = keep(hello, core.ServerName())
		}
	})
}

// keep copies what is needed of a hello out of the window, which is released once its bytes are forwarded.
func keep(hello *clienthello.Hello, name string) *session.Hello {
	return &session.Hello{
		ServerName: name,
		ALPN:       append(clienthello.Protocols(nil), hello.ALPN...),
		ECH:        hello.ECH,
		Size:       hello.Size,
		Records:    hello.Records,
	}
}
