package forward

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/caddy-sluice/sluice/internal/testkit/dns"
	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/session"
)

// arrival returns a connection that no handler has seen yet.
func (s *site) arrival(t *testing.T) (*layer4.Connection, *session.Session) {
	t.Helper()
	_, server := newPair(t)
	cx := layer4.WrapConnection(server, nil, zap.NewNop())
	sess := session.Of(cx)
	sess.Client = tcp("192.0.2.7", 4321)
	return cx, sess
}

// first is the policy that tries endpoints in their order.
const first = `,"balance":{"policy":"first"}`

// TestZ56_Ejection has an endpoint that nobody listens at: five failures eject it, and no client notices.
func TestZ56_Ejection(t *testing.T) {
	down, list := closed(t), servers(t, 1)
	s := start(t, endpoints(down, list[0].address)+first+`,"outlier":{"consecutive_failures":5,"ejection_time":"1h"}`, ``)
	before := s.counts(t)
	for i := range 7 {
		if i == 5 {
			s.await(t, down, "ejected")
		}
		if got := s.once(t, "192.0.2.7"); got != 0 {
			t.Errorf("got %d, want the endpoint that is up", got)
		}
	}
	diff := s.counts(t).Since(before)
	for name, want := range map[string]float64{
		"caddy_sluice_cluster_events_total " + s.Cluster + " retry":                             5,
		"caddy_sluice_cluster_events_total " + s.Cluster + " ejection":                          1,
		"caddy_sluice_cluster_attempts_total " + s.Cluster + " " + down + " connect":            5,
		"caddy_sluice_cluster_attempts_total " + s.Cluster + " " + list[0].address + " success": 7,
		"caddy_sluice_cluster_attempts_total " + s.Cluster + " " + list[0].address + " aborted": 0,
		"caddy_sluice_cluster_attempts_total " + s.Cluster + " " + list[0].address + " connect": 0,
		"caddy_sluice_cluster_refused_total " + s.Cluster + " no_endpoint":                      0,
		"caddy_sluice_cluster_endpoint_available " + s.Cluster + " " + down:                     -1,
		"caddy_sluice_cluster_endpoints_ejected " + s.Cluster:                                   1,
		"caddy_sluice_cluster_requests_active " + s.Cluster:                                     0,
		"caddy_sluice_cluster_retries_active " + s.Cluster:                                      0,
		"caddy_sluice_cluster_connections " + s.Cluster + " " + list[0].address:                 0,
	} {
		if got := diff[name]; got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if got := s.loud(); len(got) > 0 {
		t.Errorf("got %v, want nothing loud: no client has noticed", got)
	}
	if got := s.logs.FilterMessage("connecting to endpoint failed").Len(); got != 5 {
		t.Errorf("got %d lines about failed attempts, want 5", got)
	}
}

// TestClusterRetries checks how many endpoints a connection tries.
func TestClusterRetries(t *testing.T) {
	for _, tc := range []struct {
		name, retry string
		dead        int
		// reached says that the last endpoint is tried; failures is how many others are.
		reached  bool
		failures int
	}{
		{"the_first_ones_are_down", ``, 3, true, 3},
		{"three_retries_at_most", ``, 4, false, 4},
		{"as_many_as_configured", `,"retry":{"max":1,"budget_min":100}`, 2, false, 2},
		{"not_for_failures_of_another_kind", `,"retry":{"max":3,"on":["reset"]}`, 1, false, 1},
		{"Z56_no_budget", `,"retry":{"max":3,"budget_percent":1,"budget_min":0}`, 1, false, 1},
		{"no_limit_for_retries", `,"limits":{"max_retries":1}`, 2, true, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := servers(t, 1)
			var all []string
			for range tc.dead {
				all = append(all, closed(t))
			}
			s := start(t, endpoints(append(all, list[0].address)...)+first+tc.retry, ``)
			v := s.visit(t, "192.0.2.7")
			if tc.reached {
				v.at(t)
				v.leave()
			}
			<-v.done
			sess := v.sess
			if sess.CloseReason() == session.Completed != tc.reached {
				t.Errorf("got %v", sess.CloseReason())
			}
			if want := tc.failures + int(list[0].accepted.Load()); sess.Attempts != want {
				t.Errorf("got %d attempts in the session, want %d", sess.Attempts, want)
			}
			if got := int(list[0].accepted.Load()); got == 1 != tc.reached {
				t.Errorf("got %d connections, want one: %v", got, tc.reached)
			}
			if got := s.logs.FilterMessage("connecting to endpoint failed").Len(); got != tc.failures {
				t.Errorf("got %d failed attempts, want %d", got, tc.failures)
			}
			if got := s.logs.FilterMessage("connecting to upstream failed").Len(); got == 1 == tc.reached {
				t.Errorf("got %d lines about the connection, want one: %v", got, !tc.reached)
			}
			s.wantIdle(t)
		})
	}
}

// TestEveryEndpointFails checks that each is tried once, and that the warnings don't fill the log.
func TestEveryEndpointFails(t *testing.T) {
	s := start(t, endpoints(closed(t), closed(t)), ``)
	for range 3 {
		s.fails(t, session.ConnectFailure)
	}
	if got := s.logs.FilterMessage("connecting to endpoint failed").Len(); got != 6 {
		t.Errorf("got %d attempts, want 6", got)
	}
	if got := s.loud(); len(got) != 1 || got[0] != "connecting to upstream failed" {
		t.Errorf("got %v, want one warning", got)
	}
	line := s.logs.FilterMessage("connecting to upstream failed").All()[0].ContextMap()
	if line["cluster"] != s.Cluster || line["reason"] != "connect_failure" {
		t.Errorf("got %v, want the cluster and the reason", line)
	}
	s.wantIdle(t)
}

// TestNoOtherEndpoint checks that a connection which has tried all endpoints ends at once, that nothing is counted as a retry
// then, and that no endpoint gets an attempt that isn't made.
func TestNoOtherEndpoint(t *testing.T) {
	for _, tc := range []struct{ name, retry string }{
		{"at_once", ``},
		{"no_wait", `,"retry":{"max":3,"backoff_base":"1h","backoff_cap":"1h"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			down := closed(t)
			s := start(t, endpoints(down)+tc.retry, `,"connect_timeout":"1s"`)
			for range 3 {
				s.fails(t, session.ConnectFailure)
			}
			s.wantFailed(t, down, 3, 0)
		})
	}
	t.Run("the_other_one_is_full", func(t *testing.T) {
		down, list := closed(t), servers(t, 1)
		s := start(t, fmt.Sprintf(`"endpoints":[{"address":"%s"},{"address":"%s","limits":{"max_requests":1}}]`, down, list[0].address)+first, ``)
		v := s.visit(t, "192.0.2.7")
		v.at(t)
		s.fails(t, session.ConnectFailure)
		s.wantFailed(t, down, 2, 2)
		v.leave()
		s.wantIdle(t)
	})
}

// wantFailed checks how many attempts at an endpoint have failed, that there were no others, and how many retries there were.
func (s *site) wantFailed(t *testing.T, address string, attempts, retries float64) {
	t.Helper()
	got := s.counts(t)
	for name, want := range map[string]float64{
		"attempts_total " + s.Cluster + " " + address + " connect": attempts,
		"attempts_total " + s.Cluster + " " + address + " aborted": 0,
		"events_total " + s.Cluster + " retry":                     retries,
	} {
		if got := got["caddy_sluice_cluster_"+name]; got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// TestZ122_ResetByEndpoint checks when a reset counts against the endpoint: if it has said nothing before.
func TestZ122_ResetByEndpoint(t *testing.T) {
	for _, tc := range []struct {
		name, says, state string
	}{{"before_its_first_byte", "", "ejected"}, {"after_it", "hello", "healthy"}} {
		t.Run(tc.name, func(t *testing.T) {
			address, done := backend(t, func(conn *net.TCPConn) {
				_, _ = io.ReadFull(conn, make([]byte, 4))
				_, _ = conn.Write([]byte(tc.says))
				_, _ = io.ReadFull(conn, make([]byte, 4))
				_ = conn.SetLinger(0)
			})
			s := start(t, endpoints(address, closed(t))+first+`,"outlier":{"consecutive_failures":1,"ejection_time":"1h"}`, ``)
			v := s.visit(t, "192.0.2.7")
			_, _ = v.client.Write([]byte("ping"))
			_, _ = io.ReadFull(v.client, make([]byte, len(tc.says)))
			_, _ = v.client.Write([]byte("ping"))
			<-done
			<-v.done
			if got := v.sess.CloseReason(); got != session.Error {
				t.Errorf("got %v, want %v", got, session.Error)
			}
			if got := s.endpoint(t, address).State; got != tc.state {
				t.Errorf("got %s, want %s", got, tc.state)
			}
			s.wantIdle(t)
		})
	}
}

// TestClusterNames checks what becomes of endpoints whose names lead nowhere, or where the guard doesn't let them.
func TestClusterNames(t *testing.T) {
	list := servers(t, 1)
	_, port, _ := net.SplitHostPort(list[0].address)
	resolver := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = resolver })
	net.DefaultResolver = dns.Serve(t, func(name string, _ dnsmessage.Type) []netip.Addr {
		if name == "private.example.test" {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}
		return nil
	})
	private, unknown := "private.example.test:"+port, "unknown.example.test:"+port
	for _, tc := range []struct {
		name, config string
		want         session.CloseReason
		at           string
		failures     int
	}{
		{"Z111_guard", endpoints(private, list[0].address), session.Guard, private, 0},
		{"Z111_guard_off", endpoints(private) + `,"allow_private":true`, session.Completed, private, 0},
		{"resolve_failure", endpoints(unknown), session.ResolveFailure, unknown, 1},
		{"next_after_a_resolve_failure", endpoints(unknown, list[0].address), session.Completed, list[0].address, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, tc.config+first+`,"outlier":{}`, ``)
			v := s.visit(t, "192.0.2.7")
			if tc.want == session.Completed {
				v.at(t)
				v.leave()
			}
			<-v.done
			if got := v.sess; got.CloseReason() != tc.want || got.Upstream != tc.at {
				t.Errorf("got %v at %s, want %v at %s", got.CloseReason(), got.Upstream, tc.want, tc.at)
			}
			if got := s.status(t).Endpoints[0].ConsecutiveFailures; got != tc.failures {
				t.Errorf("got %d failures, want %d", got, tc.failures)
			}
			if tc.want != session.Guard {
				return
			}
			line := s.logs.FilterMessage("connecting to upstream failed").All()[0].ContextMap()
			text := fmt.Sprint(line["cluster"], line["error"])
			for _, want := range []string{s.Cluster, "private.example.test", "127.0.0.1", "allow_private"} {
				if !strings.Contains(text, want) {
					t.Errorf("got %q, want %q in it", text, want)
				}
			}
		})
	}
}

// TestEndpointTakenOut checks what ends connections to an endpoint, and when.
func TestEndpointTakenOut(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change cluster.Change
		want   session.CloseReason
	}{
		{"disabled", cluster.Change{State: "disabled"}, session.Drained},
		{"Z123_drained_with_a_deadline", cluster.Change{State: "drain", Deadline: 50 * time.Millisecond}, session.Drained},
		{"drained", cluster.Change{State: "drain"}, session.Completed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := servers(t, 2)
			s := start(t, endpoints(addresses(list)...)+first, ``)
			v := s.visit(t, "192.0.2.7")
			v.at(t)
			if err := cluster.Override(s.Cluster, list[0].address, tc.change); err != nil {
				t.Fatal(err)
			}
			if tc.want == session.Drained {
				v.wantReset(t)
			} else {
				v.served(t)
			}
			if got := v.leave(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if got := s.once(t, "192.0.2.7"); got != 1 {
				t.Errorf("got %d, want the other endpoint", got)
			}
			s.wantIdle(t)
		})
	}
}

// wantReset checks that the connection is reset.
func (v *visit) wantReset(t *testing.T) {
	t.Helper()
	if _, err := io.Copy(io.Discard, v.client); err == nil {
		t.Error("got the end of the stream, want a reset")
	}
}

// TestCloseOnUnhealthy has an endpoint that fails its checks while a session goes on there.
func TestCloseOnUnhealthy(t *testing.T) {
	list := servers(t, 2)
	s := start(t, endpoints(addresses(list)...)+first+
		`,"health":{"interval":"1s","fall":1,"check":{"type":"tcp"}},"close_on_unhealthy":"1ns"`, ``)
	v := s.visit(t, "192.0.2.7")
	v.at(t)
	_ = list[0].ln.Close()
	v.wantReset(t)
	if got := v.leave(); got != session.EndpointUnhealthy {
		t.Errorf("got %v, want %v", got, session.EndpointUnhealthy)
	}
	s.wantIdle(t)
}

// TestPerClientAcrossForwards checks that all that forwards to a cluster counts a client's connections together.
func TestPerClientAcrossForwards(t *testing.T) {
	list := servers(t, 1)
	config := endpoints(addresses(list)...) + `,"limits":{"max_connections_per_ip":1}`
	s := start(t, config, ``)
	before := counted(t, s.Cluster)
	v := s.visit(t, "192.0.2.7")
	v.at(t)
	after := restart(t, s, config)
	after.visit(t, "192.0.2.7").refused(t)
	if got := counted(t, s.Cluster) - before; got != 1 {
		t.Errorf("got %v counted, want 1", got)
	}
	other := after.visit(t, "192.0.2.8")
	other.at(t)
	other.leave()
	v.leave()
	after.wantIdle(t)
}

// TestNoEndpoint checks a cluster that refuses when nothing is healthy.
func TestNoEndpoint(t *testing.T) {
	s := start(t, endpoints(closed(t))+`,"passive":{"fall":1,"retry_after":"1h"},"on_no_endpoint":"refuse"`, ``)
	s.fails(t, session.ConnectFailure)
	s.fails(t, session.NoEndpoint)
	s.wantIdle(t)
}

// TestClusterReload ends sessions after the config that they began under: what they hold is counted in what goes on.
func TestClusterReload(t *testing.T) {
	list := servers(t, 2)
	config := endpoints(addresses(list)...) + first
	s := start(t, config, ``)
	var held []*visit
	for range 3 {
		v := s.visit(t, "192.0.2.7")
		v.at(t)
		held = append(held, v)
	}
	after := restart(t, s, config+`,"limits":{"max_connections":4}`)
	v := after.visit(t, "192.0.2.7")
	v.at(t)
	after.visit(t, "192.0.2.7").refused(t)
	if err := cluster.Override(s.Cluster, list[0].address, cluster.Change{State: "drain"}); err != nil {
		t.Fatal(err)
	}
	for _, v := range append(held, v) {
		v.served(t)
		if got := v.leave(); got != session.Completed {
			t.Errorf("got %v, want %v", got, session.Completed)
		}
	}
	after.wantIdle(t)
}
