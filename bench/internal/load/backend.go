package load

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// headerSize is the length of a TLS record header: type, version, length (RFC 8446 §5.1).
const headerSize = 5

// backendBuffer holds a record header, a hello and a command. It is small because it stays for the connection's life.
const backendBuffer = 4096

// Serve answers the commands of clients until the listener closes. A connection lasts as long as its client or proxy keeps
// it open; nobody waits for it.
func Serve(listener net.Listener) error {
	for {
		c, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_ = serveConn(c) // the client sees the close, and counts it
		}()
	}
}

func serveConn(c net.Conn) error {
	reader := bufio.NewReaderSize(c, backendBuffer)
	cmd, n, err := readCommand(reader)
	if err != nil {
		return err
	}
	switch cmd {
	case cmdDown:
		return fill(c, n)
	case cmdUp:
		return receive(c, n-int64(reader.Buffered()))
	case cmdTiny:
		return replyAndWait(c, n)
	case cmdEcho:
		return echo(c, reader)
	}
	return fmt.Errorf("unknown command %q", cmd)
}

// readCommand skips the ClientHello, which is one TLS record, and reads the command behind it.
func readCommand(reader *bufio.Reader) (cmd byte, n int64, err error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(reader, header[:]); err != nil {
		return 0, 0, err
	}
	const handshake = 0x16
	if header[0] != handshake {
		return 0, 0, fmt.Errorf("first byte %#x, want %#x", header[0], handshake)
	}
	if _, err := reader.Discard(int(binary.BigEndian.Uint16(header[3:]))); err != nil {
		return 0, 0, err
	}
	var message [commandSize]byte
	if _, err := io.ReadFull(reader, message[:]); err != nil {
		return 0, 0, err
	}
	return message[0], int64(binary.BigEndian.Uint64(message[1:])), nil
}

// receive takes in what is still to come and confirms it.
func receive(c net.Conn, n int64) error {
	if _, err := discard(c, n); err != nil {
		return err
	}
	_, err := c.Write([]byte{1})
	return err
}

// replyAndWait sends n bytes and then waits for the client to close, so that the client always closes first.
func replyAndWait(c net.Conn, n int64) error {
	if err := fill(c, n); err != nil {
		return err
	}
	var one [1]byte
	_, err := c.Read(one[:])
	return err
}

func echo(c net.Conn, reader *bufio.Reader) error {
	buffer := make([]byte, 16<<10)
	for {
		n, err := reader.Read(buffer)
		if err != nil {
			return err
		}
		if _, err := c.Write(buffer[:n]); err != nil {
			return err
		}
	}
}
