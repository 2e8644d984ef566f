package forward

import (
	"fmt"
	"strings"
	"testing"
)

// TestClusterLimits checks what happens to connections that are too many.
func TestClusterLimits(t *testing.T) {
	list := servers(t, 2)
	both := func(limits string) string {
		return fmt.Sprintf(`"endpoints":[{"address":"%s"%s},{"address":"%s"%s}]`, list[0].address, limits, list[1].address, limits) + first
	}
	for _, tc := range []struct {
		name, config string
		granted      int
	}{
		{"Z116_cluster_connections", both("") + `,"limits":{"max_connections":3}`, 3},
		{"cluster_requests", both("") + `,"limits":{"max_requests":3}`, 3},
		{"Z116_endpoint_connections", both(`,"limits":{"max_connections":2}`), 4},
		{"endpoint_requests", both(`,"limits":{"max_requests":2}`), 4},
		{"per_client", both("") + `,"limits":{"max_connections_per_ip":2}`, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, tc.config, ``)
			var held []*visit
			for range tc.granted {
				v := s.visit(t, "192.0.2.7")
				v.at(t)
				held = append(held, v)
			}
			for range 2 {
				s.visit(t, "192.0.2.7").refused(t)
			}
			if got := s.status(t); got.Requests != int64(tc.granted) || got.Connections != int64(tc.granted) {
				t.Errorf("got %+v, want %d", got, tc.granted)
			}
			held[0].leave()
			held[0] = s.visit(t, "192.0.2.7")
			held[0].at(t)
			for _, v := range held {
				v.leave()
			}
			s.wantIdle(t)
			if got := s.loud(); len(got) > 0 {
				t.Errorf("got %v, want nothing loud", got)
			}
		})
	}
}

// TestManyFullEndpoints checks that the one endpoint with room is found among many without.
func TestManyFullEndpoints(t *testing.T) {
	list := servers(t, 40)
	var config []string
	for _, server := range list {
		config = append(config, fmt.Sprintf(`{"address":"%s","limits":{"max_connections":1}}`, server.address))
	}
	s := start(t, `"endpoints":[`+strings.Join(config, ",")+`]`+first, ``)
	var held []*visit
	for range list {
		v := s.visit(t, "192.0.2.7")
		v.at(t)
		held = append(held, v)
	}
	s.visit(t, "192.0.2.7").refused(t)
	for i, v := range held {
		v.leave()
		held[i] = s.visit(t, "192.0.2.7")
		held[i].at(t)
	}
	for _, v := range held {
		v.leave()
	}
	s.wantIdle(t)
}
