// Package accesslog writes one line for each connection, when it has ended.
package accesslog

import (
	"fmt"
	"math/rand/v2"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/modules/addrcheck"
	"github.com/caddy-sluice/sluice/modules/session"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

// The share of ordinary connections that can be asked for.
const (
	minSample = 0.01
	maxSample = 1
)

func init() {
	caddy.RegisterModule(&Handler{})
}

// Handler is the handler `access_log`. For each connection that reaches it, it writes one line at level INFO when the
// connection has ended: who it was, where it went, how much it moved, how long it took and why it ended. Put it first in
// a route, and it has those that are refused behind it too.
//
// A connection that was handed over to Caddy's HTTP app gets its line when that closes it. A client that left without a
// byte, as health checks do, gets one at level DEBUG only.
type Handler struct {
	// The share of ordinary connections, close reason `completed` or `handed_over`, that get a line. All others always
	// do. Range: 0.01 to 1. Default: 1. No placeholders.
	Sample float64 `json:"sample,omitempty"`

	logger *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "layer4.handlers.access_log",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision checks the settings and sets the defaults.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	if h.Sample == 0 {
		h.Sample = maxSample
	}
	if !(h.Sample >= minSample && h.Sample <= maxSample) { // the negation also has what is no number
		return fmt.Errorf("sample: %v is out of range, %v to %v", h.Sample, minSample, maxSample)
	}
	if err := addrcheck.Handler(ctx); err != nil {
		return err
	}
	_, err := sluiceapp.Of(ctx)
	return err
}

// record is what a connection's line needs besides the session.
type record struct {
	h    *Handler
	sess *session.Session
	// failed is set if the handlers behind returned an error.
	failed bool
}

// Handle calls next, and has the line written at the session's end.
func (h *Handler) Handle(cx *layer4.Connection, next layer4.Handler) error {
	sess := session.Enter(cx)
	defer sess.Leave(h.logger)
	r := h.record(sess)
	if sess.CloseReason() != session.Open {
		return nil
	}
	err := next.Handle(cx)
	r.failed = err != nil
	return err
}

// record has the connection's line written at the session's end.
func (h *Handler) record(sess *session.Session) *record {
	r := &record{h: h, sess: sess}
	sess.OnEnd(r.end)
	if h.logger.Core().Enabled(zap.DebugLevel) {
		r.begin()
	}
	return r
}

// begin writes the line about the connection's beginning.
func (r *record) begin() {
	if entry := r.h.logger.Check(zap.DebugLevel, "connection accepted"); entry != nil {
		entry.Write(zap.String("id", r.sess.ID()), zap.String("remote", r.sess.Client.String()),
			zap.String("listener", r.sess.Listener.String()))
	}
}

// end writes the connection's line.
func (r *record) end() {
	reason := r.reason()
	if !chosen(reason, r.h.Sample, rand.Float64()) {
		return
	}
	level := zap.InfoLevel
	if r.sess.Silent {
		level = zap.DebugLevel
	}
	if entry := r.h.logger.Check(level, "connection"); entry != nil {
		entry.Write(zap.Inline(fields{r.sess, reason}))
	}
}

// reason returns why the connection ended. A handler that is not ours has only said whether it worked.
func (r *record) reason() session.CloseReason {
	reason := r.sess.CloseReason()
	switch {
	case reason != session.Open:
		return reason
	case r.failed:
		return session.Error
	}
	return session.Completed
}

// chosen says whether a connection is to get a line, at a share of ordinary ones and a random number below 1.
func chosen(reason session.CloseReason, share, random float64) bool {
	switch reason {
	case session.Completed, session.HandedOver:
		return random < share
	}
	return true
}

// Interface guards
var (
	_ caddy.Provisioner  = (*Handler)(nil)
	_ layer4.NextHandler = (*Handler)(nil)
)
