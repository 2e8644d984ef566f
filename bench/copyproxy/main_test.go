package main

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// TestServe sends a record and more through the proxy to an upstream that answers with what it got, after the end.
func TestServe(t *testing.T) {
	upstream, proxy := listen(t), listen(t)
	go serve(proxy, upstream.Addr().String())
	go func() {
		c, err := upstream.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if got, err := io.ReadAll(c); err == nil {
			c.Write(got)
		}
	}()
	client, err := net.DialTCP("tcp", nil, proxy.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.SetDeadline(time.Now().Add(10 * time.Second))
	sent := append([]byte{22, 3, 1, 0, 4, 'a', 'b', 'c', 'd'}, bytes.Repeat([]byte("0123456789"), bufferSize/4)...)
	if _, err := client.Write(sent); err != nil {
		t.Fatal(err)
	}
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(client)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("got %d bytes back, %v, want the %d sent", len(got), err, len(sent))
	}
}

func TestReadRecord(t *testing.T) {
	record := []byte{22, 3, 1, 0, 3, 1, 2, 3}
	got, err := readRecord(bytes.NewReader(append(bytes.Clone(record), 9, 9)))
	if err != nil || !bytes.Equal(got, record) {
		t.Errorf("got %v, %v, want %v", got, err, record)
	}
	for cut := range record {
		if _, err := readRecord(bytes.NewReader(record[:cut])); err == nil {
			t.Errorf("cut at %d: got no error", cut)
		}
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
