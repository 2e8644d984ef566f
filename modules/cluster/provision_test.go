package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/hostport"
)

// minimal is a config with nothing but an endpoint, to which tests add.
const minimal = `"endpoints":[{"address":"10.0.0.1:80"}]`

// provisioned returns what a config in JSON comes to, under the guard dns.
func provisioned(t *testing.T, config string) (*settings, error) {
	t.Helper()
	c := new(Config)
	decoder := json.NewDecoder(strings.NewReader(config))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(c); err != nil {
		t.Fatal(err)
	}
	return provision(t, c)
}

func provision(t *testing.T, c *Config) (*settings, error) {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	return c.provision(ctx, netguard.DNS)
}

// TestDefaults checks what a cluster is that says nothing but where its endpoint is.
func TestDefaults(t *testing.T) {
	s, err := provisioned(t, `{`+minimal+`}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []member{{Address: hostport.Address{Host: "10.0.0.1", Port: 80}, weight: 1, trusted: true}}
	if !reflect.DeepEqual(s.static, want) {
		t.Errorf("got endpoints %+v, want %+v", s.static, want)
	}
	if s.policy != (health.Config{Retry: health.DefaultRetry()}) {
		t.Errorf("got policy %+v, want the default retries alone", s.policy)
	}
	if _, ok := s.balancer.(*balancers.P2C); !ok {
		t.Errorf("got balancer %T, want P2C", s.balancer)
	}
	if s.checker != nil || s.tls != nil || s.sources != nil || s.guard != netguard.DNS || s.closeAfter != 0 || s.perClient != 0 || s.proxyProtocol != "" {
		t.Errorf("got %+v, want nothing else", s)
	}
	if fmt.Sprint(s.methods) != "map[GET:true HEAD:true OPTIONS:true]" || s.bodyLimit != 64<<10 {
		t.Errorf("got methods %v, body limit %d, want GET HEAD OPTIONS, 64 KiB", s.methods, s.bodyLimit)
	}
}

// TestDefaultsOfBlocks checks what empty blocks come to.
func TestDefaultsOfBlocks(t *testing.T) {
	s, err := provisioned(t, `{`+minimal+`,"health":{"check":{"type":"tcp"}},"passive":{},"outlier":{},"limits":{},"retry":{"max":1},"slow_start":{"window":1000000000}}`)
	if err != nil {
		t.Fatal(err)
	}
	var serverErrors health.StatusSet
	serverErrors.Add(500, 599)
	want := health.Config{
		Active:  health.Thresholds{Rise: 2, Fall: 3},
		Passive: health.Passive{Thresholds: health.Thresholds{Rise: 2, Fall: 5}, Statuses: serverErrors, RetryAfter: 30 * time.Second},
		Outlier: health.Outlier{ConsecutiveFailures: 5, Time: 30 * time.Second, MaxPercent: 50},
		Retry: health.Retry{
			Max: 1, On: health.KindSet(health.Connect, health.Reset, health.Timeout),
			Backoff: health.Backoff{Base: 25 * time.Millisecond, Cap: time.Second}, Budget: health.Budget{Percent: 20, Min: 3},
		},
		SlowStart: health.SlowStart{Window: time.Second, MinPercent: 10, Aggression: 1},
	}
	if s.policy != want {
		t.Errorf("got policy %+v, want %+v", s.policy, want)
	}
	if s.checker == nil || s.interval != 5*time.Second || s.timeout != 2*time.Second {
		t.Errorf("got checks by %T every %v within %v, want every 5s within 2s", s.checker, s.interval, s.timeout)
	}
}

// TestDefaultsThatDepend checks defaults that follow from other settings.
func TestDefaultsThatDepend(t *testing.T) {
	s, err := provisioned(t, `{`+minimal+`,"passive":{},"retry":{"max":5,"backoff_base":2000000000}}`)
	if err != nil {
		t.Fatal(err)
	}
	if s.policy.Passive.Rise != 1 {
		t.Errorf("got passive rise %d without checks, want 1", s.policy.Passive.Rise)
	}
	if b := s.policy.Retry.Backoff; b.Cap != 2*time.Second {
		t.Errorf("got backoff up to %v, want no less than the base, 2s", b.Cap)
	}
	for _, tc := range []struct{ interval, want time.Duration }{
		{100 * time.Millisecond, 50 * time.Millisecond}, {time.Second, 500 * time.Millisecond}, {4 * time.Second, 2 * time.Second}, {time.Hour, 2 * time.Second},
	} {
		s, err := provisioned(t, fmt.Sprintf(`{%s,"health":{"interval":%d,"check":{"type":"tcp"}}}`, minimal, tc.interval))
		if err != nil || s.timeout != tc.want {
			t.Errorf("interval %v: got timeout %v, %v, want %v", tc.interval, s.timeout, err, tc.want)
		}
	}
}

// TestEverything checks that each setting gets where it belongs.
func TestEverything(t *testing.T) {
	t.Setenv("SLUICE_TEST_PORT", "8080")
	s, err := provisioned(t, `{
		"endpoints":[{"address":"Web.Example:{env.SLUICE_TEST_PORT}","weight":65535,"limits":{"max_connections":1,"max_pending":2,"max_requests":3,"max_retries":4}},
			{"address":"unix//run/web.sock","backup":true}],
		"balance":{"policy":"random"},"on_no_endpoint":"refuse","panic_threshold":25,
		"slow_start":{"window":30000000000,"min_percent":5,"aggression":1.5,"after_ejection":true},
		"health":{"interval":10000000000,"timeout":3000000000,"rise":4,"fall":5,"check":{"type":"tcp"}},
		"passive":{"fall":6,"rise":7,"unhealthy_status":["503","429"]},
		"outlier":{"consecutive_failures":8,"ejection_time":1000000000,"max_ejection_time":9000000000,"max_ejection_percent":10,"failure_status":["5xx"],"check_unejects":true},
		"limits":{"max_connections":11,"max_pending":12,"max_requests":13,"max_retries":14,"max_connections_per_ip":15},
		"retry":{"max":2,"on":["reset"],"status":["503"],"methods":["PUT"],"backoff_base":1000000,"backoff_cap":2000000,"budget_percent":100,"budget_min":0,"body_limit":0},
		"per_try_timeout":1000000000,"request_timeout":2000000000,"tls":{"server_name":"web.example"},"proxy_protocol":"v2","allow_private":true,"close_on_unhealthy":1
	}`)
	if err != nil {
		t.Fatal(err)
	}
	var errs5xx, busy, overload health.StatusSet
	errs5xx.Add(500, 599)
	busy.Add(503, 503)
	overload.Add(503, 503)
	overload.Add(429, 429)
	want := health.Config{
		Active:  health.Thresholds{Rise: 4, Fall: 5},
		Passive: health.Passive{Thresholds: health.Thresholds{Rise: 7, Fall: 6}, Statuses: overload, RetryAfter: 30 * time.Second},
		Outlier: health.Outlier{
			ConsecutiveFailures: 8, Time: time.Second, MaxTime: 9 * time.Second, MaxPercent: 10, Statuses: errs5xx, CheckUnejects: true,
		},
		Limits: health.Limits{Connections: 11, Pending: 12, Requests: 13, Retries: 14},
		Retry: health.Retry{
			Max: 2, On: health.KindSet(health.Reset, health.Answer), Statuses: busy,
			Backoff: health.Backoff{Base: time.Millisecond, Cap: 2 * time.Millisecond}, Budget: health.Budget{Percent: 100},
		},
		Timeouts:     health.Timeouts{PerTry: time.Second, Request: 2 * time.Second},
		SlowStart:    health.SlowStart{Window: 30 * time.Second, MinPercent: 5, Aggression: 1.5, AfterEjection: true},
		PanicPercent: 25, Refuse: true,
	}
	if s.policy != want {
		t.Errorf("got policy %+v, want %+v", s.policy, want)
	}
	members := []member{
		{
			Address: hostport.Address{Host: "web.example", Port: 8080}, weight: 65535, trusted: true,
			limits: health.Limits{Connections: 1, Pending: 2, Requests: 3, Retries: 4},
		},
		{Address: hostport.Address{Path: "/run/web.sock"}, weight: 1, backup: true, trusted: true},
	}
	if !slices.Equal(s.static, members) {
		t.Errorf("got endpoints %+v, want %+v", s.static, members)
	}
	if s.interval != 10*time.Second || s.timeout != 3*time.Second || s.closeAfter != 1 || s.tls == nil || s.proxyProtocol != "v2" ||
		s.guard != netguard.Off || !s.methods["PUT"] || s.methods["GET"] || s.bodyLimit != 0 || s.perClient != 15 {
		t.Errorf("got %+v, want what the config says", s)
	}
	if _, ok := s.balancer.(*balancers.Random); !ok {
		t.Errorf("got balancer %T, want Random", s.balancer)
	}
}

// TestGuard checks which guard a cluster has under that of the app, dns, and which addresses it lets the operator write.
func TestGuard(t *testing.T) {
	for _, tc := range []struct {
		config string
		want   netguard.Mode
		err    string
	}{
		{minimal, netguard.DNS, ""},
		{minimal + `,"guard":"off"`, netguard.Off, ""},
		{minimal + `,"guard":"off","allow_private":true`, netguard.Off, ""},
		{minimal + `,"allow_private":true`, netguard.Off, ""},
		{minimal + `,"guard":"strict","allow_private":true`, 0, "allow_private: contradicts guard strict"},
		{minimal + `,"guard":"dns","allow_private":true`, 0, "allow_private: contradicts guard dns"},
		{minimal + `,"guard":"strict"`, 0, "endpoints[0].address: guard strict: refusing 10.0.0.1: the address is private"},
		{`"endpoints":[{"address":"[::ffff:127.0.0.1]:80"}],"guard":"strict"`, 0, "endpoints[0].address: guard strict: refusing 127.0.0.1: the address is loopback"},
		{`"endpoints":[{"address":"192.88.98.1:80"},{"address":"web.example:80"},{"address":"unix//run/x"}],"guard":"strict"`, netguard.Strict, ""},
	} {
		s, err := provisioned(t, `{`+tc.config+`}`)
		switch {
		case tc.err == "" && (err != nil || s.guard != tc.want):
			t.Errorf("%s: got %+v, %v, want guard %v", tc.config, s, err, tc.want)
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
			t.Errorf("%s: got error %v, want one with %q", tc.config, err, tc.err)
		}
	}
}

// TestStrictApp checks that the guard of the app holds for literals.
func TestStrictApp(t *testing.T) {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	c := &Config{Endpoints: []EndpointConfig{{Address: "127.0.0.1:80"}}}
	if _, err := c.provision(ctx, netguard.Strict); err == nil || !strings.Contains(err.Error(), "guard strict") {
		t.Errorf("got error %v, want one about the guard", err)
	}
}

// TestDuplicates checks that an address is found again however it is written.
func TestDuplicates(t *testing.T) {
	for _, tc := range []struct {
		first, second string
		same          bool
	}{
		{"10.0.0.1:80", "10.0.0.1:80", true},
		{"10.0.0.1:80", "tcp/10.0.0.1:80", true},
		{"10.0.0.1:80", "[::ffff:10.0.0.1]:80", true},
		{"[2001:db8::1]:80", "[2001:DB8:0:0::1]:80", true},
		{"web.example:80", "WEB.Example:80", true},
		{"web.example:80", "tcp/Web.Example:80", true},
		{"web.example:80", "web.example.:80", true},
		{"bücher.example:80", "xn--bcher-kva.example:80", true},
		{"unix//run/a", "unix//run/a|0222", true},
		{"10.0.0.1:80", "10.0.0.1:81", false},
		{"unix//run/a", "unix//run/A", false},
		{"unix//run/a", "unix//run/b", false},
		{"unix/localhost:80", "localhost:80", false},
	} {
		s, err := provision(t, &Config{Endpoints: []EndpointConfig{{Address: tc.first}, {Address: tc.second}}})
		if !tc.same && (err != nil || len(s.static) != 2) {
			t.Errorf("%s, %s: got %v, want two endpoints", tc.first, tc.second, err)
		}
		if tc.same && (err == nil || !strings.Contains(err.Error(), "endpoints[1].address: ") || !strings.Contains(err.Error(), "is listed twice, see endpoints[0]")) {
			t.Errorf("%s, %s: got error %v, want one about endpoints[1].address", tc.first, tc.second, err)
		}
	}
}
