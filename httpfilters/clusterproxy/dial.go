package clusterproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"net/netip"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-sluice/sluice/internal/guarddial"
	"github.com/caddy-sluice/sluice/modules/upstreamtls"
)

// handshakeTimeout bounds a TLS handshake that nothing else does: a connection is made to its end even if its request
// doesn't wait for it.
const handshakeTimeout = 10 * time.Second

// What Caddy's reverse proxy has in contexts and variables: where to connect to, and whom a PROXY header names.
const (
	dialInfoKey caddy.CtxKey = "reverse_proxy.dial_info"
	proxyVar    string       = "reverse_proxy.proxy_protocol_info"
)

var (
	errNoState  = errors.New("the request didn't come through cluster_proxy")
	errNotOurs  = errors.New("a connection was asked for by no attempt")
	errStranger = errors.New("the client has no address that a PROXY header could name")
)

// connectError says that no connection could be made, a failed TLS handshake included. What it wraps is hidden from
// Caddy's handler, which would try again whatever the cluster has decided.
type connectError struct {
	text    string
	timeout bool
	// ours says that this machine was short of something, so that it says nothing about the endpoint.
	ours bool
}

// Error returns the text.
func (e *connectError) Error() string { return e.text }

// dialing makes the connections of one transport, by the transport's own dial function.
type dialing struct {
	link    *link
	connect func(ctx context.Context, network, address string) (net.Conn, error)
	// pooled says that a connection which its request doesn't take goes into a pool.
	pooled bool
}

// plain makes a connection.
func (d *dialing) plain(ctx context.Context, _, address string) (net.Conn, error) {
	if isNoHost(address) {
		return nil, errSentOnce
	}
	c, err := d.dial(ctx, nil)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// tls makes a connection with TLS.
func (d *dialing) tls(ctx context.Context, _, address string) (net.Conn, error) {
	if isNoHost(address) {
		return nil, errSentOnce
	}
	var secured *tls.Conn
	_, err := d.dial(ctx, func(c *conn, t *try) (err error) {
		secured, err = d.link.handshake(ctx, t, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return secured, nil
}

// dial makes a connection that is counted, and secures it.
func (d *dialing) dial(ctx context.Context, secure func(*conn, *try) error) (*conn, error) {
	t, ok := ctx.Value(tryKey{}).(*try)
	if !ok {
		return nil, errNotOurs
	}
	c := &conn{gone: make(chan struct{})}
	if err := d.link.cluster.Count(&c.count, t.endpoint); err != nil {
		return nil, err
	}
	var err error
	if c.Conn, err = d.reach(ctx, t); err != nil {
		c.count.Close()
		return nil, err
	}
	if secure != nil {
		if err := secure(c, t); err != nil {
			_ = c.Close()
			return nil, &connectError{text: err.Error(), timeout: isTimeout(err)}
		}
	}
	c.count.Connected()
	if d.pooled {
		t.made(c)
	}
	return c, nil
}

// reach connects to an address of the endpoint. The guard judges all of them first; then the transport's dial function
// gets the addresses that were judged. It sends the PROXY header.
func (d *dialing) reach(ctx context.Context, t *try) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(d.link.http.DialTimeout))
	defer cancel()
	e := t.endpoint
	if e.Path() != "" {
		return d.one(ctx, t, t.info)
	}
	addrs, err := e.Dialer(&d.link.dialer).Resolve(ctx, e.Host(), e.Trusted())
	if err != nil {
		return nil, hide(ctx, err, err)
	}
	port := strconv.Itoa(int(e.Port()))
	return guarddial.Try(ctx, addrs, func(ctx context.Context, addr netip.Addr) (net.Conn, error) {
		info := t.info
		info.Network, info.Host, info.Port = "tcp", addr.String(), port
		info.Address = net.JoinHostPort(info.Host, port)
		return d.one(ctx, t, info)
	})
}

// one connects to one address. The error of the transport's dial function doesn't tell what it wraps: what the socket said
// comes by a trace.
func (d *dialing) one(ctx context.Context, t *try, info reverseproxy.DialInfo) (net.Conn, error) {
	var said error
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{ConnectDone: func(_, _ string, err error) { said = err }})
	c, err := d.connect(&dialContext{traced, info, t.vars}, info.Network, info.Address)
	if err != nil {
		return nil, hide(ctx, err, said)
	}
	return c, nil
}

// dialContext tells the transport's dial function where to connect to. It has variables of its own: those of the request
// may be written to by now.
type dialContext struct {
	context.Context
	info reverseproxy.DialInfo
	vars map[string]any
}

// Value returns where to connect to, the variables, or what the request's context has.
func (c *dialContext) Value(key any) any {
	switch key {
	case dialInfoKey:
		return c.info
	case caddyhttp.VarsCtxKey:
		return c.vars
	}
	return c.Context.Value(key)
}

// handshake makes the TLS handshake on a connection.
func (l *link) handshake(ctx context.Context, t *try, c *conn) (*tls.Conn, error) {
	if l.secure.HandshakeTimeout <= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
	}
	if !t.onlyHTTP1 {
		return l.secure.Handshake(ctx, c, t.endpoint.Host(), l.alpn...)
	}
	old := upstreamtls.Client{Config: l.secure.Config.Clone(), HandshakeTimeout: l.secure.HandshakeTimeout}
	old.Config.NextProtos = nil
	return old.Handshake(ctx, c, t.endpoint.Host())
}
