package forward

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-sluice/sluice/modules/session"
)

// TestClusterRefused checks what is refused at load, by the name of the field.
func TestClusterRefused(t *testing.T) {
	web := `"web":{"endpoints":[{"address":"192.0.2.1:443"}]}`
	local := `"web":{"endpoints":[{"address":"192.0.2.1:443"},{"address":"unix//run/web.sock"}]}`
	keyed := func(key string) string {
		return `"web":{"endpoints":[{"address":"192.0.2.1:443"}],"balance":{"policy":"maglev","key":"` + key + `"}}`
	}
	for _, tc := range []struct{ name, clusters, handler, err string }{
		{"T75_unknown", web + `,"api":{"endpoints":[{"address":"192.0.2.1:443"}]}`, `{"cluster":"wep"}`, `cluster "wep" is not known; must be one of api, web`},
		{"T75_no_clusters", ``, `{"cluster":"web"}`, `cluster "web" is not known: `},
		{"T85_both", web, `{"cluster":"web","upstream":"192.0.2.1:443"}`, `cluster: contradicts upstream "192.0.2.1:443"`},
		{"T85_neither", web, `{}`, `upstream: is required, or a cluster`},
		{"allow", web, `{"cluster":"web","allow":["a.example.com:443"]}`, "allow: is for upstreams with an address"},
		{"guard", web, `{"cluster":"web","guard":"off"}`, "guard: is for upstreams with an address"},
		{"allow_private", web, `{"cluster":"web","allow_private":true}`, "allow_private: is for upstreams with an address"},
		{"limit", web, `{"cluster":"web","max_connections_per_ip":3}`, "max_connections_per_ip: is for upstreams with an address"},
		{"prefix", web, `{"cluster":"web","ipv6_prefix":48}`, "ipv6_prefix: is for upstreams with an address"},
		{"tls_without_a_name", local, `{"cluster":"web","tls":{}}`, `tls: server_name: is required for endpoints[1], a unix socket of cluster "web"`},
		{"key_header", keyed("header x-user"), `{"cluster":"web"}`, `cluster: "web" balances by header X-User, which is for requests`},
		{"key_uri", keyed("uri"), `{"cluster":"web"}`, `cluster: "web" balances by uri, which is for requests`},
		{"key_placeholder", keyed("{http.request.host}"), `{"cluster":"web"}`, `balances by {http.request.host}, which is for requests`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := provision(t, tc.clusters, tc.handler); err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got error %v, want one with %q", err, tc.err)
			}
		})
	}
}

// TestClusterUnixTLS checks which TLS of its own a forward may have with a unix socket.
func TestClusterUnixTLS(t *testing.T) {
	for _, settings := range []string{`"server_name":"web.example.test"`, `"insecure_skip_verify":true`} {
		if _, err := provision(t, `"web":{"endpoints":[{"address":"unix//run/web.sock"}]}`, `{"cluster":"web","tls":{`+settings+`}}`); err != nil {
			t.Errorf("%s: got error %v, want none", settings, err)
		}
	}
}

// TestClusterBalance checks how connections are spread.
func TestClusterBalance(t *testing.T) {
	for _, tc := range []struct {
		name, policy string
		weights      []int
		n            int
		want         []int
		// within is how far off the numbers may be.
		within float64
	}{
		{"T66_round_robin", "round_robin", []int{1, 1, 1}, 30, []int{10, 10, 10}, 0},
		{"T67_weights", "round_robin", []int{1, 3}, 40, []int{10, 30}, 0},
		// Six standard deviations of 200 draws.
		{"T73_random_by_weight", "random", []int{1, 3}, 200, []int{50, 150}, 37},
		{"first", "first", []int{1, 1}, 5, []int{5, 0}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := servers(t, len(tc.weights))
			var members []string
			for i, s := range list {
				members = append(members, fmt.Sprintf(`{"address":"%s","weight":%d}`, s.address, tc.weights[i]))
			}
			s := start(t, `"endpoints":[`+strings.Join(members, ",")+`],"balance":{"policy":"`+tc.policy+`"}`, ``)
			got := make([]int, len(list))
			for range tc.n {
				got[s.once(t, "192.0.2.7")]++
			}
			for i := range got {
				if math.Abs(float64(got[i]-tc.want[i])) > tc.within {
					t.Errorf("got %v connections, want %v", got, tc.want)
				}
			}
			s.wantIdle(t)
		})
	}
}

// TestT68_LeastConnections holds a session at one endpoint: others go to the other one until it has ended.
func TestT68_LeastConnections(t *testing.T) {
	list := servers(t, 2)
	s := start(t, endpoints(addresses(list)...)+`,"balance":{"policy":"least_connections"}`, ``)
	held := s.visit(t, "192.0.2.7")
	at := held.at(t)
	for range 10 {
		if got := s.once(t, "192.0.2.7"); got == at {
			t.Errorf("got server %d, which is busy", got)
		}
	}
	held.leave()
	s.wantIdle(t)
	eventually(t, func() (string, bool) {
		return "got no connection at the endpoint that was busy", s.once(t, "192.0.2.7") == at
	})
}

// TestT70_Concurrent has many connections at a time, and checks that none is counted after the end.
func TestT70_Concurrent(t *testing.T) {
	list := servers(t, 3)
	s := start(t, endpoints(addresses(list)...)+`,"balance":{"policy":"least_connections"}`, ``)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { s.once(t, "192.0.2.7") })
	}
	all.Wait()
	s.wantIdle(t)
	total := int32(0)
	for _, server := range list {
		total += server.accepted.Load()
	}
	if total != 100 {
		t.Errorf("got %d connections, want 100", total)
	}
}

// clients are addresses that are spread over the endpoints.
func clients(n int) []string {
	var list []string
	for i := range n {
		list = append(list, "192.0.2."+strconv.Itoa(i+1))
	}
	return list
}

// TestClusterByClient checks that a client stays at its endpoint, in another config too, as long as that is healthy.
func TestClusterByClient(t *testing.T) {
	list := servers(t, 3)
	config := endpoints(addresses(list)...) + `,"balance":{"policy":"maglev","key":"client_ip"},
		"passive":{"fall":1,"retry_after":"50ms"}`
	s := start(t, config, ``)
	home := make(map[string]int)
	for _, from := range clients(20) {
		home[from] = s.once(t, from)
	}
	t.Run("T71_same_client_same_endpoint", func(t *testing.T) {
		for range 3 {
			for from, want := range home {
				if got := s.once(t, from); got != want {
					t.Errorf("%s: got %d, want %d", from, got, want)
				}
			}
		}
		if v := s.visit(t, "::ffff:192.0.2.1"); v.at(t) != home["192.0.2.1"] {
			t.Error("an IPv4-mapped address is another client")
		} else {
			v.leave()
		}
	})
	t.Run("Z124_over_a_reload", func(t *testing.T) {
		before := s
		s = restart(t, before, config)
		for from, want := range home {
			if got := s.once(t, from); got != want {
				t.Errorf("%s: got %d, want %d", from, got, want)
			}
		}
	})
	t.Run("T72_unhealthy_and_back", func(t *testing.T) {
		down := home["192.0.2.1"]
		_ = list[down].ln.Close()
		for from, want := range home {
			if got := s.once(t, from); got == down || want != down && got != want {
				t.Errorf("%s: got %d, want %d or, if that is %d, another one", from, got, want, down)
			}
		}
		list[down].listen(t, byte('0'+down))
		eventually(t, func() (string, bool) {
			return "the endpoint has not come back", s.once(t, "192.0.2.1") == down
		})
		for from, want := range home {
			if got := s.once(t, from); got != want {
				t.Errorf("%s: got %d, want %d", from, got, want)
			}
		}
	})
}

// TestClusterKeys checks what a connection can be balanced by.
func TestClusterKeys(t *testing.T) {
	for _, tc := range []struct {
		name, key string
		// same and other say which sessions have the same key as one of name.test from 192.0.2.7.
		change func(*session.Session)
		same   bool
	}{
		{"client_ip_of_another_port", "client_ip", func(s *session.Session) { s.Client = tcp("192.0.2.7", 9) }, true},
		{"client_ip_of_another_client", "client_ip", func(s *session.Session) { s.Client = tcp("192.0.2.8", 4321) }, false},
		{"sni", "sni", func(s *session.Session) { s.Client = tcp("192.0.2.8", 4321) }, true},
		{"sni_of_another_name", "sni", func(s *session.Session) { s.Hello.ServerName = "other.test" }, false},
		{"placeholder", "{l4.sluice.sni}", func(s *session.Session) { s.Client = tcp("192.0.2.8", 4321) }, true},
		{"placeholder_of_another_name", "{l4.sluice.sni}", func(s *session.Session) { s.Hello.ServerName = "other.test" }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, endpoints("192.0.2.1:1", "192.0.2.2:1")+`,"balance":{"policy":"maglev","key":"`+tc.key+`"}`, ``)
			key := func(change func(*session.Session)) any {
				cx, sess := s.arrival(t)
				sess.Hello = &session.Hello{ServerName: "name.test"}
				change(sess)
				return s.key(cx, sess)
			}
			if got := key(func(*session.Session) {}) == key(tc.change); got != tc.same {
				t.Errorf("got the same key: %v, want %v", got, tc.same)
			}
		})
	}
}

// TestBackup checks that a backup serves only while no other endpoint is healthy, and who can't be connected to the others.
func TestBackup(t *testing.T) {
	list := servers(t, 2)
	s := start(t, fmt.Sprintf(`"endpoints":[{"address":"%s"},{"address":"%s","backup":true}],"passive":{"fall":2,"retry_after":"1h"}`, list[0].address, list[1].address), ``)
	if got := s.once(t, "192.0.2.7"); got != 0 {
		t.Errorf("got %d, want the endpoint that is none for emergencies", got)
	}
	_ = list[0].ln.Close()
	for range 4 { // it is taken for healthy still, at first
		if got := s.once(t, "192.0.2.7"); got != 1 {
			t.Errorf("got %d, want the backup", got)
		}
	}
}

// TestClusterSession checks what a session says about its cluster.
func TestClusterSession(t *testing.T) {
	list := servers(t, 1)
	s := start(t, endpoints(addresses(list)...), ``)
	v := s.visit(t, "192.0.2.7")
	v.at(t)
	snap := v.sess.Snapshot()
	if snap.Cluster != s.Cluster || snap.Upstream != list[0].address {
		t.Errorf("got %q, %q, want %q, %q", snap.Cluster, snap.Upstream, s.Cluster, list[0].address)
	}
	if st := s.status(t); st.Requests != 1 || st.Connections != 1 || st.Pending != 0 || st.Endpoints[0].Active != 1 {
		t.Errorf("got %+v, want one of each", st)
	}
	v.leave()
	s.wantIdle(t)
	if levels := s.loud(); len(levels) > 0 {
		t.Errorf("got %v, want nothing that an operator has to see", levels)
	}
}

// loud returns the messages that are not for those who debug.
func (s *site) loud() []string {
	var all []string
	for _, entry := range s.logs.All() {
		if entry.Level >= 0 {
			all = append(all, entry.Message)
		}
	}
	slices.Sort(all)
	return all
}
