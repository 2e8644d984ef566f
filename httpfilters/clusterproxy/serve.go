package clusterproxy

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-sluice/sluice/modules/refusal"
)

// ServeHTTP passes the request to an endpoint of the cluster.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	l := h.only
	if l == nil {
		var err error
		if l, err = h.find(r); err != nil {
			return answerError(w, r, http.StatusBadGateway, err)
		}
	}
	s := &state{ctx: r.Context(), client: r.Context(), link: l, ownHost: h.ownHost}
	defer s.finish(w)
	if err := s.begin(r); err != nil {
		return l.refuse(w, r, err, err)
	}
	if err := h.bind(s, r); err != nil {
		return err
	}
	if err := s.pick(); err != nil {
		return l.refuse(w, r, err, err)
	}
	s.publish()
	return s.verdict(w, r, h.Handler.ServeHTTP(w, h.outgoing(r, s), next))
}

// find finds the cluster that a request names.
func (h *Handler) find(r *http.Request) (*link, error) {
	repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	name := repl.ReplaceAll(h.Cluster, "")
	l, err := h.linkTo(name)
	if err == nil {
		return l, nil
	}
	unknownClusters.Inc()
	if check := h.logger.Check(zapcore.DebugLevel, "unknown cluster"); check != nil {
		check.Write(zap.String("cluster", name), zap.Error(err))
	}
	return nil, err
}

// linkTo returns the link to a cluster.
func (h *Handler) linkTo(name string) (*link, error) {
	c, err := h.app.Cluster(name)
	if err != nil {
		return nil, errors.New("there is no such cluster")
	}
	return h.links.of(c)
}

// setsHost says whether a `header_up` sets the Host header.
func (h *Handler) setsHost() bool {
	if h.Headers == nil || h.Headers.Request == nil {
		return false
	}
	ops := h.Headers.Request
	for _, names := range []iter.Seq[string]{maps.Keys(ops.Set), maps.Keys(ops.Add), maps.Keys(ops.Replace)} {
		for name := range names {
			if strings.EqualFold(name, "Host") {
				return true
			}
		}
	}
	return false
}

// outgoing returns the request as Caddy's handler gets it. The request itself stays what it was.
func (h *Handler) outgoing(r *http.Request, s *state) *http.Request {
	header := h.headerOf(r)
	// Caddy's handler must not read a body that isn't sent.
	strip := (s.filtered != nil || s.bare) && h.RequestBuffers != 0
	if s.ctx == s.client && header == nil && !strip {
		return r
	}
	out := r.WithContext(s.ctx)
	if strip {
		withoutBody(out)
	}
	if header != nil {
		out.Header = header
	}
	return out
}

// verdict turns the error of Caddy's handler into that of ours.
func (s *state) verdict(w http.ResponseWriter, r *http.Request, err error) error {
	switch {
	case err == nil || s.answer.status != 0:
		return err
	case s.clientGone():
		w.WriteHeader(refusal.ClientGone)
		return nil
	case s.filtered != nil && s.filtered.err != nil:
		return s.filtered.err
	case s.expired.Load():
		return caddyhttp.Error(http.StatusGatewayTimeout, s.errTimeout())
	case s.short != nil:
		return s.link.refuse(w, r, err, s.short)
	}
	return err
}

// errTimeout is the error of a request whose time is over.
func (s *state) errTimeout() error {
	return fmt.Errorf("cluster %s: request_timeout is over", s.link.cluster.Name())
}

// publish makes the state that of the request, and its placeholders those of this handler.
func (s *state) publish() {
	vars, ok := s.client.Value(caddyhttp.VarsCtxKey).(map[string]any)
	if !ok {
		return
	}
	if _, again := vars[stateVar]; !again {
		repl := s.client.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		repl.Map(func(key string) (any, bool) { return placeholder(vars, key) })
	}
	vars[stateVar] = s
}

// placeholderPrefix is what our placeholders begin with.
const placeholderPrefix = "http.sluice."

// placeholder returns the value of a placeholder.
func placeholder(vars map[string]any, key string) (any, bool) {
	name, ours := strings.CutPrefix(key, placeholderPrefix)
	if !ours {
		return nil, false
	}
	s, ok := vars[stateVar].(*state)
	if !ok {
		return nil, false
	}
	switch name {
	case "cluster":
		return s.link.cluster.Name(), true
	case "endpoint":
		return s.lastAddress, true
	case "attempts":
		return s.attempts, true
	case "retries":
		return s.request.Retries(), true
	case "replayed":
		return s.replayed, true
	case "budget_exhausted":
		return s.exhausted, true
	case "failure":
		return s.lastFailure(), true
	}
	return nil, false
}

// lastFailure names what became of the last attempt that failed; it is empty if none has.
func (s *state) lastFailure() string {
	if !s.failed {
		return ""
	}
	return s.failure.String()
}
