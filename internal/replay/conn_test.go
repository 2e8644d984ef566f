package replay

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

// stream is a connection that gives its bytes and takes what is written. It counts the reads.
type stream struct {
	net.Conn
	from  io.Reader
	to    bytes.Buffer
	reads int
}

func (s *stream) Read(p []byte) (int, error) {
	s.reads++
	return s.from.Read(p)
}

func (s *stream) Write(p []byte) (int, error) { return s.to.Write(p) }
func (s *stream) RemoteAddr() net.Addr        { return &net.TCPAddr{Port: 1} }
func (s *stream) LocalAddr() net.Addr         { return &net.TCPAddr{Port: 2} }

// fast is a stream with ways of its own.
type fast struct {
	stream
	readFrom   int
	closeWrite error
}

func (f *fast) ReadFrom(r io.Reader) (int64, error) {
	f.readFrom++
	return f.to.ReadFrom(r)
}

func (f *fast) CloseWrite() error { return f.closeWrite }

// TestRead checks that the stream is the same wherever it is cut, and however it is read.
func TestRead(t *testing.T) {
	const text = "pending and rest"
	for n := range len(text) + 1 {
		c := New(&stream{from: strings.NewReader(text[n:])}, []byte(text[:n]))
		if err := iotest.TestReader(c, []byte(text)); err != nil {
			t.Errorf("%d bytes pending: %v", n, err)
		}
	}
}

// TestReadDoesNotWait checks that a read which pending bytes can answer does not touch the connection, which might
// have nothing for a long time.
func TestReadDoesNotWait(t *testing.T) {
	inner := &stream{from: iotest.ErrReader(io.ErrUnexpectedEOF)}
	c := New(inner, []byte("abc"))
	buf := make([]byte, 10)
	if n, err := c.Read(buf[:2]); string(buf[:n]) != "ab" || err != nil {
		t.Errorf("got %q, %v, want ab", buf[:n], err)
	}
	if n, err := c.Read(buf); string(buf[:n]) != "c" || err != nil || inner.reads != 0 {
		t.Errorf("got %q, %v and %d reads of the connection, want c and 0", buf[:n], err, inner.reads)
	}
	if _, err := c.Read(buf); err != io.ErrUnexpectedEOF {
		t.Errorf("got %v, want the connection's error", err)
	}
}

// TestTake checks that Take gives what was not read, once.
func TestTake(t *testing.T) {
	c := New(&stream{from: strings.NewReader("rest")}, []byte("pending"))
	if _, err := io.ReadFull(c, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if got := string(c.Take()); got != "ding" {
		t.Errorf("got %q, want ding", got)
	}
	if got := c.Take(); len(got) != 0 {
		t.Errorf("got %q the second time, want nothing", got)
	}
	if got, err := io.ReadAll(c); string(got) != "rest" || err != nil {
		t.Errorf("got %q, %v, want rest", got, err)
	}
}

// TestAddrs checks which addresses the connection answers with.
func TestAddrs(t *testing.T) {
	own := &stream{}
	other := &net.TCPAddr{Port: 9}
	for _, tc := range []struct {
		remote, local         net.Addr
		wantRemote, wantLocal string
	}{
		{nil, nil, ":1", ":2"},
		{other, nil, ":9", ":2"},
		{nil, other, ":1", ":9"},
		{other, other, ":9", ":9"},
	} {
		c := New(own, nil)
		c.SetAddrs(tc.remote, tc.local)
		if got := c.RemoteAddr().String(); got != tc.wantRemote {
			t.Errorf("got remote %v, want %v", got, tc.wantRemote)
		}
		if got := c.LocalAddr().String(); got != tc.wantLocal {
			t.Errorf("got local %v, want %v", got, tc.wantLocal)
		}
	}
}

// TestReadFrom checks that bulk writes go the connection's own way, if it has one, and that they don't loop if not.
func TestReadFrom(t *testing.T) {
	quick := new(fast)
	if n, err := New(quick, []byte("pending")).ReadFrom(strings.NewReader("bulk")); n != 4 || err != nil || quick.to.String() != "bulk" {
		t.Errorf("got %d, %v and %q, want bulk", n, err, quick.to.String())
	}
	if quick.readFrom != 1 {
		t.Errorf("got %d calls of ReadFrom, want 1", quick.readFrom)
	}
	slow := new(stream)
	if n, err := New(slow, nil).ReadFrom(strings.NewReader("bulk")); n != 4 || err != nil || slow.to.String() != "bulk" {
		t.Errorf("got %d, %v and %q, want bulk", n, err, slow.to.String())
	}
}

// TestCloseWrite checks that a half-close reaches the connection, or says that it can't.
func TestCloseWrite(t *testing.T) {
	failure := errors.New("failure")
	for _, want := range []error{nil, failure} {
		if got := New(&fast{closeWrite: want}, nil).CloseWrite(); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if got := New(new(stream), nil).CloseWrite(); !errors.Is(got, errors.ErrUnsupported) {
		t.Errorf("got %v, want %v", got, errors.ErrUnsupported)
	}
}
