package load

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"time"
)

// HelloOptions shape a ClientHello.
type HelloOptions struct {
	// ALPN lists the protocols offered.
	ALPN []string
	// Classic leaves the post-quantum key share out, which makes the hello about 300 bytes long instead of 1,500.
	Classic bool
}

// DefaultALPN is what a browser offers.
var DefaultALPN = []string{"h2", "http/1.1"}

// ClientHello returns the bytes that crypto/tls sends first to a server of this name.
func ClientHello(serverName string, o HelloOptions) []byte {
	config := &tls.Config{ServerName: serverName, NextProtos: o.ALPN}
	if o.Classic {
		config.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256}
	}
	sink := &captureConn{}
	_ = tls.Client(sink, config).Handshake() // always errCaptured: nobody answers
	return sink.written
}

var errCaptured = errors.New("the first flight is captured")

// captureConn keeps what is written and answers every read with errCaptured. The methods not given here are never called.
type captureConn struct {
	net.Conn
	written []byte
}

func (c *captureConn) Write(p []byte) (int, error) {
	c.written = append(c.written, p...)
	return len(p), nil
}

func (*captureConn) Read([]byte) (int, error)         { return 0, errCaptured }
func (*captureConn) Close() error                     { return nil }
func (*captureConn) SetDeadline(time.Time) error      { return nil }
func (*captureConn) SetReadDeadline(time.Time) error  { return nil }
func (*captureConn) SetWriteDeadline(time.Time) error { return nil }

// The commands of the package comment.
const (
	cmdDown byte = 'D'
	cmdUp   byte = 'U'
	cmdTiny byte = 'T'
	cmdEcho byte = 'E'
)

// commandSize is the length of a command: a letter and a 64-bit number.
const commandSize = 9

// command returns the hello followed by a command.
func command(hello []byte, cmd byte, n int64) []byte {
	message := make([]byte, 0, len(hello)+commandSize)
	message = append(message, hello...)
	message = append(message, cmd)
	return binary.BigEndian.AppendUint64(message, uint64(n))
}
