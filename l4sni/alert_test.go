package l4sni

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-sluice/sluice/internal/linger"
	"github.com/caddy-sluice/sluice/internal/preread"
)

// TestAlertBytes checks what the client of a refused connection gets, for every reason.
func TestAlertBytes(t *testing.T) {
	want := map[preread.Reason][]byte{
		preread.SNIUnmatched:  {21, 3, 3, 0, 2, 2, 112},
		preread.ALPNUnmatched: {21, 3, 3, 0, 2, 2, 120},
	}
	for reason := range preread.Reasons() {
		t.Run(reason.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := newDuplex(t)
				go func() {
					sendAlert(server, reason)
					_ = server.Close()
				}()
				got, err := io.ReadAll(client)
				if !bytes.Equal(got, want[reason]) || err != nil {
					t.Errorf("got %v, %v, want %v", got, err, want[reason])
				}
				_ = client.Close()
				synctest.Wait()
				if server.halfClosed != (want[reason] != nil) {
					t.Errorf("got half-closed %v, want %v", server.halfClosed, want[reason] != nil)
				}
			})
		})
	}
}

// TestAlertDrain checks how long a client can hold a connection that is refused.
func TestAlertDrain(t *testing.T) {
	for _, tc := range []struct {
		name    string
		client  func(*duplex)
		elapsed time.Duration
		read    int64
	}{
		{"closes", func(c *duplex) { _ = c.Close() }, 0, 0},
		{"ends_its_stream", func(c *duplex) {
			_, _ = c.Write(make([]byte, 100))
			_ = c.CloseWrite()
		}, 0, 100},
		{"stays_silent", func(*duplex) {}, linger.MaxTime, 0},
		{"keeps_sending", func(c *duplex) { flood(c, 1000, 0) }, 0, linger.MaxBytes},
		{"keeps_sending_slowly", func(c *duplex) { flood(c, 1, 300*time.Millisecond) }, linger.MaxTime, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := newDuplex(t)
				play(t, client, func(c *duplex) {
					_, _ = io.ReadFull(c, make([]byte, 7))
					tc.client(c)
				})
				start := time.Now()
				sendAlert(server, preread.SNIUnmatched)
				if got := time.Since(start); got != tc.elapsed {
					t.Errorf("got an end after %v, want %v", got, tc.elapsed)
				}
				if got := server.read.Load(); got != tc.read {
					t.Errorf("got %d bytes read, want %d", got, tc.read)
				}
			})
		})
	}
}

// flood writes n bytes at a time until the connection is closed.
func flood(client *duplex, n int, pause time.Duration) {
	for {
		if _, err := client.Write(make([]byte, n)); err != nil {
			return
		}
		time.Sleep(pause)
	}
}

// TestAlertNotRead checks that a client which doesn't read its alert can't hold the connection either.
func TestAlertNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, server := newDuplex(t)
		start := time.Now()
		sendAlert(server, preread.SNIUnmatched)
		if got := time.Since(start); got != linger.MaxTime {
			t.Errorf("got an end after %v, want %v", got, linger.MaxTime)
		}
		if server.halfClosed {
			t.Error("got a half-close behind an alert that was not written")
		}
	})
}

// TestAlertWithoutHalfClose checks that nothing is drained where the end of the stream can't be told.
func TestAlertWithoutHalfClose(t *testing.T) {
	conn := &writeOnly{script: script{data: longHello}}
	sendAlert(conn, preread.SNIUnmatched)
	if len(conn.written) != 7 || len(conn.asked) != 0 {
		t.Errorf("got %d bytes written and %d reads, want 7 and 0", len(conn.written), len(conn.asked))
	}
}

// writeOnly is a connection that can't be closed by halves.
type writeOnly struct {
	script
	written []byte
}

func (c *writeOnly) SetDeadline(time.Time) error { return nil }

func (c *writeOnly) Write(p []byte) (int, error) {
	c.written = append(c.written, p...)
	return len(p), nil
}
