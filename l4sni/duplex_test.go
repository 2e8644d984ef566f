package l4sni

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// The addresses of the connections in tests.
var (
	clientAddr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 40000}
	serverAddr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 443}
)

// duplex is one end of a connection in memory whose two directions end one by one, as those of TCP do.
type duplex struct {
	in, out       net.Conn
	local, remote net.Addr
	halfClosed    bool
	read          atomic.Int64 // bytes
}

// newDuplex returns both ends of a connection and closes them when the test ends.
func newDuplex(t *testing.T) (client, server *duplex) {
	t.Helper()
	upC, upS := net.Pipe()
	downC, downS := net.Pipe()
	client = &duplex{in: downC, out: upC, local: clientAddr, remote: serverAddr}
	server = &duplex{in: upS, out: downS, local: serverAddr, remote: clientAddr}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

// play runs the client's part. When the test ends, the client goes away and its part is waited for.
func play(t *testing.T, client *duplex, part func(*duplex)) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		part(client)
	}()
	t.Cleanup(func() {
		_ = client.Close()
		<-done
	})
}

func (d *duplex) Read(p []byte) (int, error) {
	n, err := d.in.Read(p)
	d.read.Add(int64(n))
	return n, err
}

func (d *duplex) Write(p []byte) (int, error) { return d.out.Write(p) }

func (d *duplex) Close() error { return errors.Join(d.in.Close(), d.out.Close()) }

func (d *duplex) CloseWrite() error {
	d.halfClosed = true
	return d.out.Close()
}

func (d *duplex) LocalAddr() net.Addr  { return d.local }
func (d *duplex) RemoteAddr() net.Addr { return d.remote }

// The deadlines of a pipe whose other end is closed can't be set, those of a TCP connection can.

func (d *duplex) SetDeadline(t time.Time) error {
	return errors.Join(d.SetReadDeadline(t), d.SetWriteDeadline(t))
}

func (d *duplex) SetReadDeadline(t time.Time) error {
	_ = d.in.SetReadDeadline(t)
	return nil
}

func (d *duplex) SetWriteDeadline(t time.Time) error {
	_ = d.out.SetWriteDeadline(t)
	return nil
}

// script is a connection that has its bytes ready and writes down what is asked of it.
type script struct {
	net.Conn             // nil: what is not scripted panics
	data        []byte   // what is left to read
	chunk       int      // the most that one read gives; 0: no limit
	end         error    // what comes behind data; io.EOF when nil
	withData    bool     // the end comes together with the last bytes
	deadlineErr error    // what SetReadDeadline returns
	local       net.Addr // serverAddr when nil
	remote      net.Addr // clientAddr when nil

	asked     []int // the room in each read
	deadlines []time.Time
}

func (s *script) Read(p []byte) (int, error) {
	s.asked = append(s.asked, len(p))
	end := s.end
	if end == nil {
		end = io.EOF
	}
	if len(s.data) == 0 {
		return 0, end
	}
	if s.chunk > 0 {
		p = p[:min(len(p), s.chunk)]
	}
	n := copy(p, s.data)
	if s.data = s.data[n:]; len(s.data) == 0 && s.withData {
		return n, end
	}
	return n, nil
}

func (s *script) SetReadDeadline(t time.Time) error {
	s.deadlines = append(s.deadlines, t)
	return s.deadlineErr
}

func (s *script) LocalAddr() net.Addr {
	if s.local == nil {
		return serverAddr
	}
	return s.local
}

func (s *script) RemoteAddr() net.Addr {
	if s.remote == nil {
		return clientAddr
	}
	return s.remote
}
