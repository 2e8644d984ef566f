package cluster

import (
	"context"
	"net"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/modules/discovery"
)

// serveSRV starts a name server that answers every question with SRV records of these weights, and returns its address.
func serveSRV(t *testing.T, weights ...uint16) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		conn.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		buf := make([]byte, 1500)
		for {
			n, client, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			reply, err := replySRV(buf[:n], weights)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = conn.WriteTo(reply, client)
		}
	}()
	return conn.LocalAddr().String()
}

// replySRV returns the answer to a message.
func replySRV(query []byte, weights []uint16) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	m.Response, m.Additionals = true, nil
	for i, weight := range weights {
		target := dnsmessage.MustNewName(string(rune('a'+i)) + ".test.")
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeSRV, Class: dnsmessage.ClassINET, TTL: 60},
			Body:   &dnsmessage.SRVResource{Priority: 10, Weight: weight, Port: 80, Target: target},
		})
	}
	return m.Pack()
}

// TestSRVWeights checks that the weights that SRV records can have count, the largest beside 0 too.
func TestSRVWeights(t *testing.T) {
	d := discovery.Discover{SRV: &discovery.SRV{Name: "_api._tcp.example.test.", Resolvers: []string{serveSRV(t, 0, 4096, 65535)}}}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	source, err := d.Provision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	set := finding(source)
	set.balancer = by(balance.RoundRobin)
	c := started(t, set)
	picks := make(map[string]int)
	const n = 69631 // the sum of the weights, but for the endpoint of weight 0
	for range n {
		picks[settle(t, c, Outcome{}).Address()]++
	}
	if a, b := picks["a.test:80"], picks["b.test:80"]; len(c.state.keys()) != 3 || a > 1 || b < 4095 || b > 4097 {
		t.Errorf("got %v of %d, want one at most at the first endpoint, and 4096 at the second", picks, n)
	}
	StopAll([]*Cluster{c})
}

// TestTiersOfSources checks that priorities are compared within a source: the lowest of each, and what is configured, serve
// together. One that is configured as well keeps its place in the order of the others.
func TestTiersOfSources(t *testing.T) {
	set := settings{static: []member{{Address: hostOf(0), weight: 1, backup: true, trusted: true}, {Address: hostOf(1), weight: 1, trusted: true}}}
	set.sources = []discovery.Source{source("x"), source("y")}
	c := running(t, set)
	at := func(i int, priority uint16) discovery.Endpoint {
		return discovery.Endpoint{Host: hostOf(i).Host, Port: 80, Priority: priority, Weight: 1}
	}
	for _, row := range []struct {
		from  source
		found []discovery.Endpoint
		want  []uint8
	}{
		{"x", []discovery.Endpoint{at(4, 10), at(5, 30), at(6, 20), at(7, 10)}, []uint8{backupTier, 0, 0, 2, 1, 0}},
		{"y", []discovery.Endpoint{at(8, 7)}, []uint8{backupTier, 0, 0, 2, 1, 0, 0}},
		{"y", []discovery.Endpoint{at(8, 7), at(1, 3)}, []uint8{backupTier, 0, 0, 2, 1, 0, 1}},
		{"y", []discovery.Endpoint{at(8, 7), at(6, 8)}, []uint8{backupTier, 0, 0, 2, 1, 0, 0}},
	} {
		if err := c.take(row.from, row.found, nil); err != nil {
			t.Fatal(err)
		}
		if got := c.state.roster.Load().tiers; !slices.Equal(got, row.want) {
			t.Errorf("%v: got tiers %v, want %v", row.found, got, row.want)
		}
	}
}
