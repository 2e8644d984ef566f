package clusterproxy

import (
	"errors"
	"strings"

	"github.com/caddy-sluice/sluice/internal/health"
)

// Go's transport would send a request again over one pooled connection after the other, as often as it thinks that it may:
// one that crashes its endpoint would do so as many times as there are connections. Here a request is sent over one, and
// what happens after that is up to the cluster. There is no setting for it. But the transport looks for another connection
// by the host in the URL, which nobody else looks at once there is one: with another host it finds none, and wants to make
// one, which is refused. This costs nothing.

const (
	// noHost is the host that has no connections. No endpoint can have such a name.
	noHost = "sent once"
	// noPath is a path that HTTP/2 doesn't send.
	noPath = "sent once"
)

var (
	// errSentOnce is the error of an attempt that the transport would have made again.
	errSentOnce = errors.New("the connection broke before the answer")
	// errTurnedDown is that of one that it couldn't.
	errTurnedDown = errors.New("the endpoint has refused the request, which has a body")
)

// isNoHost says whether a connection is asked for because the transport wants to send a request again.
func isNoHost(address string) bool { return strings.HasPrefix(address, noHost) }

// onlyOnce keeps the transport from sending again what it is about to send. It comes here twice in one case: HTTP/2 has
// refused the request, see turnedDown. Its first retry is at once; before another one it would wait for a second.
func (t *try) onlyOnce() {
	if t.sent {
		t.refused = true
		t.target.Opaque = noPath
	}
	t.target.Host = noHost
}

// turnedDown says whether the transport would have made an attempt again, if only it had the body twice: an endpoint has
// refused a stream of HTTP/2, or ended the connection, and said that it hasn't worked on the request (RFC 9113 section 8.7).
// Often there were more than it serves at a time, and the connection is fine.
//
// Only the text of the error tells. With a GetBody the transport would come back to onlyOnce. But over HTTP/1 it would do so
// too, with a POST as well if it has an Idempotency-Key, and hide how the connection has ended. And Go's own HTTP/2 sends
// again what has failed with PROTOCOL_ERROR, which the endpoint may have worked on.
func turnedDown(err error) bool {
	why, ok := strings.CutPrefix(err.Error(), "http2: Transport: cannot retry err [")
	return ok && (strings.Contains(why, "; REFUSED_STREAM; received from peer]") || strings.Contains(why, "graceful shutdown GOAWAY]"))
}

// replay leases the endpoint of a stale connection once more. If that is out by now, or has no room, the cluster has decided
// what else to do.
func (s *state) replay(t *try, v verdict) bool {
	d := s.request.Repick(&s.lease, s.failureOf(t, v))
	if d.Action != health.Replay {
		s.heed(v.kind, d, nil)
		return false
	}
	s.leased()
	s.replayed = true
	t.phase.Store(waiting)
	t.sent, t.reused, t.refused = false, false, false
	return true
}

// unseen says whether the endpoint has certainly got nothing of the request, which has failed with an error.
func (t *try) unseen(err error) bool {
	c := t.conn.Load()
	return c != nil && t.reused && c.unseen(t.begin, err)
}
