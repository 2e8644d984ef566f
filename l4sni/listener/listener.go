package listener

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/l4sni"
	"github.com/caddy-sluice/sluice/modules/session"
)

const (
	// handOverTimeout is how long a connection waits for the HTTP server to accept it. A server that is alive does so
	// at once; it is the time that a start after a failed reload may take.
	handOverTimeout = 10 * time.Second
	// acceptPause is the pause after a failed accept, for example at the limit of open files.
	acceptPause = 10 * time.Millisecond
)

// listenerCtxKey is the key under which the handler of a connection finds its listener.
const listenerCtxKey caddy.CtxKey = "sluice.listener"

// errHandedOver tells that the connection belongs to the HTTP server now.
var errHandedOver = errors.New("handed over to the HTTP server")

// listener is one config's listener on an address.
type listener struct {
	base net.Listener
	// header reads PROXY headers; nil if nobody sends any.
	header *l4sni.HeaderReader
	// bare is set if base is a socket of Caddy's, with no other wrapper around it. The hub's mu guards it.
	bare    bool
	handler layer4.Handler
	logger  *zap.Logger
	hub     *hub
	hubKey  string
	fresh   freshSet
	// keepAlive is what the HTTP server says about TCP keepalive.
	keepAlive net.KeepAliveConfig

	conns chan net.Conn // to Accept
	// left is closed when connections go elsewhere, closed when Accept is to end.
	left, closed     chan struct{}
	leaving, closing sync.Once
	// ended is done once it was said that TLS ends before connections come here.
	ended sync.Once
}

// listen begins to accept connections for w.
func listen(base net.Listener, w *Wrapper) *listener {
	l := &listener{
		base: base, header: w.header, handler: w.handler, keepAlive: w.keepAlive, logger: w.logger,
		conns:  make(chan net.Conn),
		left:   make(chan struct{}),
		closed: make(chan struct{}),
	}
	l.hub, l.hubKey = hubOf(base.Addr())
	l.hub.join(l)
	return l
}

// handle runs one connection through the routes.
func (l *listener) handle(conn net.Conn) {
	l.warnOfTLS(conn)
	// The matching buffer is the connection's own: the HTTP server may read from it long after this has returned.
	cx := layer4.WrapConnection(conn, nil, l.logger)
	cx.Context = context.WithValue(cx.Context, listenerCtxKey, l)
	sess := session.Enter(cx)
	sess.HandsOver = true
	defer func() {
		// The session tells, and not the error: the handlers in between may have made another one of it.
		if sess.CloseReason() != session.HandedOver {
			_ = conn.Close()
		}
	}()
	defer sess.Leave(l.logger)
	l.setKeepAlive(conn)
	if l.header != nil {
		if cx = l.header.Read(cx, sess); cx == nil {
			return
		}
	}
	err := l.handler.Handle(cx)
	if err != nil && !errors.Is(err, errHandedOver) {
		l.logger.Error("handling connection", zap.String("remote", cx.RemoteAddr().String()), zap.Error(err))
	}
}

// setKeepAlive applies what the HTTP server says about TCP keepalive, if that is not Go's default.
func (l *listener) setKeepAlive(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if ok && l.keepAlive != defaultKeepAlive {
		_ = tcp.SetKeepAliveConfig(l.keepAlive)
	}
}

// handOver is what stands behind the last route: it gives the connection to the HTTP server.
func handOver(cx *layer4.Connection) error {
	l := cx.Context.Value(listenerCtxKey).(*listener)
	sess := session.Of(cx)
	// A deadline of the matching phase must not end the connection later.
	if err := cx.SetReadDeadline(time.Time{}); err != nil {
		sess.End(session.ClientGone)
		return nil
	}
	start := time.Now()
	if !l.hub.deliver(newHanded(cx, sess), handOverTimeout) {
		sess.End(session.Error)
		l.logger.Warn("no HTTP server took the connection", zap.Duration("duration", time.Since(start)))
		return nil
	}
	sess.End(session.HandedOver)
	sess.Handover()
	return errHandedOver
}

// Accept returns the next connection that is the HTTP server's.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// leave is called when the config is about to stop: from here on its HTTP server gets no connection any more.
func (l *listener) leave() {
	l.leaving.Do(func() {
		l.hub.leave(l)
		close(l.left)
	})
}

// Close ends Accept at once.
func (l *listener) Close() error {
	l.closing.Do(func() {
		l.leave()
		close(l.closed)
		// The socket behind base may be closed already; Caddy counts its listeners by this call.
		if err := l.base.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			l.logger.Error("closing listener", zap.Error(err))
		}
		if _, err := hubs.Delete(l.hubKey); err != nil {
			l.logger.Error("closing socket", zap.Error(err))
		}
	})
	return nil
}

// Addr returns the address listened on.
func (l *listener) Addr() net.Addr { return l.base.Addr() }
