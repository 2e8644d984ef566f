package cluster

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/health"
)

// TestRefused checks that each mistake is refused by the name of its field.
func TestRefused(t *testing.T) {
	const check = `"check":{"type":"tcp"}`
	for _, tc := range []struct{ config, want string }{
		{``, "endpoints: a cluster needs at least one, or a discover"},
		{`"endpoints":[]`, "endpoints: a cluster needs at least one, or a discover"},
		{`"endpoints":[{}]`, "endpoints[0].address: is required"},
		{`"endpoints":[{"address":"10.0.0.1:80"},{"address":"10.0.0.2"}]`, `endpoints[1].address: "10.0.0.2": must be an address`},
		{`"endpoints":[{"address":"{env.SLUICE_TEST_UNSET}:80"}]`, `endpoints[0].address: "{env.SLUICE_TEST_UNSET}:80": evaluated placeholder {env.SLUICE_TEST_UNSET} is empty`},
		{`"endpoints":[{"address":"{l4.sluice.sni}:80"}]`, `endpoints[0].address: "{l4.sluice.sni}:80": unrecognized placeholder`},
		{`"endpoints":[{"address":"10.0.0.1:80","weight":0}]`, "endpoints[0].weight: 0 is out of range, 1 to 65535"},
		{`"endpoints":[{"address":"10.0.0.1:80","weight":-1}]`, "endpoints[0].weight: -1 is out of range, 1 to 65535"},
		{`"endpoints":[{"address":"10.0.0.1:80","weight":65536}]`, "endpoints[0].weight: 65536 is out of range, 1 to 65535"},
		{`"endpoints":[{"address":"10.0.0.1:80","limits":{"max_requests":0}}]`, "endpoints[0].limits.max_requests: 0 is out of range, 1 to 10000000"},
		{`"discover":[{}]`, "discover[0]: "},
		{`"discover":[{"a":{"name":"web.example","port":80}},{"a":{"name":"web.example","port":80}}]`, "discover[1]: is the same as discover[0]"},

		{minimal + `,"balance":{"policy":"fair"}`, "balance: "},
		{minimal + `,"balance":{"policy":"maglev"}`, "key: is required"},
		{minimal + `,"balance":{"policy":"maglev","key":"uri","table_size":65536}`, "table_size 65536"},
		{`"endpoints":[{"address":"10.0.0.1:80"},{"address":"10.0.0.2:80"},{"address":"10.0.0.3:80"}],"balance":{"policy":"maglev","key":"uri","table_size":2}`, "balance: 3 endpoints"},
		{minimal + `,"on_no_endpoint":"open"`, `on_no_endpoint: "open" is not known; must be one of fail_open, refuse`},
		{minimal + `,"panic_threshold":-1`, "panic_threshold: -1 is out of range, 0 to 100"},
		{minimal + `,"panic_threshold":101`, "panic_threshold: 101 is out of range, 0 to 100"},

		{minimal + `,"slow_start":{}`, "slow_start.window: is required"},
		{minimal + `,"slow_start":{"window":1}`, "slow_start.window: 1ns is out of range, 1s to 1d"},
		{minimal + `,"slow_start":{"window":86400000000001}`, "slow_start.window: 24h0m0.000000001s is out of range, 1s to 1d"},
		{minimal + `,"slow_start":{"window":1000000000,"min_percent":0}`, "slow_start.min_percent: 0 is out of range, 1 to 100"},
		{minimal + `,"slow_start":{"window":1000000000,"min_percent":101}`, "slow_start.min_percent: 101 is out of range, 1 to 100"},
		{minimal + `,"slow_start":{"window":1000000000,"aggression":0.9}`, "slow_start.aggression: 0.9 is out of range, 1 to 10"},
		{minimal + `,"slow_start":{"window":1000000000,"aggression":10.1}`, "slow_start.aggression: 10.1 is out of range, 1 to 10"},
		{minimal + `,"slow_start":{"window":1000000000},"balance":{"policy":"first"}`, "slow_start: has no effect with this balance"},
		{minimal + `,"slow_start":{"window":1000000000},"balance":{"policy":"maglev","key":"uri"}`, "slow_start: has no effect with this balance"},
		{minimal + `,"slow_start":{"window":1000000000},"balance":{"policy":"ring_hash","key":"uri"}`, "slow_start: has no effect with this balance"},

		{minimal + `,"health":{}`, "health.check: is required"},
		{minimal + `,"health":{"check":{"type":"icmp"}}`, "health.check: "},
		{minimal + `,"health":{"rise":0,` + check + `}`, "health.rise: 0 is out of range, 1 to 1000"},
		{minimal + `,"health":{"fall":0,` + check + `}`, "health.fall: 0 is out of range, 1 to 1000"},
		{minimal + `,"health":{"fall":1001,` + check + `}`, "health.fall: 1001 is out of range, 1 to 1000"},
		{minimal + `,"health":{"interval":99999999,` + check + `}`, "health.interval: 99.999999ms is out of range, 100ms to 1d"},
		{minimal + `,"health":{"interval":-1,` + check + `}`, "health.interval: -1ns is out of range, 100ms to 1d"},
		{minimal + `,"health":{"timeout":999999,` + check + `}`, "health.timeout: 999.999µs is out of range, 1ms to 1d"},
		{minimal + `,"health":{"timeout":5000000000,` + check + `}`, "health.timeout: 5s must be less than the interval, 5s"},

		{minimal + `,"passive":{"fall":0}`, "passive.fall: 0 is out of range, 1 to 1000"},
		{minimal + `,"passive":{"rise":0}`, "passive.rise: 0 is out of range, 1 to 1000"},
		{minimal + `,"passive":{"unhealthy_status":["5xx","6xx"]}`, `passive.unhealthy_status[1]: "6xx": must be a status from 100 to 599`},
		{minimal + `,"passive":{"retry_after":1}`, "passive.retry_after: 1ns is out of range, 1ms to 1d"},
		{minimal + `,"passive":{"retry_after":1000000000},"health":{` + check + `}`, "passive.retry_after: has no meaning with health"},

		{minimal + `,"outlier":{"consecutive_failures":0}`, "outlier.consecutive_failures: 0 is out of range, 1 to 1000"},
		{minimal + `,"outlier":{"ejection_time":1}`, "outlier.ejection_time: 1ns is out of range, 1ms to 1d"},
		{minimal + `,"outlier":{"max_ejection_time":29000000000}`, "outlier.max_ejection_time: 29s is out of range, 30s to 1d"},
		{minimal + `,"outlier":{"max_ejection_percent":0}`, "outlier.max_ejection_percent: 0 is out of range, 1 to 100"},
		{minimal + `,"outlier":{"max_ejection_percent":101}`, "outlier.max_ejection_percent: 101 is out of range, 1 to 100"},
		{minimal + `,"outlier":{"failure_status":["x"]}`, `outlier.failure_status[0]: "x"`},
		{minimal + `,"outlier":{"check_unejects":true}`, "outlier.check_unejects: has no meaning without health"},

		{minimal + `,"limits":{"max_connections":0}`, "limits.max_connections: 0 is out of range, 1 to 10000000"},
		{minimal + `,"limits":{"max_pending":-1}`, "limits.max_pending: -1 is out of range, 1 to 10000000"},
		{minimal + `,"limits":{"max_retries":10000001}`, "limits.max_retries: 10000001 is out of range, 1 to 10000000"},
		{minimal + `,"limits":{"max_connections_per_ip":0}`, "limits.max_connections_per_ip: 0 is out of range, 1 to 10000000"},

		{minimal + `,"retry":{}`, "retry.max: is required, 1 to 5"},
		{minimal + `,"retry":{"max":6}`, "retry.max: 6 is out of range, 1 to 5"},
		{minimal + `,"retry":{"max":-1}`, "retry.max: -1 is out of range, 1 to 5"},
		{minimal + `,"retry":{"max":1,"on":["reset","refused"]}`, `retry.on[1]: "refused" is not known; must be one of connect_failure, reset, per_try_timeout`},
		{minimal + `,"retry":{"max":1,"status":["5xy"]}`, `retry.status[0]: "5xy"`},
		{minimal + `,"retry":{"max":1,"methods":["get"]}`, `retry.methods[0]: "get" is not known; must be one of DELETE, GET`},
		{minimal + `,"retry":{"max":1,"methods":["GET","CONNECT"]}`, `retry.methods[1]: "CONNECT" is not known`},
		{minimal + `,"retry":{"max":1,"backoff_base":1}`, "retry.backoff_base: 1ns is out of range, 1ms to 1d"},
		{minimal + `,"retry":{"max":1,"backoff_cap":24000000}`, "retry.backoff_cap: 24ms is out of range, 25ms to 1d"},
		{minimal + `,"retry":{"max":1,"budget_percent":0}`, "retry.budget_percent: 0 is out of range, 1 to 100"},
		{minimal + `,"retry":{"max":1,"budget_percent":101}`, "retry.budget_percent: 101 is out of range, 1 to 100"},
		{minimal + `,"retry":{"max":1,"budget_min":-1}`, "retry.budget_min: -1 is out of range, 0 to 1000"},
		{minimal + `,"retry":{"max":1,"body_limit":-1}`, "retry.body_limit: -1 is out of range, 0 to 16777216"},
		{minimal + `,"retry":{"max":1,"body_limit":16777217}`, "retry.body_limit: 16777217 is out of range, 0 to 16777216"},

		{minimal + `,"per_try_timeout":999999`, "per_try_timeout: 999.999µs is out of range, 1ms to 1d"},
		{minimal + `,"request_timeout":-1`, "request_timeout: -1ns is out of range, 1ms to 1d"},
		{minimal + `,"per_try_timeout":2000000000,"request_timeout":1000000000`, "per_try_timeout: 2s is longer than request_timeout, 1s"},
		{minimal + `,"close_on_unhealthy":-1`, "close_on_unhealthy: -1ns is out of range, 1ns to 1d"},
		{minimal + `,"proxy_protocol":"relay"`, `proxy_protocol: "relay" is not known; must be one of v1, v2`},
		{minimal + `,"tls":{"alpn":[""]}`, "tls: "},
		{`"endpoints":[{"address":"10.0.0.1:80"},{"address":"unix//run/api.sock"}],"tls":{}`, "tls.server_name: is required for endpoints[1], a unix socket"},
	} {
		if _, err := provisioned(t, `{`+tc.config+`}`); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want one with %q", tc.config, err, tc.want)
		}
	}
}

// TestAccepted checks the values at the edges of the ranges.
func TestAccepted(t *testing.T) {
	const check = `"check":{"type":"tcp"}`
	for _, config := range []string{
		`"endpoints":[{"address":"10.0.0.1:80","weight":1},{"address":"10.0.0.2:80","weight":65535}]`,
		`"endpoints":[{"address":"10.0.0.1:80","backup":true,"limits":{"max_requests":1}}]`,
		`"discover":[{"a":{"name":"web.example","port":80}},{"a":{"name":"web.example","port":81}}]`,
		minimal + `,"panic_threshold":100,"on_no_endpoint":"fail_open"`,
		minimal + `,"slow_start":{"window":86400000000000,"min_percent":100,"aggression":10}`,
		minimal + `,"health":{"interval":100000000,"timeout":99999999,"rise":1,"fall":1000,` + check + `}`,
		minimal + `,"passive":{"fall":1,"rise":1000,"unhealthy_status":[],"retry_after":1000000}`,
		minimal + `,"outlier":{"consecutive_failures":1,"ejection_time":86400000000000,"max_ejection_time":86400000000000,"max_ejection_percent":100}`,
		minimal + `,"limits":{"max_connections":1,"max_requests":10000000}`,
		minimal + `,"retry":{"max":5,"on":[],"methods":["POST"],"backoff_base":1000000,"backoff_cap":1000000,"budget_percent":1,"budget_min":1000,"body_limit":16777216}`,
		minimal + `,"per_try_timeout":1000000,"request_timeout":1000000,"close_on_unhealthy":86400000000000`,
		minimal + `,"proxy_protocol":"v1"`,
		minimal + `,"tls":{}`,
		`"endpoints":[{"address":"unix//run/api.sock"}],"tls":{"server_name":"api.example"}`,
		`"endpoints":[{"address":"unix//run/api.sock"}],"tls":{"insecure_skip_verify":true}`,
	} {
		if _, err := provisioned(t, `{`+config+`}`); err != nil {
			t.Errorf("%s: got error %v, want none", config, err)
		}
	}
}

// TestSlowStartNumber checks that what isn't a number is no aggression, from code: JSON has none.
func TestSlowStartNumber(t *testing.T) {
	for _, aggression := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		err := (&SlowStart{Window: caddy.Duration(time.Minute), Aggression: &aggression}).apply(new(health.SlowStart))
		if err == nil || !strings.Contains(err.Error(), "is out of range, 1 to 10") {
			t.Errorf("%v: got error %v, want one about the range", aggression, err)
		}
	}
}

// TestTooManyEndpoints checks the number of endpoints.
func TestTooManyEndpoints(t *testing.T) {
	c := new(Config)
	for i := range maxMembers + 1 {
		c.Endpoints = append(c.Endpoints, EndpointConfig{Address: fmt.Sprintf("10.%d.%d.1:80", i/250, i%250)})
	}
	if _, err := provision(t, c); err == nil || !strings.Contains(err.Error(), "endpoints: 10001 are too many, at most 10000") {
		t.Errorf("got error %v, want one about the number", err)
	}
	c.Endpoints = c.Endpoints[1:]
	if s, err := provision(t, c); err != nil || len(s.static) != maxMembers {
		t.Errorf("got error %v, want %d endpoints", err, maxMembers)
	}
}

// TestCheckName checks what a cluster can be called.
func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "Z", "0", "web-1_B", "-", "_"} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: got error %v, want none", name, err)
		}
	}
	for _, name := range []string{"", " ", "a b", "a.b", "a/b", "a:80", "{web}", "ä", "web\n"} {
		if err := CheckName(name); err == nil || !strings.Contains(err.Error(), "must consist of letters, digits, _ and -") {
			t.Errorf("%q: got error %v, want one about the name", name, err)
		}
	}
}
