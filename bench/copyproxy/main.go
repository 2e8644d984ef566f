// Command copyproxy is the yardstick for forwarding without splice: it reads a ClientHello, dials one upstream and copies
// both ways through pooled buffers of 64 KiB. It does nothing else.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// bufferSize is the size at which plain copying stops getting much cheaper.
const bufferSize = 64 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

func main() {
	listen := flag.String("listen", "127.0.0.1:7301", "address")
	upstream := flag.String("upstream", "127.0.0.1:7001", "where to forward to")
	life := flag.Duration("life", 2*time.Hour, "exit after this time")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, "copyproxy:", err)
		os.Exit(1)
	}
	time.AfterFunc(*life, func() { listener.Close() })
	serve(listener, *upstream)
}

// serve forwards connections until the listener closes.
func serve(listener net.Listener, upstream string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer client.Close()
			_ = forward(client.(*net.TCPConn), upstream) // the client sees the close
		}()
	}
}

func forward(client *net.TCPConn, upstream string) error {
	hello, err := readRecord(client)
	if err != nil {
		return err
	}
	dialed, err := net.Dial("tcp", upstream)
	if err != nil {
		return err
	}
	defer dialed.Close()
	if _, err := dialed.Write(hello); err != nil {
		return err
	}
	server := dialed.(*net.TCPConn)
	var downstream sync.WaitGroup
	downstream.Go(func() { copyHalf(client, server) })
	copyHalf(server, client)
	downstream.Wait()
	return nil
}

// readRecord reads one TLS record.
func readRecord(from io.Reader) ([]byte, error) {
	const headerSize = 5
	record := make([]byte, headerSize)
	if _, err := io.ReadFull(from, record); err != nil {
		return nil, err
	}
	record = append(record, make([]byte, binary.BigEndian.Uint16(record[3:]))...)
	_, err := io.ReadFull(from, record[headerSize:])
	return record, err
}

// copyHalf copies until from ends and passes the end on. It hides the connections' own copy methods, which would splice.
func copyHalf(to, from *net.TCPConn) {
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buffer[:])
	if err != nil {
		_ = from.Close() // an abort of one side ends both
		_ = to.Close()
		return
	}
	_ = to.CloseWrite() // fails only if the other half has closed to
}
