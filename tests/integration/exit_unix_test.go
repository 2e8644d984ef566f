//go:build unix

package integration

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// callOnce connects, sends a word, gets it back, and ends the connection in order. It returns the client's address.
func callOnce(addr string) (client string, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	client = c.LocalAddr().String()
	if _, err := c.Write([]byte("word")); err != nil {
		return client, err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return client, err
	}
	got, err := io.ReadAll(c)
	if string(got) != "word" || err != nil {
		return client, fmt.Errorf("got %q, %w, want the word back", got, err)
	}
	return client, nil
}

// callers connect over and over, until they are told to stop.
type callers struct {
	wait   sync.WaitGroup
	stop   atomic.Bool
	calls  atomic.Int64
	mu     sync.Mutex // guards the fields below
	served []string
	failed []error
}

// call starts n callers.
func call(n int, addr string) *callers {
	c := new(callers)
	for range n {
		c.wait.Go(func() {
			for !c.stop.Load() {
				client, err := callOnce(addr)
				c.note(client, err)
			}
		})
	}
	return c
}

func (c *callers) note(client string, err error) {
	c.calls.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed = append(c.failed, err)
		return
	}
	c.served = append(c.served, client)
}

// end stops the callers and returns how often they failed.
func (c *callers) end() []error {
	c.stop.Store(true)
	c.wait.Wait()
	return c.failed
}

// await waits for n more calls.
func (c *callers) await(l *lab, n int64) {
	l.Helper()
	until := c.calls.Load() + n
	l.eventually("calls", func() (string, bool) {
		calls := c.calls.Load()
		return fmt.Sprintf("%d of %d", calls, until), calls >= until
	})
}

// TestRestart replaces the process, under a loop of connects, by another one that listens on the same address: each
// connection is served, by the one or by the other.
func TestRestart(t *testing.T) {
	const rounds, clients = 4, 4
	l := newLab(t)
	addr, backend := l.freeAddr(), l.echo()
	options := server(addr, "route {\naccess_log\nforward "+backend+"\n}")
	running := l.spawn("process0", options)
	c := call(clients, addr)
	for i := range rounds {
		c.await(l, 50)
		next := l.spawn(fmt.Sprintf("process%d", i+1), options)
		c.await(l, 50)
		running.terminate()
		running.wait()
		running = next
	}
	c.await(l, 50)
	if failed := c.end(); len(failed) > 0 {
		t.Errorf("got %d of %d connections failed, the first with %v", len(failed), c.calls.Load(), failed[0])
	}
}

// TestExit ends the process under load: what ends within the grace ends as always, the rest is ended with a reason, and
// each connection that was accepted has its line in the log.
func TestExit(t *testing.T) {
	const idle, grace = 20, 5 * time.Second // there must be time for all that goes on
	l := newLab(t)
	addr, backend := l.freeAddr(), l.echo()
	p := l.spawn("process", fmt.Sprintf("sluice {\nshutdown_grace %v\n}\n", grace)+
		server(addr, "route {\naccess_log\nforward "+backend+"\n}"))

	var held, short []*peer
	for range idle {
		for _, list := range []*[]*peer{&held, &short} {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			c := l.peer(conn)
			c.send([]byte("word"))
			c.expect([]byte("word"))
			*list = append(*list, c)
		}
	}
	c := call(2, addr)
	c.await(l, 20)
	p.terminate()
	l.eventually("new connections are refused", func() (string, bool) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return fmt.Sprint(err), err != nil
	})
	for _, s := range short { // the proxy is on its way out, and these go on
		s.send([]byte("more"))
		s.expect([]byte("more"))
		s.end()
		s.expectEnd(nil)
	}
	if took := p.wait(); took > grace+soon {
		t.Errorf("got an exit after %v, want it soon after the grace of %v", took, grace)
	}
	for _, h := range held {
		h.expectClosed()
	}
	c.end()

	reasons := make(map[string]string)
	for _, line := range p.logged("connection") {
		reasons[line["remote"].(string)] = line["reason"].(string)
	}
	expect := func(client, want string) {
		t.Helper()
		if got := reasons[client]; got != want {
			t.Errorf("%s: got reason %q in the log, want %q", client, got, want)
		}
	}
	for i := range idle {
		expect(short[i].LocalAddr().String(), "completed")
		expect(held[i].LocalAddr().String(), "shutdown")
	}
	for _, client := range c.served {
		expect(client, "completed")
	}
}
