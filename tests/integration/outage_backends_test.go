package integration

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// ledger has who has done what. What is done is a token, which one client thinks of.
type ledger struct {
	mu   sync.Mutex
	done map[string][]string
}

// add notes that a backend has done something.
func (l *ledger) add(token, backend string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[token] = append(l.done[token], backend)
}

// by returns the backends that have done something.
func (l *ledger) by(token string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done[token]
}

// member is a backend that answers HTTP requests, WebSockets among them, and lines of TCP. It can be away for a while.
type member struct {
	*lab
	name      string
	http, tcp string
	ledger    *ledger
	delay     time.Duration
	status    int
	mu        sync.Mutex
	servers   []io.Closer
	// streams are the connections that the servers don't know of.
	streams    sync.Map
	working    sync.WaitGroup
	served     atomic.Int64
	interrupts atomic.Int64
}

// newMember returns a backend that is there until the test ends.
func (l *lab) newMember(name string, g *ledger) *member {
	l.Helper()
	b := &member{lab: l, name: name, http: l.freeAddr(), tcp: l.freeAddr(), ledger: g, status: http.StatusOK}
	b.up()
	l.Cleanup(func() { b.down(); b.working.Wait() })
	return b
}

// up makes the backend listen.
func (b *member) up() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	site, lines := listenAt(b.lab, b.http), listenAt(b.lab, b.tcp)
	server := &http.Server{Handler: http.HandlerFunc(b.serve)}
	b.servers = []io.Closer{server, lines}
	b.working.Go(func() { _ = server.Serve(site) })
	b.working.Go(func() { b.accept(lines) })
}

// listenAt listens at an address that was in use a moment ago.
func listenAt(l *lab, addr string) net.Listener {
	l.Helper()
	var ln net.Listener
	l.eventually("listening at "+addr, func() (string, bool) {
		var err error
		ln, err = net.Listen("tcp", addr)
		return fmt.Sprint(err), err == nil
	})
	return ln
}

// down ends the backend as a crash does: what is under way is cut off.
func (b *member) down() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.interrupts.Add(1)
	for _, s := range b.servers {
		_ = s.Close()
	}
	b.servers = nil
	b.streams.Range(func(conn, _ any) bool {
		_ = conn.(net.Conn).Close()
		return true
	})
}

// hold keeps a connection that is to be cut when the backend is, until the function that it returns is called.
func (b *member) hold(conn net.Conn) (done func()) {
	b.streams.Store(conn, nil)
	return func() { b.streams.Delete(conn); _ = conn.Close() }
}

// leave ends the backend in an orderly way: what is under way is done.
func (b *member) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.interrupts.Add(1)
	for _, s := range b.servers {
		if server, ok := s.(*http.Server); ok {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = server.Shutdown(ctx)
			cancel()
		}
		_ = s.Close()
	}
	b.servers = nil
}

// serve answers a request with its token.
func (b *member) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "" {
		b.webSocket(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	time.Sleep(b.delay) // what a slow backend does
	if b.status == http.StatusOK {
		b.ledger.add(r.Header.Get("X-Token"), b.name)
		b.served.Add(1)
	}
	w.Header().Set("X-Backend", b.name)
	w.WriteHeader(b.status)
	_, _ = fmt.Fprintf(w, "%s %d", r.Header.Get("X-Token"), len(body))
}

// webSocket says that it speaks another protocol, and sends back what it gets. Frames mean nothing to it, or to a proxy.
func (b *member) webSocket(w http.ResponseWriter, r *http.Request) {
	if b.status != http.StatusOK {
		w.WriteHeader(b.status)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer b.hold(conn)()
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Accept: %s\r\n\r\n", acceptKey(r.Header.Get("Sec-WebSocket-Key")))
	b.served.Add(1)
	_, _ = io.Copy(conn, buffered)
}

// accept answers lines.
func (b *member) accept(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		b.working.Go(func() {
			defer b.hold(conn)()
			_ = conn.SetDeadline(time.Now().Add(patience))
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil {
				return
			}
			b.served.Add(1)
			_, _ = io.WriteString(conn, line)
		})
	}
}
