package forward

import (
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/mholt/caddy-l4/layer4"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/prom"
	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/modules/session"
)

// counted returns how many connections to an upstream were too many for their clients.
func counted(t *testing.T, upstream string) float64 {
	t.Helper()
	all := counts.Of(t, func(reg prometheus.Registerer) error { return prom.Register(reg, metrics.limited) })
	return all["caddy_sluice_forward_limited_total "+upstream]
}

// limited provisions a handler that lets each client have n connections to an upstream.
func limited(t *testing.T, upstream, n string) *Handler {
	t.Helper()
	h, _, err := load(t, `{"upstream":"`+upstream+`","max_connections_per_ip":`+n+`}`)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// visit is a connection of a client at an address.
type visit struct {
	client *net.TCPConn
	sess   *session.Session
	done   chan struct{}
}

// visit handles a connection from an address.
func (h *Handler) visit(t *testing.T, from string) *visit {
	t.Helper()
	client, server := newPair(t)
	cx := layer4.WrapConnection(server, nil, zap.NewNop())
	v := &visit{client: client, sess: session.Of(cx), done: make(chan struct{})}
	v.sess.Client = tcp(from, 4321)
	go func() {
		defer close(v.done)
		_ = h.Handle(cx, behind(t))
		_ = server.Close()
	}()
	return v
}

// leave has the client end the connection and waits for the session's end.
func (v *visit) leave() session.CloseReason {
	_ = v.client.CloseWrite()
	_, _ = io.Copy(io.Discard, v.client)
	<-v.done
	return v.sess.CloseReason()
}

// echo is a server that sends back what it gets, and counts connections.
func echo(t *testing.T) (address string, accepted *atomic.Int32) {
	t.Helper()
	ln := listen(t)
	accepted = new(atomic.Int32)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	return ln.Addr().String(), accepted
}

// served checks that the connection has reached the upstream.
func (v *visit) served(t *testing.T) {
	t.Helper()
	_, _ = v.client.Write([]byte("ping"))
	if _, err := io.ReadFull(v.client, make([]byte, 4)); err != nil {
		t.Fatalf("got %v, want an answer", err)
	}
}

// refused checks that the connection was ended with a FIN, without a byte.
func (v *visit) refused(t *testing.T) {
	t.Helper()
	_, _ = v.client.Write([]byte("bytes that nobody reads"))
	if b, err := io.ReadAll(v.client); len(b) > 0 || err != nil {
		t.Errorf("got %q, %v, want the end of the stream", b, err)
	}
	if got := v.leave(); got != session.ClusterLimit {
		t.Errorf("got %v, want %v", got, session.ClusterLimit)
	}
}

// TestLimit holds as many connections as a client may have, and tries more.
func TestLimit(t *testing.T) {
	for n, name := range map[int]string{1: "E18_one", 2: "E19_two", 3: "Z116_three"} {
		t.Run(name, func(t *testing.T) {
			address, accepted := echo(t)
			h := limited(t, address, strconv.Itoa(n))
			var held []*visit
			for range n {
				v := h.visit(t, "192.0.2.7")
				v.served(t)
				held = append(held, v)
			}
			before := counted(t, address)
			for range 5 {
				h.visit(t, "192.0.2.7").refused(t)
			}
			if got := int(accepted.Load()); got != n {
				t.Errorf("got %d connections at the upstream, want %d", got, n)
			}
			if got := counted(t, address) - before; got != 5 {
				t.Errorf("got %v counted, want 5", got)
			}
			if got := held[0].leave(); got != session.Completed {
				t.Errorf("got %v, want %v", got, session.Completed)
			}
			held[0] = h.visit(t, "192.0.2.7")
			held[0].served(t)
			for _, v := range held {
				v.leave()
			}
		})
	}
}

// TestE20_LimitBySource checks who counts as one client: the address behind a PROXY header, and for IPv6 its network.
func TestE20_LimitBySource(t *testing.T) {
	address, _ := echo(t)
	h := limited(t, address, "1")
	var held []*visit
	for _, from := range []string{"192.0.2.7", "192.0.2.8", "2001:db8:0:1::7", "2001:db8:0:2::7"} {
		v := h.visit(t, from)
		v.served(t)
		held = append(held, v)
	}
	for _, from := range []string{"192.0.2.7", "::ffff:192.0.2.8", "2001:db8:0:1::8"} {
		h.visit(t, from).refused(t)
	}
	for _, v := range held {
		v.leave()
	}
}

// TestE21_LimitByUpstream checks that two upstreams count apart, and that without a limit nobody counts.
func TestE21_LimitByUpstream(t *testing.T) {
	a, _ := echo(t)
	b, _ := echo(t)
	open, _ := newHandler(t, a)
	handlers := []*Handler{limited(t, a, "1"), limited(t, b, "1"), open, open}
	var held []*visit
	for _, h := range handlers {
		v := h.visit(t, "192.0.2.7")
		v.served(t)
		held = append(held, v)
	}
	for _, v := range held {
		v.leave()
	}
}

// TestE22_LimitAfterFailures checks that a client whose upstream is down gets its permits back.
func TestE22_LimitAfterFailures(t *testing.T) {
	h := limited(t, closed(t), "1")
	for range 3 {
		v := h.visit(t, "192.0.2.7")
		<-v.done
		if got := v.sess.CloseReason(); got != session.ConnectFailure {
			t.Errorf("got %v, want %v", got, session.ConnectFailure)
		}
	}
}

// TestS13_HandedOverOnce checks that a connection which is refused ends for one reason, and is told to be over once at
// most.
func TestS13_HandedOverOnce(t *testing.T) {
	address, _ := echo(t)
	h := limited(t, address, "1")
	first := h.visit(t, "192.0.2.7")
	first.served(t)
	client, server := newPair(t)
	_ = client.Close()
	cx := layer4.WrapConnection(server, nil, zap.NewNop())
	sess := session.Of(cx)
	sess.Client = tcp("192.0.2.7", 1)
	connected := 0
	sess.OnHandover(func() { connected++ })
	_ = h.Handle(cx, behind(t))
	if sess.CloseReason() != session.ClusterLimit || connected > 1 {
		t.Errorf("got %v, %d hand-overs, want %v, at most 1", sess.CloseReason(), connected, session.ClusterLimit)
	}
	first.leave()
}
