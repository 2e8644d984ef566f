package forward

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/internal/testkit/ports"
	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/session"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

// site is a config that has a cluster, and a handler that forwards to it.
type site struct {
	*Handler
	logs     *observer.ObservedLogs
	registry *prometheus.Registry
	app      *sluiceapp.App
	stop     func()
}

// clusterName returns the name of the cluster of a test.
func clusterName(t testing.TB) string {
	return strings.Map(func(r rune) rune {
		if r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, t.Name())
}

// provision provisions a config with these clusters, and a handler with these settings.
func provision(t testing.TB, clusters, handler string) (*site, error) {
	t.Helper()
	ctx, cancel := modules.ContextUntil(t, caddy.ModuleMap{"sluice": json.RawMessage(`{"clusters":{` + clusters + `}}`)})
	t.Cleanup(cancel)
	app, err := sluiceapp.Of(ctx)
	if err != nil {
		return nil, err
	}
	mod, err := ctx.LoadModuleByID("layer4.handlers.forward", []byte(handler))
	if err != nil {
		return nil, err
	}
	core, logs := observer.New(zap.DebugLevel)
	s := &site{Handler: mod.(*Handler), logs: logs, registry: ctx.GetMetricsRegistry(), app: app}
	s.logger = zap.New(core)
	s.stop = sync.OnceFunc(func() {
		_ = app.Stop()
		cancel()
	})
	return s, nil
}

// start starts a config whose cluster, named after the test, has these settings, and so has its handler.
func start(t testing.TB, cluster, settings string) *site {
	t.Helper()
	return startNamed(t, clusterName(t), cluster, settings)
}

// startNamed is start with a name.
func startNamed(t testing.TB, name, cluster, settings string) *site {
	t.Helper()
	s, err := provision(t, fmt.Sprintf(`"%s":{%s}`, name, cluster), fmt.Sprintf(`{"cluster":"%s"%s}`, name, settings))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.app.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// restart starts the same cluster under another config, and then stops the one before.
func restart(t *testing.T, before *site, cluster string) *site {
	t.Helper()
	after := startNamed(t, before.Cluster, cluster, ``)
	before.stop()
	return after
}

// endpoints returns the setting of a cluster that has these endpoints.
func endpoints(addresses ...string) string {
	var list []string
	for _, a := range addresses {
		list = append(list, `{"address":"`+a+`"}`)
	}
	return `"endpoints":[` + strings.Join(list, ",") + `]`
}

// status returns what is known about the cluster.
func (s *site) status(t *testing.T) cluster.Status {
	t.Helper()
	status, ok := cluster.StatusOf(s.Cluster)
	if !ok {
		t.Fatalf("cluster %s isn't in use", s.Cluster)
	}
	return status
}

// endpoint returns what is known about an endpoint.
func (s *site) endpoint(t *testing.T, address string) cluster.EndpointStatus {
	t.Helper()
	for _, e := range s.status(t).Endpoints {
		if e.Address == address {
			return e
		}
	}
	t.Fatalf("cluster %s has no endpoint %s", s.Cluster, address)
	return cluster.EndpointStatus{}
}

// await waits until an endpoint is in a state.
func (s *site) await(t *testing.T, address, state string) {
	t.Helper()
	eventually(t, func() (string, bool) {
		got := s.endpoint(t, address).State
		return fmt.Sprintf("endpoint %s: got %s, want %s", address, got, state), got == state
	})
}

// wantIdle waits until nothing is counted any more.
func (s *site) wantIdle(t *testing.T) {
	t.Helper()
	eventually(t, func() (string, bool) {
		st := s.status(t)
		sum := st.Requests + st.Retries + st.Connections + st.Pending
		for _, e := range st.Endpoints {
			sum += e.Active + e.Retries + e.Connections + e.Pending
		}
		return fmt.Sprintf("got %+v, want nothing under way", st), sum == 0
	})
}

// counts returns the metrics of the cluster.
func (s *site) counts(t *testing.T) counts.Counts {
	t.Helper()
	return counts.Of(t, func(reg prometheus.Registerer) error { return reg.Register(s.registry) })
}

// eventually polls until ok, and fails with the last state when that takes too long.
func eventually(t *testing.T, probe func() (state string, ok bool)) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) { // between two looks
		state, ok := probe()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(state)
		}
	}
}

// server is an endpoint that says its number and then sends back what it gets.
type server struct {
	address  string
	accepted atomic.Int32
	ln       net.Listener
}

// servers starts so many of them.
func servers(t *testing.T, n int) []*server {
	t.Helper()
	list := make([]*server, n)
	for i := range list {
		list[i] = &server{address: ports.Own(t)}
		list[i].listen(t, byte('0'+i))
	}
	return list
}

// listen starts a server, or starts it again.
func (s *server) listen(t *testing.T, number byte) {
	t.Helper()
	ln, err := net.Listen("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	s.ln = ln
	go s.serve(ln, number)
}

func (s *server) serve(ln net.Listener, number byte) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		s.accepted.Add(1)
		go func() {
			_, _ = conn.Write([]byte{number})
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}()
	}
}

// addresses returns where servers are.
func addresses(list []*server) []string {
	var all []string
	for _, s := range list {
		all = append(all, s.address)
	}
	return all
}

// closed returns an address that nobody listens at.
func closed(t *testing.T) string {
	t.Helper()
	return ports.Dead(t)
}

// at returns which server the connection has reached.
func (v *visit) at(t *testing.T) int {
	t.Helper()
	var b [1]byte
	if _, err := io.ReadFull(v.client, b[:]); err != nil {
		t.Fatalf("got %v, want the number of a server", err)
	}
	return int(b[0] - '0')
}

// fails checks that a connection comes to nothing, and returns its session.
func (s *site) fails(t *testing.T, want session.CloseReason) *session.Session {
	t.Helper()
	v := s.visit(t, "192.0.2.7")
	<-v.done
	if got := v.sess.CloseReason(); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	return v.sess
}

// once makes a connection that ends well, and returns the server that it has reached.
func (s *site) once(t *testing.T, from string) int {
	t.Helper()
	v := s.visit(t, from)
	number := v.at(t)
	if got := v.leave(); got != session.Completed {
		t.Errorf("got %v, want %v", got, session.Completed)
	}
	return number
}
