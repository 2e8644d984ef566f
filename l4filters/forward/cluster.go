package forward

import (
	"errors"
	"fmt"
	"net"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/internal/linger"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/session"
)

// setCluster finds the cluster, and takes from it what the handler doesn't have of its own.
func (h *Handler) setCluster() (err error) {
	if err := h.checkForeign(); err != nil {
		return err
	}
	if h.cluster, err = h.app.Cluster(h.Cluster); err != nil {
		return fmt.Errorf("%w (an address has a port)", err)
	}
	if key := h.cluster.Key(); !key.Layer4() {
		return fmt.Errorf("cluster: %q balances by %s, which is for requests: connections have none", h.Cluster, key)
	}
	h.tls = h.cluster.TLS()
	if h.ProxyProtocol == "" {
		h.ProxyProtocol = h.cluster.ProxyProtocol()
	}
	h.perClient, h.prefix6 = h.cluster.MaxConnectionsPerIP(), defaultIPv6Prefix
	h.scope, h.limited = "cluster "+h.Cluster, metrics.limited.WithLabelValues(h.Cluster)
	return nil
}

// checkForeign refuses what is the cluster's to say, or has no meaning with one.
func (h *Handler) checkForeign() error {
	for _, option := range []struct {
		name, instead string
		set           bool
	}{
		{"allow", "its endpoints are all that it leads to", len(h.Allow) > 0},
		{"guard", "the cluster has a guard", h.Guard != nil},
		{"allow_private", "the cluster has an allow_private", h.AllowPrivate},
		{"max_connections_per_ip", "the cluster has one in its limits", h.MaxConnectionsPerIP != 0},
		{"ipv6_prefix", "a client by IPv6 is its network of 64 bits", h.IPv6Prefix != 0},
	} {
		if option.set {
			return fmt.Errorf("%s: is for upstreams with an address, not for cluster %q: %s", option.name, h.Cluster, option.instead)
		}
	}
	return nil
}

// key returns what the endpoint of a connection is chosen by, if it is by something.
func (h *Handler) key(cx *layer4.Connection, sess *session.Session) cluster.Key {
	switch key := h.cluster.Key(); key.Source {
	case balancers.ClientIP:
		return cluster.HashKey(clientIP(sess.Client))
	case balancers.SNI:
		if sess.Hello != nil {
			return cluster.HashKey(sess.Hello.ServerName)
		}
	case balancers.Placeholder:
		return cluster.HashKey(cx.Replacer().ReplaceAll(key.Name, ""))
	}
	return cluster.Key{}
}

// clientIP returns the IP address of a client; empty if it has none.
func clientIP(client net.Addr) string {
	tcp, ok := client.(*net.TCPAddr)
	if !ok || !tcp.AddrPort().Addr().IsValid() {
		return ""
	}
	return tcp.AddrPort().Addr().Unmap().String()
}

// refused ends a connection that the cluster doesn't let through. One that is over a limit gets the end of the stream, as
// in permit.
func (h *Handler) refused(cx *layer4.Connection, sess *session.Session, err error) {
	reason := refusal(err)
	sess.End(reason)
	if entry := h.logger.Check(zap.DebugLevel, "cluster refused connection"); entry != nil {
		entry.Write(zap.Stringer("remote", sess.Client), zap.String("cluster", sess.Cluster), zap.Error(err))
	}
	if reason == session.ClusterLimit {
		linger.End(bottom(cx.Conn), nil)
	}
}

// refusal says what it means for the session that a cluster didn't let a connection through.
func refusal(err error) session.CloseReason {
	if r, ok := errors.AsType[*cluster.Refused](err); ok && r.Why == health.NoEndpoint {
		return session.NoEndpoint
	}
	return session.ClusterLimit
}
