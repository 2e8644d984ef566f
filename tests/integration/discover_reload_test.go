package integration

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

func init() { caddy.RegisterModule(new(lateUpstream)) }

// lateUpstream is a module that finds one upstream, and takes its time for it.
type lateUpstream struct {
	Dial string `json:"dial,omitempty"`
}

func (*lateUpstream) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.reverse_proxy.upstreams.sluicetest_late", New: func() caddy.Module { return new(lateUpstream) }}
}

func (u *lateUpstream) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.Args(&u.Dial) {
		return d.ArgErr()
	}
	return nil
}

func (u *lateUpstream) GetUpstreams(r *http.Request) ([]*reverseproxy.Upstream, error) {
	select {
	case <-time.After(300 * time.Millisecond): // how slow it is: nothing waits for less
		return []*reverseproxy.Upstream{{Dial: u.Dial}}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// TestReloadToDiscovery replaces the endpoints of a cluster with a source that takes its time, and this with another one.
// Clients are served all the time.
func TestReloadToDiscovery(t *testing.T) {
	l := newLab(t)
	g := &ledger{done: make(map[string][]string)}
	site, a, b := l.freeAddr(), l.newMember("a", g), l.newMember("b", g)
	config := func(kind string, m *member) (options, sites string) {
		options, sites = clusterSite(site, m.http)
		// The requests that are under way when the endpoints change have the guard of the config before.
		return strings.Replace(options, "endpoints ", "allow_private\n"+kind+" ", 1), sites
	}
	p := l.run(config("endpoints", a))
	var over atomic.Bool
	var going sync.WaitGroup
	for range 2 {
		going.Go(func() {
			client := freshClient()
			for !over.Load() {
				if name, err := servedBy(client, site); err != nil || name != "a" && name != "b" {
					t.Errorf("got %q, %v", name, err)
					return
				}
			}
		})
	}
	for _, m := range []*member{b, a} {
		if err := p.load(config("discover sluicetest_late", m)); err != nil {
			t.Error(err)
		}
		// The server of the config before may still answer to a client.
		l.eventually("requests go to "+m.name, func() (string, bool) {
			name, err := servedBy(freshClient(), site)
			return fmt.Sprintf("%q, %v", name, err), err == nil && name == m.name
		})
	}
	over.Store(true)
	going.Wait()
}

// servedBy makes a request and returns the name of the backend, or the status.
func servedBy(client *http.Client, site string) (string, error) {
	res, err := client.Get("http://" + site + "/")
	if err != nil {
		return "", err
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return res.Status, nil
	}
	return res.Header.Get("X-Backend"), nil
}
