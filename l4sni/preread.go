// Package l4sni reads the ClientHello of a TLS connection before a byte is forwarded, and routes the connection by
// its server name and protocols. Nothing is decrypted and nothing is changed: whatever comes next, a proxy, Caddy's
// own TLS or its HTTP app, sees the stream from its first byte.
package l4sni

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/modules/addrcheck"
	"github.com/caddy-sluice/sluice/modules/session"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

func init() {
	caddy.RegisterModule(&Preread{})
}

// Preread is the handler `preread`. It reads a connection until its ClientHello is complete or can't become one, and
// keeps what the hello says for the handlers behind it: sni_router routes by it, placeholders and logs show it.
//
// It closes a connection itself only if the client left or a PROXY header was missing or invalid. Whatever else is
// wrong (no TLS, malformed, too slow, too large) it leaves to the handlers behind it: sni_router gives it to the
// fallback for that reason or closes it, and forward closes it.
//
// Without it, sni_router reads by itself, with the defaults. A second preread of the same connection does nothing.
//
// Placeholders, for the handlers behind it: `{l4.sluice.sni}`, `{l4.sluice.alpn}`, `{l4.sluice.ech}`,
// `{l4.sluice.hello_size}`, `{l4.sluice.hello_records}`, `{l4.sluice.reason}`, `{l4.sluice.client}`.
type Preread struct {
	// How long a connection may take, from its first Sluice handler, until the hello is complete. Progress does not
	// extend it. Range: `10ms` to `5m`. Default: `5s`. No placeholders.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// How many bytes may be read before the hello is complete, a PROXY header included. Range: 5 (the header of one
	// TLS record) to 1048576. Default: 32768, room for a hello in a full-size record. No placeholders.
	MaxBytes int64 `json:"max_bytes,omitempty"`

	// Who sends a PROXY protocol header. Default: nobody; a connection that begins with one is then not TLS.
	ProxyProtocol *ProxyProtocol `json:"proxy_protocol,omitempty"`

	// Whether a hello is read, too: `on` or `off`. With `off` only the PROXY header is, from those who send one, for what
	// is not TLS or in which the server speaks first; it needs `proxy_protocol`. Default: `on`. No placeholders.
	Hello string `json:"hello,omitempty"`

	reader prereader
	// header reads in place of reader if there is to be no hello.
	header *HeaderReader
	logger *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*Preread) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "layer4.handlers.preread",
		New: func() caddy.Module { return new(Preread) },
	}
}

// Provision checks the settings and sets the defaults.
func (h *Preread) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	var err error
	if h.reader.cfg, err = h.Config(); err != nil {
		return err
	}
	if _, err := h.HeaderOnly(); err != nil {
		return err
	}
	if h.ProxyProtocol != nil {
		if h.reader.from, err = h.ProxyProtocol.prefixes(); err != nil {
			return err
		}
	}
	if err := addrcheck.Handler(ctx); err != nil {
		return err
	}
	if h.reader.app, err = sluiceapp.Of(ctx); err != nil {
		return err
	}
	if h.Hello == helloOff {
		h.header = &HeaderReader{h.reader.cfg, h.reader.from, h.reader.app, h.logger}
	}
	return metrics.register(ctx.GetMetricsRegistry())
}

// helloOff is the value of Hello with which none is read.
const helloOff = "off"

// HeaderOnly says whether only a PROXY header is read, and refuses settings that don't go together.
func (h *Preread) HeaderOnly() (bool, error) {
	switch {
	case h.Hello == "" || h.Hello == "on":
		return false, nil
	case h.Hello != helloOff:
		return false, fmt.Errorf("hello: %q is neither \"on\" nor \"off\"", h.Hello)
	case h.ProxyProtocol == nil:
		return false, errors.New("hello: off needs proxy_protocol, since there is nothing else to read")
	}
	return true, nil
}

// Config turns the settings into the core's config.
func (h *Preread) Config() (preread.Config, error) {
	cfg := defaults
	if h.MaxBytes != 0 {
		if h.MaxBytes < preread.MinMaxBytes || h.MaxBytes > preread.MaxMaxBytes {
			return cfg, fmt.Errorf("max_bytes: %d is out of range, %d to %d", h.MaxBytes, preread.MinMaxBytes, preread.MaxMaxBytes)
		}
		cfg.MaxBytes = int(h.MaxBytes)
	}
	if h.Timeout != 0 {
		timeout := time.Duration(h.Timeout)
		if timeout < preread.MinTimeout || timeout > preread.MaxTimeout {
			return cfg, fmt.Errorf("timeout: %v is out of range, %v to %v", timeout, preread.MinTimeout, preread.MaxTimeout)
		}
		cfg.Timeout = timeout
	}
	return cfg, nil
}

// defaults is the core's config where nothing else is said.
var defaults = preread.Config{MaxBytes: preread.DefaultMaxBytes, Timeout: preread.DefaultTimeout}

// Handle reads the hello and calls next, unless the client is gone or is not to be trusted.
func (h *Preread) Handle(cx *layer4.Connection, next layer4.Handler) error {
	sess := session.Inside(cx)
	if sess == nil {
		return session.First(cx, h, next, h.logger)
	}
	cx, err := h.read(cx, sess)
	if cx == nil {
		return err
	}
	return next.Handle(cx)
}

// read returns the connection as it is to go on; nil if it is not to.
func (h *Preread) read(cx *layer4.Connection, sess *session.Session) (*layer4.Connection, error) {
	if sess.CloseReason() != session.Open {
		return nil, nil // it was stopped from outside
	}
	if sess.Preread {
		return cx, nil
	}
	if h.header != nil {
		return h.header.Read(cx, sess), nil
	}
	if !h.reader.app.Admit(sess) {
		return nil, nil
	}
	metrics.begin(sess)
	r := h.reader.read(cx, sess)
	if r.cx != nil && closes(r.verdict.Reason) {
		refuse(r.cx, sess, h.logger, false)
		return nil, nil
	}
	return r.cx, r.err
}

// Interface guards
var (
	_ caddy.Provisioner  = (*Preread)(nil)
	_ layer4.NextHandler = (*Preread)(nil)
)
