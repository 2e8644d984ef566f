package relay

import (
	"net"
	"strings"
	"testing"
)

// faulty panics when it is asked to do one thing.
type faulty struct {
	net.Conn
	what string
}

func (c faulty) Read(p []byte) (int, error) {
	if c.what == "read" {
		panic("faulty read")
	}
	return c.Conn.Read(p)
}

func (c faulty) Write(p []byte) (int, error) {
	if c.what == "write" {
		panic("faulty write")
	}
	return c.Conn.Write(p)
}

func (c faulty) CloseWrite() error {
	if c.what == "close" {
		panic("faulty close")
	}
	return nil
}

// A connection that panics, which may be anybody's, does so on the goroutine that has called Run. Nothing is left behind.
func TestPanics(t *testing.T) {
	for _, what := range []string{"read", "write", "close"} {
		t.Run(what, func(t *testing.T) {
			b := prepare(t, tcpPair, tcpPair)
			b.Backend = faulty{b.Backend, what}
			send(t, b.client, []byte("x"))
			closeWrite(t, b.client)
			defer func() {
				if p, _ := recover().(string); !strings.HasPrefix(p, "faulty "+what) || !strings.Contains(p, "panic_test.go") {
					t.Errorf("got %.80q, want the panic of the connection, with its stack", p)
				}
			}()
			b.Run()
			t.Error("Run returned")
		})
	}
}
