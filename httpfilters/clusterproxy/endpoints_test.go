package clusterproxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/ports"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/cluster"
)

// backend is an endpoint that answers with a handler, and counts.
type backend struct {
	*httptest.Server
	address  string
	requests atomic.Int32
	accepted atomic.Int32
}

// newBackend starts an endpoint.
func newBackend(t testing.TB, h http.HandlerFunc) *backend {
	t.Helper()
	b := unstarted(h)
	b.Start()
	return b.started(t)
}

// newBackendAt starts an endpoint at an address.
func newBackendAt(t testing.TB, address string, h http.HandlerFunc) *backend {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	b := unstarted(h)
	_ = b.Listener.Close()
	b.Listener = ln
	b.Start()
	return b.started(t)
}

func unstarted(h http.HandlerFunc) *backend {
	b := new(backend)
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.requests.Add(1)
		h(w, r)
	}))
	b.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			b.accepted.Add(1)
		}
	}
	return b
}

func (b *backend) started(t testing.TB) *backend {
	t.Helper()
	t.Cleanup(b.Close)
	b.address = b.Listener.Addr().String()
	return b
}

// echo answers with the method and the body.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	fmt.Fprintf(w, "%s %s", r.Method, body)
}

// raw is an endpoint that speaks as a function does, on each connection.
type raw struct {
	address  string
	accepted atomic.Int32
}

// newRaw starts an endpoint. The connection is closed when the function returns.
func newRaw(t testing.TB, serve func(nth int, c net.Conn)) *raw {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &raw{address: ln.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			nth := int(b.accepted.Add(1))
			running.Go(func() {
				defer c.Close()
				serve(nth, c)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		running.Wait()
	})
	return b
}

// dead returns an address where nobody listens.
func dead(t testing.TB) string {
	t.Helper()
	return ports.Dead(t)
}

// relay passes bytes between a connection and an address, until one of them has ended.
func relay(c net.Conn, address string) {
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	var other sync.WaitGroup
	other.Go(func() {
		_, _ = io.Copy(to, c)
		_ = to.Close()
	})
	_, _ = io.Copy(c, to)
	_ = c.Close()
	other.Wait()
}

// statusOf returns what is known about a cluster.
func statusOf(t testing.TB, name string) cluster.Status {
	t.Helper()
	st, ok := cluster.StatusOf(name)
	if !ok {
		t.Fatalf("no cluster %s", name)
	}
	return st
}

// parseKey reads a key.
func parseKey(t testing.TB, text string) balancers.Key {
	t.Helper()
	key, err := balancers.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
