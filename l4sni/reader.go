package l4sni

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/mholt/caddy-l4/layer4"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/offstack"
	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/modules/session"
)

const (
	// windowSize is the first size of a connection's window. Hellos without a post-quantum key share fit.
	windowSize = 1 << 10
	// windowGrowth is by how much a full window grows. With 3 the bytes copied stay below half of those kept, and a
	// hello with a post-quantum share, of 1.5 to 2 KiB, gets 3 KiB, a size of its own for the memory allocator. With
	// 2 KiB it would stand between caddy-l4's buffers of that size, which stay, and leave holes when it goes.
	windowGrowth = 3
)

// errUDP is returned for connections that are not streams: to send a ClientHello in datagrams there is QUIC, which
// needs another parser.
var errUDP = errors.New("only stream connections can be preread, not udp")

// prereader reads a connection up to its verdict.
type prereader struct {
	cfg preread.Config
	// from are the peers that must send a PROXY header.
	from []netip.Prefix
}

// result is what a preread has come to.
type result struct {
	// cx begins with the TLS bytes, all of them.
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
	if _, isUDP := cx.LocalAddr().(*net.UDPAddr); isUDP {
		r.err = errUDP
		return
	}
	cfg := p.cfg
	cfg.Proxy = contains(p.from, cx.RemoteAddr())

	var core preread.Core
	var window []byte
	if window, r.verdict, r.err = feed(cx, &core, &cfg, sess.Start); r.err != nil {
		return
	}
	if len(window) == 0 && r.verdict.Reason == preread.FrontClosed {
		// Health checks come and go like this: it is not counted.
		sess.End(session.ForPreread(preread.FrontClosed))
	}
	conn := replay.New(cx.Conn, window[r.verdict.Offset:])
	if header := core.ProxyHeader(); header != nil && header.Source.IsValid() {
		setClient(cx, conn, sess, header.Source, header.Destination)
	}
	record(sess, &core, r.verdict)
	r.cx = cx.Wrap(conn)
}

// feed reads until the core has decided and returns all bytes read. The read deadline is absolute, from the
// connection's start; it is gone when feed returns.
func feed(cx *layer4.Connection, core *preread.Core, cfg *preread.Config, start time.Time) ([]byte, preread.Verdict, error) {
	window, err := pending(cx, cfg.MaxBytes)
	if err != nil {
		return window, preread.Verdict{}, err
	}
	var verdict preread.Verdict
	if len(window) > 0 {
		if verdict = core.Bytes(cfg, window, time.Now()); verdict.Kind != preread.NeedMore {
			return window, verdict, nil
		}
	}
	if err := cx.SetReadDeadline(start.Add(cfg.Timeout)); err != nil {
		return window, core.FrontClosed(), nil
	}
	for verdict.Kind == preread.NeedMore {
		window = grow(window, cfg.MaxBytes)
		n, err := cx.Read(window[len(window):cap(window)])
		window = window[:len(window)+n]
		if n > 0 {
			verdict = core.Bytes(cfg, window, time.Now())
		}
		if verdict.Kind == preread.NeedMore && err != nil {
			verdict = ended(core, err)
		}
	}
	// The error of a connection that is gone shows at the next read.
	_ = cx.SetReadDeadline(time.Time{})
	return window, verdict, nil
}

// ended is the verdict about a connection on which nothing more will come in time.
func ended(core *preread.Core, err error) preread.Verdict {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return core.Timeout()
	}
	return core.FrontClosed()
}

// pending takes the bytes that matchers in front of us have read already.
func pending(cx *layer4.Connection, limit int) ([]byte, error) {
	n := len(cx.MatchingBytes())
	window := make([]byte, n, max(n, min(windowSize, limit)))
	_, err := io.ReadFull(cx, window)
	return window, err
}

// grow makes room in a full window, up to limit. The core rejects an undecided window of limit bytes, so there is
// always room to make.
func grow(window []byte, limit int) []byte {
	if len(window) < cap(window) {
		return window
	}
	bigger := make([]byte, len(window), min(windowGrowth*cap(window), limit))
	copy(bigger, window)
	return bigger
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

// The placeholders that caddy-l4 sets to the addresses of the connection.
const (
	connRemoteAddr = layer4.AppReplPrefix + "conn.remote_addr"
	connLocalAddr  = layer4.AppReplPrefix + "conn.local_addr"
)

// setClient makes the address in a PROXY header the client's, for everything that comes after.
func setClient(cx *layer4.Connection, conn *replay.Conn, sess *session.Session, src, dst netip.AddrPort) {
	sess.Set(func() { sess.Client = net.TCPAddrFromAddrPort(unmap(src)) })
	conn.SetAddrs(sess.Client, net.TCPAddrFromAddrPort(unmap(dst)))
	cx.Replacer().Set(connRemoteAddr, conn.RemoteAddr())
	cx.Replacer().Set(connLocalAddr, conn.LocalAddr())
}

// unmap turns an IPv4 address that came as IPv6 (::ffff:a.b.c.d) into the IPv4 address it is.
func unmap(ap netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// contains says whether addr lies in one of the prefixes.
func contains(prefixes []netip.Prefix, addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return false
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	for _, prefix := range prefixes {
		if prefix.Contains(ip) {
			return true
		}
	}
	return false
}
