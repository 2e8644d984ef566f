package clusterproxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// The kinds of frames of WebSocket (RFC 6455 section 5.2).
const (
	textFrame   = 1
	binaryFrame = 2
	closeFrame  = 8
	pingFrame   = 9
	pongFrame   = 10
)

// frame returns a frame with a whole message. Those of clients are masked.
func frame(kind byte, masked bool, payload []byte) []byte {
	out := []byte{0x80 | kind}
	bit := byte(0)
	if masked {
		bit = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		out = append(out, bit|byte(n))
	case n <= 0xffff:
		out = binary.BigEndian.AppendUint16(append(out, bit|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, bit|127), uint64(n))
	}
	if !masked {
		return append(out, payload...)
	}
	mask := [4]byte{1, 2, 3, 4}
	out = append(out, mask[:]...)
	for i, c := range payload {
		out = append(out, c^mask[i%4])
	}
	return out
}

// readFrame reads a frame.
func readFrame(r io.Reader) (kind byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := uint64(head[1] & 0x7f)
	extra := map[uint64]int{126: 2, 127: 8}[n]
	if head[1]&0x80 != 0 {
		extra += 4
	}
	rest := make([]byte, extra)
	if _, err := io.ReadFull(r, rest); err != nil {
		return 0, nil, err
	}
	switch n {
	case 126:
		n, rest = uint64(binary.BigEndian.Uint16(rest)), rest[2:]
	case 127:
		n, rest = binary.BigEndian.Uint64(rest), rest[8:]
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r, payload)
	for i := range payload {
		if len(rest) > 0 {
			payload[i] ^= rest[i%4]
		}
	}
	return head[0] & 0x0f, payload, err
}

// talking is an endpoint that speaks WebSocket: it sends messages back, answers pings, and closes with the code it gets.
func talking(t testing.TB) *raw {
	t.Helper()
	return newRaw(t, func(_ int, c net.Conn) {
		in := bufio.NewReader(c)
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 %s\r\n\r\n", accepting)
		for {
			kind, payload, err := readFrame(in)
			if err != nil {
				return
			}
			if kind == pingFrame {
				kind = pongFrame
			}
			if _, err := c.Write(frame(kind, false, payload)); err != nil || kind == closeFrame {
				return
			}
		}
	})
}

// TestH51_Messages exchanges messages of all kinds and sizes, over one connection and over many at once.
func TestH51_Messages(t *testing.T) {
	b := talking(t)
	s := newSite(t, web([]string{b.address}, nil), nil)
	large := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // 1 MiB
	talk := func(t testing.TB, c io.Writer, in io.Reader) {
		t.Helper()
		for _, m := range []struct {
			sent, want byte
			payload    []byte
		}{
			{textFrame, textFrame, []byte("hello")},
			{textFrame, textFrame, nil},
			{binaryFrame, binaryFrame, []byte{0, 0xff, '\r', '\n', 0x80}},
			{pingFrame, pongFrame, []byte("ping")},
			{binaryFrame, binaryFrame, large[:300]},
			{binaryFrame, binaryFrame, large},
			{closeFrame, closeFrame, []byte("\x0f\xa1bye")}, // 4001
		} {
			go func() { _, _ = c.Write(frame(m.sent, true, m.payload)) }()
			kind, payload, err := readFrame(in)
			if err != nil || kind != m.want || !bytes.Equal(payload, m.payload) {
				t.Errorf("kind %d of %d bytes: got kind %d of %d, %v", m.sent, len(m.payload), kind, len(payload), err)
				return
			}
		}
		if got, err := io.ReadAll(in); len(got) > 0 || err != nil {
			t.Errorf("after the end: got %q, %v", got, err)
		}
	}
	t.Run("one", func(t *testing.T) {
		c, in, res := s.shake(t, wsHeaders...)
		if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Sec-WebSocket-Accept") != wsAccept {
			t.Fatalf("got %d with %v, want 101", res.StatusCode, res.Header)
		}
		talk(t, c, in)
		_ = c.Close()
		s.idle(t)
	})
	t.Run("many_at_once", func(t *testing.T) {
		var all sync.WaitGroup
		for range 20 {
			c, in, res := s.shake(t, wsHeaders...)
			if res.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("got %d, want 101", res.StatusCode)
			}
			all.Go(func() {
				_ = c.SetDeadline(time.Now().Add(4 * patience)) // all of them share the machine
				talk(t, c, in)
				_ = c.Close()
			})
		}
		all.Wait()
		s.idle(t)
	})
}

// TestH56_RefusedUpgrade checks that an answer to a request for WebSocket which isn't 101 is passed on as it is, and that the
// connection goes on.
func TestH56_RefusedUpgrade(t *testing.T) {
	for _, status := range []string{"403 Forbidden", "401 Unauthorized", "426 Upgrade Required", "200 OK", "302 Found"} {
		t.Run(status, func(t *testing.T) {
			address, requests := recording(t, lines("HTTP/1.1 "+status, "Connection: Upgrade", "Upgrade: websocket", "X-Why: no", "Content-Length: 4")+"sure")
			s := newSite(t, web([]string{address}, nil), nil)
			c := sites.Dial(t, s.Server)
			for range 2 {
				fmt.Fprint(c, lines(append([]string{"GET / HTTP/1.1", "Host: a.example"}, wsHeaders...)...))
				m, err := readMessage(c.Reader)
				if err != nil || m.line != "HTTP/1.1 "+status || m.body != "sure" {
					t.Fatalf("got %+v, %v, want %s", m, err, status)
				}
				checkHas(t, m.header, map[string][]string{"X-Why": {"no"}})
				checkAbsent(t, m.header, "Upgrade", "Connection")
				checkHas(t, (<-requests).header, map[string][]string{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}})
			}
			s.idle(t)
		})
	}
}

// TestH59_UpgradeWithBody sends a body with a request for WebSocket. Whatever the endpoint makes of it, the site goes on.
func TestH59_UpgradeWithBody(t *testing.T) {
	upgrade := strings.Join(wsHeaders, "\r\n")
	b := talking(t)
	refusing := newBackend(t, echo)
	for _, tc := range []struct{ name, method, framing, body string }{
		{"length", "GET", "Content-Length: 4", "body"},
		{"chunked", "GET", "Transfer-Encoding: chunked", "4\r\nbody\r\n0\r\n\r\n"},
		{"chunked_POST", "POST", "Transfer-Encoding: chunked", "4\r\nbody\r\n0\r\n\r\n"},
		{"body_that_does_not_come", "GET", "Content-Length: 4", ""},
		{"broken_chunks", "GET", "Transfer-Encoding: chunked", "zz\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, address := range []string{b.address, refusing.address} {
				s := newSite(t, web([]string{address}, nil), nil)
				c := sites.Dial(t, s.Server)
				fmt.Fprint(c, lines(tc.method+" / HTTP/1.1", "Host: a.example", upgrade, tc.framing)+tc.body)
				_ = c.Conn.(*net.TCPConn).CloseWrite()
				if m, err := readMessage(c.Reader); err == nil && !strings.HasPrefix(m.line, "HTTP/1.1 ") {
					t.Errorf("got %q", m.line)
				}
				_ = c.Close()
				s.idle(t)
				if address == refusing.address {
					if r := s.get(t); r.status != http.StatusOK {
						t.Errorf("the next request: got %d, want 200", r.status)
					}
				}
			}
		})
	}
}
