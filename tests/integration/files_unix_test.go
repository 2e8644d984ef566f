//go:build unix

package integration

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// TestDescriptorExhaustion has more clients than a process may open files for. Those that are too many are refused, and
// counted, and have their line; the others are served, and when clients have left, new ones are served as before.
func TestDescriptorExhaustion(t *testing.T) {
	const files, clients = 300, 400
	l := newLab(t)
	addr, backend := l.freeAddr(), l.echo()
	p := l.spawnWith("process", server(addr, "route {\naccess_log\nforward "+backend+"\n}"), fmt.Sprintf("ulimit -n %d", files))
	var held []net.Conn
	served, refused := 0, 0
	for range clients {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		word := make([]byte, 4)
		_, err = c.Write([]byte("word"))
		if err == nil {
			_, err = io.ReadFull(c, word)
		}
		if err != nil {
			refused++
			continue
		}
		served++
		held = append(held, c)
	}
	// Each connection that is served takes two.
	if most := files / 2; served == 0 || served > most || refused == 0 {
		t.Errorf("got %d served and %d refused, want at most %d served, and some refused", served, refused, most)
	}
	for _, c := range held {
		_ = c.Close()
	}
	l.eventually("clients are served again", func() (string, bool) {
		_, err := callOnce(addr)
		return fmt.Sprint(err), err == nil
	})
	l.eventually("the refused have their lines", func() (string, bool) {
		refusals := 0
		for _, line := range p.logged("connection") {
			if line["reason"] == "admission_open_files" {
				refusals++
			}
		}
		return fmt.Sprintf("%d of at least %d", refusals, refused), refusals >= refused
	})
	if warnings := p.logged("refusing connections"); len(warnings) != 1 {
		t.Errorf("got %d warnings, want one", len(warnings))
	}
}

// TestFlood opens many connections at once to a process that may open few files: it must go on to accept.
func TestFlood(t *testing.T) {
	const files, clients, rounds = 200, 600, 3
	l := newLab(t)
	addr, backend := l.freeAddr(), l.echo()
	l.spawnWith("process", server(addr, "route {\nforward "+backend+"\n}"), fmt.Sprintf("ulimit -n %d", files))
	for range rounds {
		var conns []net.Conn
		for range clients {
			if c, err := net.Dial("tcp", addr); err == nil {
				conns = append(conns, c)
			}
		}
		for _, c := range conns {
			_ = c.Close()
		}
	}
	l.eventually("clients are served again", func() (string, bool) {
		_, err := callOnce(addr)
		return fmt.Sprint(err), err == nil
	})
}
