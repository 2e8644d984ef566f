package integration

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// crowd is many clients of a port, which ask one after the other.
type crowd struct {
	*onePort
	// answered counts the requests, resets those of them that were asked again.
	answered, resets atomic.Int64
	// turns are those who may ask at a time: more would only wait for the processor, and for longer than the server does.
	turns chan struct{}
}

// TestOnePortParallel has 200 clients that must get their own answers only, while the config is reloaded. Each
// connection carries one request: a request on a kept-alive connection may meet the old server's end in any Caddy. A
// connection that the kernel resets while it is made, since for a moment of each reload there is a second socket (see
// docs/decisions.md), is made again; there may be one of these for each reload and hundred clients.
func TestOnePortParallel(t *testing.T) {
	const clients, requests, reloads, atATime = 200, 5, 4, 20
	const mostResets = reloads * clients / 100
	l := newLab(t)
	c := &crowd{onePort: startOnePort(l, passthrough(l.digester("pass")), whoAmI), turns: make(chan struct{}, atATime)}
	var wait sync.WaitGroup
	for i := range clients {
		wait.Go(func() { c.client(t, i, requests) })
	}
	for i := range reloads {
		share := int64(clients * requests * (i + 1) / (reloads + 1))
		l.eventually("a share of the requests is answered", func() (string, bool) {
			n := c.answered.Load()
			return fmt.Sprint(n), n >= share
		})
		if err := c.reload(); err != nil {
			t.Error(err)
		}
	}
	wait.Wait()
	if n := c.resets.Load(); n > mostResets {
		t.Errorf("connections reset by the kernel: got %d, want at most %d", n, mostResets)
	}
}

// client asks for passthrough if its number ends in 9, else for the site, by HTTP/2 if it is even.
func (c *crowd) client(t *testing.T, number, requests int) {
	var local atomic.Pointer[string]
	site := c.onePort.client(number%2 == 0, &local)
	for i := range requests {
		id := fmt.Sprintf("/%d/%d", number, i)
		if number%10 == 9 {
			hello := named("pass.test", id)
			got, err := c.retried(func() (string, error) { return c.ask(0, hello) })
			if err != nil || got != digest("pass", hello) {
				t.Errorf("passthrough %s: got %q, %v", id, got, err)
			}
		} else {
			got, err := c.retried(func() (string, error) { return fetch(site, id) })
			if err != nil || !strings.HasPrefix(got, *local.Load()+" ") || !strings.HasSuffix(got, " "+id) {
				t.Errorf("client: got %q, %v, want %s %s", got, err, *local.Load(), id)
			}
		}
		c.answered.Add(1)
	}
}

// retried asks again, once, if the connection was reset, and counts that.
func (c *crowd) retried(ask func() (string, error)) (string, error) {
	c.turns <- struct{}{}
	defer func() { <-c.turns }()
	got, err := ask()
	if errors.Is(err, syscall.ECONNRESET) {
		c.resets.Add(1)
		got, err = ask()
	}
	return got, err
}
