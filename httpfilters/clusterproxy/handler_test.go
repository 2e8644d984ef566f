package clusterproxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/internal/testkit/ports"
	"github.com/caddy-sluice/sluice/modules/cluster"
)

// TestHeadersPerAttempt checks that each attempt has the headers of its endpoint, and none of the attempt before.
func TestHeadersPerAttempt(t *testing.T) {
	var seen []http.Header
	broken := resetAfter(t, 1)
	live := newBackend(t, func(_ http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Clone(), http.Header{"Host": {r.Host}})
	})
	headers := object{"request": object{
		"set": object{"X-Upstream": []string{"{http.reverse_proxy.upstream.hostport}"}, "Host": []string{"{http.reverse_proxy.upstream.hostport}"}},
		"add": object{"X-Attempt": []string{"{http.sluice.attempts}"}},
	}}
	s := newSite(t, web([]string{broken.address, live.address}, retryAll(nil)), object{"headers": headers})
	s.do(t, "POST", "hello").want(t, http.StatusOK)
	t.Run("Z92_placeholders", func(t *testing.T) {
		if got := seen[0].Get("X-Upstream"); got != live.address {
			t.Errorf("got %s, want %s", got, live.address)
		}
		if got := seen[1].Get("Host"); got != live.address {
			t.Errorf("got host %s, want %s", got, live.address)
		}
	})
	t.Run("Z93_nothing_is_left", func(t *testing.T) {
		if got := seen[0].Values("X-Attempt"); len(got) != 1 || got[0] != "2" {
			t.Errorf("got %v, want [2]", got)
		}
		if got := seen[0].Values("Via"); len(got) != 1 {
			t.Errorf("got %v, want one Via", got)
		}
	})
}

// TestResponseHandlers checks that what is done about an answer says nothing about the endpoint.
func TestResponseHandlers(t *testing.T) {
	b := newBackend(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Own", "yes")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, strings.Repeat("x", 1<<20))
	})
	for _, tc := range []struct {
		name   string
		routes []object
		status int
	}{
		{"Z105_error", []object{{"handle": []object{{"handler": "error", "status_code": 418}}}}, 418},
		{"body_dropped", []object{{"handle": []object{{"handler": "static_response", "status_code": 204}}}}, 204},
		{"copied", []object{{"handle": []object{{"handler": "copy_response", "status_code": 203}}}}, 203},
	} {
		t.Run(tc.name, func(t *testing.T) {
			handlers := []object{{"match": object{"status_code": []int{404}}, "routes": tc.routes}}
			settings := with(retryAll(nil), object{"passive": object{"fall": 9}})
			s := newSite(t, web([]string{b.address}, settings), object{"handle_response": handlers})
			before := b.requests.Load()
			s.get(t).want(t, tc.status)
			if got := b.requests.Load() - before; got != 1 {
				t.Errorf("got %d requests, want 1", got)
			}
			if got := failuresOf(t, b.address); got != 0 {
				t.Errorf("got a streak of %d failures, want 0", got)
			}
			s.idle(t)
		})
	}
}

// TestPassive checks which answers count against an endpoint.
func TestPassive(t *testing.T) {
	status := http.StatusInternalServerError
	b := newBackend(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	s := newSite(t, web([]string{b.address}, object{"passive": object{"fall": 9}}), nil)
	for _, tc := range []struct {
		name         string
		status, want int
	}{
		{"H119_server_error", 500, 1},
		{"H119_another", 502, 2},
		{"H120_not_found_is_none", 404, 0},
		{"H119_again", 503, 1},
		{"H121_success", 200, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status = tc.status
			s.get(t).want(t, tc.status)
			s.idle(t)
			if got := failuresOf(t, b.address); got != tc.want {
				t.Errorf("got a streak of %d failures, want %d", got, tc.want)
			}
		})
	}
}

// TestCause checks that an endpoint which is down tells why: with the error of the attempt that took it down.
func TestCause(t *testing.T) {
	s := newSite(t, web([]string{dead(t)}, object{"passive": object{"fall": 1}}), nil)
	s.get(t).want(t, http.StatusBadGateway)
	s.idle(t)
	st, _ := cluster.StatusOf("web")
	if got := st.Endpoints[0].Cause; !strings.HasPrefix(got, "connect: ") || !strings.Contains(got, "refused") {
		t.Errorf("got cause %q, want the error of the connect", got)
	}
}

// TestNoEndpoint checks what a client gets from a cluster that has no endpoint for it.
func TestNoEndpoint(t *testing.T) {
	b := newBackend(t, echo)
	t.Run("H126_fail_open", func(t *testing.T) {
		s := newSite(t, web([]string{dead(t), b.address}, object{"passive": object{"fall": 1}}), nil)
		for range 3 {
			s.get(t).want(t, http.StatusOK)
		}
	})
	t.Run("refuse", func(t *testing.T) {
		s := newSite(t, web([]string{dead(t)}, object{"passive": object{"fall": 1}, "on_no_endpoint": "refuse"}), nil)
		s.get(t).want(t, http.StatusBadGateway)
		r := s.get(t)
		r.want(t, http.StatusServiceUnavailable)
		if got := r.header.Get("Retry-After"); got == "" || got == "0" {
			t.Errorf("got Retry-After %q", got)
		}
		s.idle(t)
	})
}

// TestRestart checks that an endpoint which comes back serves again.
func TestRestart(t *testing.T) {
	t.Run("H130_endpoint", func(t *testing.T) {
		address := ports.Own(t)
		first := newBackendAt(t, address, echo)
		s := newSite(t, web([]string{address}, nil), nil)
		s.do(t, "POST", "1").want(t, http.StatusOK)
		first.Close()
		s.do(t, "POST", "2").want(t, http.StatusBadGateway)
		newBackendAt(t, address, echo)
		s.do(t, "POST", "3").want(t, http.StatusOK)
	})
}

// TestDynamic checks a cluster that the request names.
func TestDynamic(t *testing.T) {
	a, b := newBackend(t, echo), newBackend(t, echo)
	tlsBackend := secure(t, true, describe)
	ctx := provision(t, object{
		"a": web([]string{a.address}, nil), "b": web([]string{b.address}, nil),
		"c": web([]string{tlsBackend.address}, object{"tls": object{"insecure_skip_verify": true}}),
	})
	s := serve(t, ctx, "cluster_proxy", object{"cluster": "{http.request.header.X-Cluster}"})
	unknown := func() float64 {
		return counts.Of(t, func(reg prometheus.Registerer) error { return register(reg) })["caddy_sluice_cluster_proxy_unknown_clusters_total"]
	}
	before := unknown()
	for _, tc := range []struct {
		name, cluster string
		status        int
	}{
		{"first", "a", 200}, {"second", "b", 200}, {"with_TLS", "c", 200}, {"unknown", "d", 502}, {"none", "", 502},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := s.request(t, "GET", "/", "")
			r.Header.Set("X-Cluster", tc.cluster)
			s.send(t, r).want(t, tc.status)
			if got := s.placeholder("cluster"); tc.status == 200 && got != tc.cluster {
				t.Errorf("got cluster %s, want %s", got, tc.cluster)
			}
		})
	}
	if got := a.requests.Load() + 10*b.requests.Load(); got != 11 {
		t.Errorf("got %d requests, want one at each", got)
	}
	if got := unknown() - before; got != 2 {
		t.Errorf("got %v unknown clusters, want 2", got)
	}
}

// TestTwoHandlers checks that one request can go through two handlers.
func TestTwoHandlers(t *testing.T) {
	auth := newBackend(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-User", "me") })
	api := newBackend(t, echo)
	ctx := provision(t, object{"auth": web([]string{auth.address}, nil), "api": web([]string{api.address}, nil)})
	inner := object{"handler": "cluster_proxy", "cluster": "api"}
	t.Run("Z104_one_after_the_other", func(t *testing.T) {
		s := serve(t, ctx, "cluster_proxy", object{"cluster": "auth", "rewrite": object{"method": "GET"}, "handle_response": []object{
			{"match": object{"status_code": []int{2}}, "routes": []object{{"handle": []object{inner}}}},
		}})
		r := s.do(t, "POST", "hello")
		r.want(t, http.StatusOK)
		if r.body != "POST hello" {
			t.Errorf("got %q, want the answer of the second", r.body)
		}
		if got := s.placeholder("cluster"); got != "api" {
			t.Errorf("got cluster %s, want that of the last handler", got)
		}
		if st := statusOf(t, "auth").Requests + statusOf(t, "api").Requests; st != 0 {
			t.Errorf("got %d requests under way", st)
		}
	})
}

// TestKeys checks what a cluster chooses by.
func TestKeys(t *testing.T) {
	for _, tc := range []struct{ name, key, want string }{
		{"client_ip", "client_ip", "127.0.0.1"},
		{"header", "header X-User", "me"},
		{"host", "header Host", "example.com"},
		{"cookie", "cookie session", "42"},
		{"no_cookie", "cookie other", ""},
		{"uri", "uri", "/a?b=c"},
		{"query", "query b", "c"},
		{"sni_without_TLS", "sni", ""},
		{"placeholder", "{http.request.header.X-User}!", "me!"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, _ := http.NewRequest(http.MethodGet, "http://example.com/a?b=c", nil)
			r.RemoteAddr = "127.0.0.1:1000"
			r.Header.Set("X-User", "me")
			r.Header.Set("Cookie", "session=42")
			r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, new(caddyhttp.Server))
			if got := keyText(r, parseKey(t, tc.key)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestRefusedOptions checks what is refused at load, and that a handler which was refused can be cleaned up.
func TestRefusedOptions(t *testing.T) {
	config := object{
		"web":  web([]string{"192.0.2.1:80"}, nil),
		"tls":  web([]string{"192.0.2.1:443"}, object{"tls": object{}, "proxy_protocol": "v1"}),
		"unix": web([]string{"192.0.2.1:80", "unix//run/api.sock"}, nil),
		"l4":   web([]string{"192.0.2.1:80"}, object{"balance": object{"policy": "maglev", "key": "{l4.conn.remote_addr}"}}),
	}
	http1 := func(more object) object {
		return object{"cluster": "web", "transport": with(object{"protocol": "http"}, more)}
	}
	for _, tc := range []struct {
		name    string
		options object
		want    string
	}{
		{"no_cluster", object{}, "cluster: is required"},
		{"unknown_cluster", object{"cluster": "nope"}, `cluster "nope" is not known`},
		{"key_of_layer_4", object{"cluster": "l4"}, "requests don't have"},
		{"upstreams", object{"cluster": "web", "upstreams": []object{{"dial": "192.0.2.1:80"}}}, "upstreams: "},
		{"dynamic", object{"cluster": "web", "dynamic_upstreams": object{"source": "a"}}, "dynamic_upstreams: "},
		{"load_balancing", object{"cluster": "web", "load_balancing": object{"retries": 3}}, "load_balancing: "},
		{"health_checks", object{"cluster": "web", "health_checks": object{}}, "health_checks: "},
		{"circuit_breaker", object{"cluster": "web", "circuit_breaker": object{"type": "x"}}, "circuit_breaker: "},
		{"protocol", object{"cluster": "web", "allow_upgrade": []string{"a b"}}, "allow_upgrade 0: "},
		{"fastcgi", object{"cluster": "web", "transport": object{"protocol": "fastcgi"}}, "transport: protocol: "},
		{"Z95_http3", http1(object{"versions": []string{"3"}}), "transport: versions: "},
		{"Z110_network_proxy", http1(object{"network_proxy": object{"from": "none"}}), "transport: network_proxy: "},
		{"Z110_forward_proxy", http1(object{"forward_proxy_url": "http://192.0.2.1"}), "transport: forward_proxy_url: "},
		{"resolver", http1(object{"resolver": object{"addresses": []string{"192.0.2.1"}}}), "transport: resolver: "},
		{"fallback_delay", http1(object{"dial_fallback_delay": 1}), "transport: dial_fallback_delay: "},
		{"max_conns", http1(object{"max_conns_per_host": 1}), "transport: max_conns_per_host: "},
		{"unknown_field", http1(object{"nope": 1}), "nope"},
		{"two_TLS", with(http1(object{"tls": object{}}), object{"cluster": "tls"}), "transport.tls: "},
		{"two_TLS_by_placeholder", with(http1(object{"tls": object{}}), object{"cluster": "{host}"}), `cluster "tls", which requests can name: transport.tls: `},
		{"two_PROXY_by_placeholder", with(http1(object{"proxy_protocol": "v2"}), object{"cluster": "{host}"}), `cluster "tls", which requests can name: transport.proxy_protocol: `},
		{"unix_socket_without_a_name", with(http1(object{"tls": object{}}), object{"cluster": "unix"}), `transport.tls.server_name: is required for endpoints[1], a unix socket of cluster "unix"`},
		{"two_PROXY", with(http1(object{"proxy_protocol": "v2"}), object{"cluster": "tls"}), "transport.proxy_protocol: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := provision(t, config)
			_, err := ctx.LoadModuleByID("http.handlers.cluster_proxy", encode(t, tc.options))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
