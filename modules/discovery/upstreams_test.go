package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-sluice/sluice/modules/hostport"
)

func init() {
	caddy.RegisterModule(listed{})
	caddy.RegisterModule(other{})
}

// listed is a module that gives the upstreams that it was given.
type listed struct {
	Dial    []string       `json:"dial,omitempty"`
	Refresh caddy.Duration `json:"refresh,omitempty"`

	get func(r *http.Request) ([]*reverseproxy.Upstream, error)
}

func (listed) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.reverse_proxy.upstreams.discovery_listed", New: func() caddy.Module { return new(listed) }}
}

func (l *listed) GetUpstreams(r *http.Request) ([]*reverseproxy.Upstream, error) {
	if l.get != nil {
		return l.get(r)
	}
	upstreams := make([]*reverseproxy.Upstream, 0, len(l.Dial))
	for _, dial := range l.Dial {
		upstreams = append(upstreams, &reverseproxy.Upstream{Dial: dial})
	}
	return upstreams, nil
}

// UnmarshalCaddyfile reads addresses, as arguments and in blocks.
func (l *listed) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume module name
	l.Dial = d.RemainingArgs()
	for d.NextBlock(0) {
		switch d.Val() {
		case "dial":
			l.Dial = append(l.Dial, d.RemainingArgs()...)
			for nesting := d.Nesting(); d.NextBlock(nesting); {
				l.Dial = append(l.Dial, d.Val())
			}
		default:
			return d.Errf("unrecognized option %q", d.Val())
		}
	}
	return nil
}

// other is a module of the namespace that finds nothing.
type other struct{}

func (other) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.reverse_proxy.upstreams.discovery_other", New: func() caddy.Module { return new(other) }}
}

func (*other) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return nil }

// upstreams returns the source for a module's settings.
func upstreams(t *testing.T, settings string) *source {
	t.Helper()
	return provision(t, &Discover{UpstreamsRaw: json.RawMessage(settings)})
}

func TestUpstreams(t *testing.T) {
	t.Setenv("SLUICE_TEST_HOST", "env.test")
	s := upstreams(t, `{"source":"discovery_listed","dial":["B.test.:80","10.0.0.1:81","[2001:db8::1]:82","tcp/b.test:80","{env.SLUICE_TEST_HOST}:83"]}`)
	again := wantFound(t, s, "10.0.0.1:81/0/1", "[2001:db8::1]:82/0/1", "b.test:80/0/1", "env.test:83/0/1")
	if again != 30*time.Second {
		t.Errorf("got the next lookup after %v, want 30s", again)
	}
	wantFound(t, upstreams(t, `{"source":"discovery_listed"}`))
}

// TestUpstreamsAreNormal checks that an address is one endpoint in all the ways in which it can be written, that which
// the same address has when it is written down in a cluster.
func TestUpstreamsAreNormal(t *testing.T) {
	for want, ways := range map[string][]string{
		"[::1]:80":                 {"[::1]:80", "[0:0:0:0:0:0:0:1]:80", "[::0001]:80"},
		"10.0.0.1:80":              {"10.0.0.1:80", "[::ffff:10.0.0.1]:80", "[::ffff:a00:1]:80"},
		"[2001:db8::a]:80":         {"[2001:DB8::A]:80", "[2001:db8:0:0::a]:80"},
		"web.example:80":           {"web.example:80", "Web.Example.:80"},
		"xn--bcher-kva.example:80": {"bücher.example:80", "BÜCHER.example.:80", "xn--bcher-kva.example:80"},
	} {
		t.Run(want, func(t *testing.T) {
			wantFound(t, upstreams(t, listing(t, ways...)), want+"/0/1")
			written, err := hostport.Parse(ways[0])
			if err != nil || written.Normal().String() != want {
				t.Errorf("got %v, %v as what is written down, want %s", written.Normal(), err, want)
			}
		})
	}
}

// listing returns the settings of a module that gives these addresses.
func listing(t *testing.T, dial ...string) string {
	t.Helper()
	settings, err := json.Marshal(map[string]any{"source": "discovery_listed", "dial": dial})
	if err != nil {
		t.Fatal(err)
	}
	return string(settings)
}

func TestUpstreamsThatAreNone(t *testing.T) {
	for dial, want := range map[string]string{
		"unix//run/app.sock":    `"unix//run/app.sock": must be host:port, not a unix socket`,
		"udp/10.0.0.1:80":       `"udp/10.0.0.1:80": must be host:port or unix/path, not udp`,
		"10.0.0.1:80-81":        `"10.0.0.1:80-81": must have one port, not a range`,
		"10.0.0.1":              `"10.0.0.1": must be an address, host:port`,
		":80":                   `":80": must be an address, host:port`,
		"10.0.0.1:0":            `"10.0.0.1:0": must be an address, host:port`,
		"10.0.0.1:http":         `"10.0.0.1:http": port "http"`,
		"10.0.0.1:65536":        `"10.0.0.1:65536": port "65536"`,
		"{unknown}:80":          `"{unknown}:80"`,
		"":                      "without an address",
		"a b.test:80":           `upstream "a b.test:80": `,
		"a.test\n:80":           `upstream "a.test\n:80": `,
		"*.a.test:80":           `upstream "*.a.test:80": not a host name`,
		"[fe80::1%eth 0\n]:80":  `upstream "[fe80::1%eth 0\n]:80": must not have a zone`,
		"http://10.0.0.1:80":    `upstream "http://10.0.0.1:80": `,
		"[::ffff:10.0.0.256]:8": `upstream "[::ffff:10.0.0.256]:8": `,
	} {
		t.Run(dial, func(t *testing.T) {
			wantFailure(t, upstreams(t, listing(t, "10.0.0.2:80", dial)), want)
		})
	}
}

// askingModule returns a source whose module is a function.
func askingModule(get func(*http.Request) ([]*reverseproxy.Upstream, error)) *source {
	return &source{finder: &upstreamsFinder{module: &listed{get: get}}, refresh: time.Minute}
}

func TestModuleFails(t *testing.T) {
	failed := errors.New("no cloud")
	for _, tc := range []struct {
		name string
		get  func(*http.Request) ([]*reverseproxy.Upstream, error)
		want string
	}{
		{"error", func(*http.Request) ([]*reverseproxy.Upstream, error) { return nil, failed }, "no cloud"},
		{"panic", func(*http.Request) ([]*reverseproxy.Upstream, error) { panic("no request") }, "panicked: no request"},
		{"nil", func(*http.Request) ([]*reverseproxy.Upstream, error) { return []*reverseproxy.Upstream{nil}, nil }, "without an address"},
	} {
		t.Run(tc.name, func(t *testing.T) { wantFailure(t, askingModule(tc.get), tc.want) })
	}
}

// TestTheRequest checks what a module finds in the request that it is asked with.
func TestTheRequest(t *testing.T) {
	s := askingModule(func(r *http.Request) ([]*reverseproxy.Upstream, error) {
		replacer := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		caddyhttp.SetVar(r.Context(), "seen", true)
		if caddyhttp.GetVar(r.Context(), "seen") != true {
			return nil, errors.New("there are no variables")
		}
		return []*reverseproxy.Upstream{{Dial: replacer.ReplaceAll("{http.request.host}:80", "")}}, nil
	})
	wantFound(t, s, "localhost:80/0/1")
}

// TestModuleHangs has one that doesn't heed the end of its context: it is asked again once it has answered.
func TestModuleHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := askingModule(func(*http.Request) ([]*reverseproxy.Upstream, error) {
			<-release
			return []*reverseproxy.Upstream{{Dial: "a.test:80"}}, nil
		})
		start := time.Now()
		if _, _, err := s.Lookup(t.Context(), nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != maxLookup {
			t.Errorf("got %v after %v, want %v after %v", err, time.Since(start), context.DeadlineExceeded, maxLookup)
		}
		wantFailure(t, s, "not answered the last time")
		close(release)
		synctest.Wait()
		wantFound(t, s, "a.test:80/0/1")
	})
}

// run numbers the runs of TestModulesOfCaddy.
var run atomic.Int64

// TestModulesOfCaddy asks Caddy's own modules. They keep answers for the whole process, so each run has names of its own.
func TestModulesOfCaddy(t *testing.T) {
	domain := fmt.Sprintf("run%d.test.", run.Add(1))
	z, server := zoneOf(t, "api."+domain+" 60 IN A 192.0.2.1", "_api._tcp."+domain+" 60 IN SRV 5 5 80 a.test.")
	own := fmt.Sprintf(`{"source":"a","name":%q,"port":"80","resolver":{"addresses":[%q]}}`, "api."+domain, server)
	wantFound(t, upstreams(t, own), "192.0.2.1:80/0/1")
	records := fmt.Sprintf(`{"source":"srv","name":%q,"resolver":{"addresses":[%q]}}`, "_api._tcp."+domain, server)
	wantFound(t, upstreams(t, `{"source":"multi","sources":[`+own+`,`+records+`]}`), "192.0.2.1:80/0/1", "a.test:80/0/1")
	if !slices.ContainsFunc(z.questions(), func(q string) bool { return strings.HasSuffix(q, " SRV") }) {
		t.Error("got no question of Caddy's module")
	}
}
