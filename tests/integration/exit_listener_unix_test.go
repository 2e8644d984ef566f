//go:build unix

package integration

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
)

// TestExitUnixListener checks that a server on a unix socket takes no more connections from the beginning of an exit,
// while those that it has go on.
func TestExitUnixListener(t *testing.T) {
	l := newLab(t)
	path, backend := filepath.Join(l.dir, "listener"), l.echo()
	p := l.spawn("process", "sluice {\nshutdown_grace 1m\n}\n"+server("unix/"+path, "route {\nforward "+backend+"\n}"))
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c := l.peer(conn)
	c.send([]byte("word"))
	c.expect([]byte("word"))
	p.terminate()
	l.eventually("new connections are refused", func() (string, bool) {
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
		}
		return fmt.Sprint(err), err != nil
	})
	c.send([]byte("more"))
	c.expect([]byte("more"))
	_ = conn.Close()
	p.wait()
}
