package integration

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/ports"
	"github.com/caddy-sluice/sluice/modules/cluster"
)

// clustered is a Caddy whose layer-4 server forwards to a cluster of these settings.
type clustered struct {
	*proxy
	options string
}

// startCluster runs a layer-4 server that forwards to the cluster `web`.
func (l *lab) startCluster(cluster, handlers string) *clustered {
	l.Helper()
	addr := l.freeAddr()
	options := "sluice {\ncluster web {\n" + cluster + "\n}\n}\n" + server(addr, "route {\n"+handlers+"\n}")
	p := l.run(options, "")
	p.addr = addr
	return &clustered{p, options}
}

// endpoint returns what is known about an endpoint of the cluster.
func (p *clustered) endpoint(addr string) (found cluster.EndpointStatus) {
	p.Helper()
	status, _ := cluster.StatusOf("web")
	for _, e := range status.Endpoints {
		if e.Address == addr {
			found = e
		}
	}
	return found
}

// awaitState waits until an endpoint is in a state.
func (p *clustered) awaitState(addr, state string) {
	p.Helper()
	p.eventually(addr+" is "+state, func() (string, bool) {
		got := p.endpoint(addr).State
		return got, got == state
	})
}

// expectIdle waits until the cluster counts nothing any more.
func (p *clustered) expectIdle() {
	p.Helper()
	p.eventually("nothing is counted", func() (string, bool) {
		s, _ := cluster.StatusOf("web")
		sum := s.Requests + s.Retries + s.Connections + s.Pending
		for _, e := range s.Endpoints {
			sum += e.Active + e.Connections + e.Pending + e.Retries
		}
		return fmt.Sprintf("%+v", s), sum == 0
	})
}

// outcomes returns how many attempts at an endpoint had an outcome.
func (p *clustered) outcomes(addr, outcome string) int {
	p.Helper()
	return int(p.metric(fmt.Sprintf(`caddy_sluice_cluster_attempts_total{cluster="web",endpoint="%s",outcome="%s"}`, addr, outcome)))
}

// digesterAt is a digester at an address, which answers until it is stopped.
func (l *lab) digesterAt(addr, tag string) (address string, stop func()) {
	l.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		l.Fatal(err)
	}
	b := &backend{l, ln, ln.Addr().String()}
	b.serve(func(c stream) {
		data, err := io.ReadAll(c)
		if err == nil {
			_, _ = io.WriteString(c, digest(tag, data))
		}
	})
	return b.addr, func() { ln.Close() }
}

// TestClusterUnderLoad kills one of three backends while clients ask, reloads the config, and starts the backend again.
// A connection is lost only if the backend was connected already when it died.
func TestClusterUnderLoad(t *testing.T) {
	const clients, requests = 30, 30
	l := newLab(t)
	dying, kill := l.digesterAt("127.0.0.1:0", "tag")
	others := []string{l.digester("tag"), l.digester("tag")}
	p := l.startCluster(fmt.Sprintf(`
		endpoints %s %s
		balance round_robin
		health tcp {
			interval 1s
			timeout 900ms
			rise 1
		}
		retry {
			max 3
			budget 100%%
		}`, dying, strings.Join(others, " ")), "forward web")
	held := p.dial()
	held.send([]byte("first half"))

	var asked, lost atomic.Int64
	var wait sync.WaitGroup
	for i := range clients {
		wait.Go(func() {
			for j := range requests {
				text := []byte(fmt.Sprintf("%d/%d", i, j))
				if got, err := p.ask(0, text); err != nil || got != digest("tag", text) {
					lost.Add(1)
					t.Logf("%s: got %q, %v", text, got, err)
				}
				asked.Add(1)
			}
		})
	}
	share := func(percent int64) {
		l.eventually("a share of the requests is made", func() (string, bool) {
			n := asked.Load()
			return fmt.Sprint(n), n >= clients*requests*percent/100
		})
	}
	share(20)
	kill()
	share(40)
	if err := p.load(p.options, ""); err != nil {
		t.Error(err)
	}
	share(60)
	p.awaitState(dying, "unhealthy_active")
	_, stop := l.digesterAt(dying, "tag")
	defer stop()
	wait.Wait()
	p.awaitState(dying, "healthy")

	if resets := p.outcomes(dying, "reset"); lost.Load() > int64(resets) {
		t.Errorf("got %d connections lost, want at most %d that were connected", lost.Load(), resets)
	}
	if p.outcomes(dying, "connect") == 0 {
		t.Error("got no failure to connect, want some that were tried again")
	}
	if got := records.count("connecting to upstream failed"); got != 0 {
		t.Errorf("got %d connections without an endpoint, want none", got)
	}
	held.send([]byte(", second half"))
	held.end()
	held.expectEnd([]byte(digest("tag", []byte("first half, second half"))))
	p.expectIdle()
}

// TestT74_Panic has endpoints of which none passes its check: they are used all the same, and the log says so once.
func TestT74_Panic(t *testing.T) {
	l := newLab(t)
	a, b := l.digester("tag"), l.digester("tag")
	p := l.startCluster(fmt.Sprintf(`
		endpoints %s %s
		health http /healthz {
			interval 100ms
			timeout 50ms
			fall 1
		}`, a, b), "forward web")
	p.awaitState(a, "unhealthy_active")
	p.awaitState(b, "unhealthy_active")
	for range 10 {
		p.expectAnswer(digest("tag", []byte("hello")), []byte("hello"))
	}
	const line = "too few endpoints are available: using all, whatever is known about their health"
	l.eventually("a line about it", func() (string, bool) { return "none", records.count(line) > 0 })
	if got := records.count(line); got != 1 {
		t.Errorf("got %d lines about it, want 1", got)
	}
	if got := p.metric(`caddy_sluice_cluster_panic{cluster="web"}`); got != 1 {
		t.Errorf("got %v, want 1", got)
	}
	p.expectIdle()
}

// TestClusterNoEndpoint has a cluster that refuses when none is healthy, and one that is not known.
func TestClusterNoEndpoint(t *testing.T) {
	l := newLab(t)
	p := l.startCluster("endpoints "+ports.Dead(t)+"\n on_no_endpoint refuse\n passive {\n fall 1\n}", "access_log\n forward web")
	for _, reason := range []string{"connect_failure", "no_endpoint"} {
		c := p.dial()
		c.expectClosed()
		line := l.accessLines(1)[0]
		records.reset()
		l.expectLine(line, map[string]any{"reason": reason, "cluster": "web"})
	}
	if err := p.load(strings.ReplaceAll(p.options, "forward web", "forward wep"), ""); err == nil || !strings.Contains(err.Error(), `cluster "wep" is not known; must be one of web`) {
		t.Errorf("T75: got %v, want an error that names the clusters", err)
	}
}

// order has the admin API change an endpoint of the cluster.
func (p *clustered) order(addr, change string) {
	p.Helper()
	req, err := http.NewRequest(http.MethodPatch, "http://localhost/sluice/clusters/web/endpoints/"+addr, strings.NewReader(change))
	if err != nil {
		p.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := p.admin.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		p.Fatalf("got status %d, %s", res.StatusCode, body)
	}
}

// TestZ123_Drain drains an endpoint through the admin API: nothing new goes there, what goes on ends at the deadline, and
// that holds over a reload.
func TestZ123_Drain(t *testing.T) {
	const sessions = 10
	l := newLab(t)
	a, b := l.digester("a"), l.digester("b")
	p := l.startCluster(fmt.Sprintf("endpoints %s %s\n balance first", a, b), "access_log\n forward web")
	var held []*peer
	for range sessions {
		c := p.dial()
		c.send([]byte("half"))
		held = append(held, c)
	}
	for _, c := range held {
		if got := p.awaitSession(c, relayed); got.Upstream != a {
			t.Errorf("got %+v, want endpoint %s", got, a)
		}
	}
	p.order(a, `{"state":"drain","deadline":"500ms"}`)
	if err := p.load(p.options, ""); err != nil {
		t.Fatal(err)
	}
	p.expectAnswer(digest("b", []byte("hello")), []byte("hello"))
	for _, c := range held {
		c.expectReset()
		c.Close()
	}
	p.expectIdle()
	drained := 0
	for _, line := range l.accessLines(sessions + 1) {
		if line["reason"] == "drained" {
			drained++
			l.expectLine(line, map[string]any{"cluster": "web", "upstream": a})
		}
	}
	if drained != sessions {
		t.Errorf("got %d sessions that were drained, want %d", drained, sessions)
	}
	p.order(a, `{"state":"up"}`)
	p.expectAnswer(digest("a", []byte("hello")), []byte("hello"))
}
