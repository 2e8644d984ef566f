package linger

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestEnd checks on sockets that a peer whose bytes nobody has read gets what was said, and an end.
func TestEnd(t *testing.T) {
	for _, tc := range []struct{ name, last string }{{"silent", ""}, {"last_words", "no"}} {
		t.Run(tc.name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			client, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			server, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Write(make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				End(server, []byte(tc.last))
				_ = server.Close()
			}()
			got, err := io.ReadAll(client)
			if string(got) != tc.last || err != nil {
				t.Errorf("got %q, %v, want %q and the end", got, err, tc.last)
			}
			_ = client.Close()
			<-ended
		})
	}
}

// halves is a connection in memory whose stream can be ended.
type halves struct {
	net.Conn
	ended bool
}

func (h *halves) CloseWrite() error {
	h.ended = true
	return nil
}

// TestLimits checks how long a peer can hold the connection.
func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		name   string
		last   string
		writes int
		took   time.Duration
		ended  bool
	}{
		{"silent_peer", "", 0, MaxTime, true},
		{"peer_that_does_not_read", "no", 0, MaxTime, false},
		{"peer_that_writes_too_much", "", MaxBytes/1024 + 1, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				theirs, ours := net.Pipe()
				done := make(chan struct{})
				go func() {
					defer close(done)
					for range tc.writes {
						_, _ = theirs.Write(make([]byte, 1024))
					}
				}()
				conn, start := &halves{Conn: ours}, time.Now()
				End(conn, []byte(tc.last))
				if took := time.Since(start); took != tc.took || conn.ended != tc.ended {
					t.Errorf("got an end after %v, half-closed %v, want %v, %v", took, conn.ended, tc.took, tc.ended)
				}
				_, _ = ours.Close(), theirs.Close()
				<-done
			})
		})
	}
}

// TestWithoutHalfClose checks that nothing is read where the end can't be told.
func TestWithoutHalfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs, ours := net.Pipe()
		start := time.Now()
		End(ours, nil)
		if took := time.Since(start); took != 0 {
			t.Errorf("got an end after %v, want none of it", took)
		}
		_, _ = ours.Close(), theirs.Close()
	})
}
