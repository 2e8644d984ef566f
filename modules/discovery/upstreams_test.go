package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
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

func TestUpstreamsThatAreNone(t *testing.T) {
	for dial, want := range map[string]string{
		"unix//run/app.sock": `"unix//run/app.sock": the network "unix" is not tcp`,
		"udp/10.0.0.1:80":    `the network "udp" is not tcp`,
		"10.0.0.1:80-81":     `"10.0.0.1:80-81" is not one host and one port`,
		"10.0.0.1":           "not one host and one port",
		":80":                "not one host and one port",
		"10.0.0.1:http":      `"10.0.0.1:http"`,
		"{unknown}:80":       `"{unknown}:80"`,
	} {
		t.Run(dial, func(t *testing.T) {
			settings, err := json.Marshal(map[string]any{"source": "discovery_listed", "dial": []string{"10.0.0.2:80", dial}})
			if err != nil {
				t.Fatal(err)
			}
			wantFailure(t, upstreams(t, string(settings)), want)
		})
	}
}

// asking returns a source that asks a function.
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
		if _, _, err := s.Lookup(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != maxLookup {
			t.Errorf("got %v after %v, want %v after %v", err, time.Since(start), context.DeadlineExceeded, maxLookup)
		}
		wantFailure(t, s, "not answered the last time")
		close(release)
		synctest.Wait()
		wantFound(t, s, "a.test:80/0/1")
	})
}

// TestModulesOfCaddy asks Caddy's own modules.
func TestModulesOfCaddy(t *testing.T) {
	z, server := zoneOf(t, host+". 60 IN A 192.0.2.1", service+". 60 IN SRV 5 5 80 a.test.")
	own := fmt.Sprintf(`{"source":"a","name":%q,"port":"80","resolver":{"addresses":[%q]}}`, host+".", server)
	wantFound(t, upstreams(t, own), "192.0.2.1:80/0/1")
	records := fmt.Sprintf(`{"source":"srv","name":%q,"resolver":{"addresses":[%q]}}`, service+".", server)
	wantFound(t, upstreams(t, `{"source":"multi","sources":[`+own+`,`+records+`]}`), "192.0.2.1:80/0/1", "a.test:80/0/1")
	if !slices.ContainsFunc(z.questions(), func(q string) bool { return strings.HasSuffix(q, " SRV") }) {
		t.Error("got no question of Caddy's module")
	}
}
