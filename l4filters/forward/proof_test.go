package forward

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/session"
)

// resetting is an endpoint that accepts connections and resets them at their first byte: at once, a connect might see it
// and fail. It counts them.
func resetting(t *testing.T) (address string, accepted *atomic.Int32) {
	t.Helper()
	ln := listen(t)
	accepted = new(atomic.Int32)
	go func() {
		for {
			conn, err := ln.AcceptTCP()
			if err != nil {
				return
			}
			accepted.Add(1)
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.SetLinger(0)
			_ = conn.Close()
		}
	}()
	return ln.Addr().String(), accepted
}

// TestAcceptsAndResets has an endpoint that takes each connection and then resets it: after three it is out, and the
// cause says why.
func TestAcceptsAndResets(t *testing.T) {
	for _, tc := range []struct{ name, detector, state string }{
		{"passive", `,"passive":{"fall":3,"retry_after":"1h"}`, "unhealthy_passive"},
		{"outlier", `,"outlier":{"consecutive_failures":3,"ejection_time":"1h"}`, "ejected"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad, accepted := resetting(t)
			list := servers(t, 1)
			s := start(t, endpoints(bad, list[0].address)+first+tc.detector, ``)
			for i := range 3 {
				if got := s.endpoint(t, bad); !got.Available || got.Failures+got.ConsecutiveFailures != i {
					t.Errorf("got %+v after %d sessions", got, i)
				}
				v := s.visit(t, "192.0.2.7")
				_, _ = v.client.Write([]byte("x"))
				<-v.done
				if got := v.sess.CloseReason(); got != session.Error || v.sess.Upstream != bad {
					t.Errorf("got %v at %s, want %v at %s", got, v.sess.Upstream, session.Error, bad)
				}
			}
			s.await(t, bad, tc.state)
			if cause := s.endpoint(t, bad).Cause; !strings.HasPrefix(cause, "reset: ") || !strings.Contains(cause, "backend") {
				t.Errorf("got cause %q", cause)
			}
			for range 3 {
				s.once(t, "192.0.2.7")
			}
			if got := accepted.Load(); got != 3 {
				t.Errorf("got %d connections at the endpoint that is out, want 3", got)
			}
			s.wantIdle(t)
		})
	}
}

// TestConnectCause checks that the cause of an endpoint that can't be connected to has the error's text.
func TestConnectCause(t *testing.T) {
	down, list := closed(t), servers(t, 1)
	s := start(t, endpoints(down, list[0].address)+first+`,"passive":{"fall":1,"retry_after":"1h"}`, ``)
	s.once(t, "192.0.2.7")
	if cause := s.endpoint(t, down).Cause; !strings.HasPrefix(cause, "connect: ") || !strings.Contains(cause, down) {
		t.Errorf("got cause %q, want it to name %s", cause, down)
	}
}

// TestProofOfSession checks what ends a streak of failures: a session that has got something from the endpoint, while it
// goes on; one that has gone well to its end; and not one whose client has gone before there was anything.
func TestProofOfSession(t *testing.T) {
	for _, tc := range []struct {
		name  string
		visit func(*testing.T, *visit)
		want  int
	}{
		{"goes_on", func(t *testing.T, v *visit) {
			_, _ = v.client.Write([]byte("x"))
			v.at(t)
		}, 0},
		{"ended_without_a_word", func(_ *testing.T, v *visit) { v.leave() }, 0},
		{"client_reset", func(_ *testing.T, v *visit) {
			_ = v.client.SetLinger(0)
			_ = v.client.Close()
			<-v.done
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			address, accepted := echo(t)
			s := start(t, endpoints(address, closed(t))+first+`,"outlier":{"consecutive_failures":2,"ejection_time":"1h"}`, ``)
			fail(t, s.cluster)
			v := s.visit(t, "192.0.2.7")
			eventually(t, func() (string, bool) { return "got no connection", accepted.Load() == 1 })
			s.awaitConnected(t, address)
			if tc.name == "goes_on" && s.endpoint(t, address).ConsecutiveFailures != 1 {
				t.Error("a connection by itself has ended the streak")
			}
			tc.visit(t, v)
			eventually(t, func() (string, bool) {
				got := s.endpoint(t, address).ConsecutiveFailures
				return fmt.Sprintf("got a streak of %d, want %d", got, tc.want), got == tc.want
			})
			v.leave()
			s.wantIdle(t)
		})
	}
}

// awaitConnected waits until a connection to an endpoint serves.
func (s *site) awaitConnected(t *testing.T, address string) {
	t.Helper()
	eventually(t, func() (string, bool) {
		got := s.endpoint(t, address)
		return fmt.Sprintf("got %+v, want a connection that serves", got), got.Connections == 1 && got.Pending == 0
	})
}

// fail makes one attempt at the first endpoint, which fails.
func fail(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	l := lease(t, c)
	l.lease.Done(cluster.Outcome{Kind: health.Connect})
	l.request.Finish()
}

// lease leases an endpoint for a session that has no connections.
func lease(t *testing.T, c *cluster.Cluster) *leased {
	t.Helper()
	l := new(leased)
	l.start = time.Now()
	if err := c.Admit(&l.request); err != nil {
		t.Fatal(err)
	}
	if err := l.request.Pick(&l.lease, cluster.Key{}); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestProofWithoutWord checks that a session in which the endpoint says nothing proves it after a while, unless it is over
// before, and that there is no timer where nobody waits for the news.
func TestProofWithoutWord(t *testing.T) {
	for _, tc := range []struct {
		name string
		// failed says that the endpoint has a streak, over that the session ends.
		failed, over bool
		want         int
	}{{"proves", true, false, 0}, {"over_before", true, true, 1}, {"nobody_waits", false, false, 0}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, endpoints("192.0.2.1:80", "192.0.2.2:80")+first+`,"outlier":{"consecutive_failures":2}`, ``)
				if tc.failed {
					fail(t, s.cluster)
				}
				l := lease(t, s.cluster)
				l.lease.Connected()
				l.proof.begin(l)
				if has := l.proof.timer != nil; has != tc.failed {
					t.Errorf("got a timer: %v, want %v", has, tc.failed)
				}
				if tc.over {
					l.proof.end()
				}
				time.Sleep(lastProof - time.Millisecond) // virtual time
				if got := s.status(t).Endpoints[0].ConsecutiveFailures; tc.failed && got != 1 {
					t.Errorf("got a streak of %d before the time, want 1", got)
				}
				time.Sleep(time.Hour) // virtual time
				if got := s.status(t).Endpoints[0].ConsecutiveFailures; got != tc.want {
					t.Errorf("got a streak of %d, want %d", got, tc.want)
				}
				l.lease.Done(cluster.Outcome{})
				l.request.Finish()
				s.stop()
			})
		})
	}
}
