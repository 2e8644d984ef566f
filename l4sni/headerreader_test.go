package l4sni

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/modules/session"
)

// newHeaderReader returns a reader for the peers of these tests.
func newHeaderReader(t testing.TB, from ...string) (*HeaderReader, *observer.ObservedLogs) {
	t.Helper()
	r, err := NewHeaderReader(modules.Context(t), &ProxyProtocol{From: from})
	if err != nil {
		t.Fatal(err)
	}
	var logs *observer.ObservedLogs
	r.logger, logs = observed()
	return r, logs
}

// longHeader is a header of version 2 with this length.
func longHeader(length int) []byte {
	return proxyV2(1, "198.51.100.7:1234", "203.0.113.9:8443", make([]byte, length-28)...)
}

// TestHeaderReader checks what is left of a connection when its header was read: all but the header, of whatever
// protocol, with the client's address.
func TestHeaderReader(t *testing.T) {
	const peer, client = "192.0.2.1:40000", "198.51.100.7:1234"
	for _, tc := range []struct {
		name   string
		header []byte
		client string
	}{
		{"v1", []byte("PROXY TCP4 198.51.100.7 203.0.113.9 1234 8443\r\n"), client},
		{"v1_unknown", []byte("PROXY UNKNOWN\r\n"), peer},
		{"v2", proxyV2(1, client, "203.0.113.9:8443"), client},
		{"v2_ipv6", proxyV2(1, "[2001:db8::7]:1234", "[2001:db8::9]:8443"), "[2001:db8::7]:1234"},
		{"v2_tlvs", longHeader(400), client},
		{"v2_local", proxyV2(0, client, "203.0.113.9:8443"), peer},
		{"v2_as_long_as_may_be", longHeader(preread.DefaultMaxBytes), client},
	} {
		for _, behind := range []string{"", "GET / HTTP/1.1\r\n\r\n", string(longHello)} {
			for _, chunk := range []int{0, 1} {
				t.Run(fmt.Sprintf("%s/%d/%d", tc.name, len(behind), chunk), func(t *testing.T) {
					r, logs := newHeaderReader(t, "192.0.2.0/24")
					conn := &script{data: append(slices.Clone(tc.header), behind...), chunk: chunk}
					cx := layer4.WrapConnection(conn, nil, zap.NewNop())
					sess := session.Of(cx)
					before := count(t)
					got := r.Read(cx, sess)
					if got == nil {
						t.Fatalf("got the end of the connection: %v", sess.CloseReason())
					}
					if got.RemoteAddr().String() != tc.client || sess.Client.String() != tc.client || sess.Peer.String() != peer {
						t.Errorf("got client %v, %v in the session with peer %v, want %v and %v", got.RemoteAddr(), sess.Client, sess.Peer, tc.client, peer)
					}
					if !bytes.Equal(sess.ProxyHeader, tc.header) || sess.Preread || sess.Reason != preread.None {
						t.Errorf("got %d bytes of header, preread %v, reason %v", len(sess.ProxyHeader), sess.Preread, sess.Reason)
					}
					if stream, err := io.ReadAll(got); string(stream) != behind || err != nil {
						t.Errorf("got a stream of %d bytes, %v, want %d", len(stream), err, len(behind))
					}
					if want := []time.Time{sess.Start.Add(preread.DefaultTimeout), {}}; !slices.Equal(conn.deadlines, want) {
						t.Errorf("got deadlines %v, want %v", conn.deadlines, want)
					}
					checkCounts(t, before, counts{})
					if logs.Len() > 0 {
						t.Errorf("got log entries %v, want none", logs.All())
					}
				})
			}
		}
	}
}

// TestHeaderReaderOthers checks that nothing is read of a peer that is not in the list.
func TestHeaderReaderOthers(t *testing.T) {
	r, _ := newHeaderReader(t, "10.0.0.0/8")
	conn := &script{data: []byte("PROXY TCP4 198.51.100.7 203.0.113.9 1234 8443\r\n")}
	cx := layer4.WrapConnection(conn, nil, zap.NewNop())
	sess := session.Of(cx)
	if got := r.Read(cx, sess); got != cx || sess.ProxyHeader != nil || len(conn.asked)+len(conn.deadlines) > 0 {
		t.Errorf("got %d reads and header %q, want none", len(conn.asked), sess.ProxyHeader)
	}
}

// TestHeaderReaderRejects checks what ends a connection that must begin with a header: it is counted once, logged at
// Debug, and nothing is written to it.
func TestHeaderReaderRejects(t *testing.T) {
	header := proxyV2(1, "198.51.100.7:1234", "203.0.113.9:8443")
	for _, tc := range []struct {
		name   string
		data   []byte
		open   bool
		reason preread.Reason
		silent bool
	}{
		{"tls", hello("a.example.com"), true, preread.ProxyHeaderInvalid, false},
		{"http", []byte("GET / HTTP/1.1\r\n"), true, preread.ProxyHeaderInvalid, false},
		{"v1_without_end", []byte("PROXY TCP4 " + strings.Repeat("1", 200)), true, preread.ProxyHeaderInvalid, false},
		{"half_a_header", header[:20], true, preread.Fragmented, false},
		{"nothing", nil, true, preread.Fragmented, false},
		{"half_a_header_then_closed", header[:20], false, preread.FrontClosed, false},
		{"closed_without_a_byte", nil, false, preread.FrontClosed, true},
		{"too_long", longHeader(preread.DefaultMaxBytes + 1), true, preread.TooLarge, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, logs := newHeaderReader(t, "192.0.2.0/24")
				_, server := (&sending{bytes: tc.data, open: tc.open}).connect(t)
				cx := layer4.WrapConnection(server, nil, zap.NewNop())
				sess := session.Of(cx)
				before, start := count(t), time.Now()
				if r.Read(cx, sess) != nil {
					t.Fatal("got a connection, want its end")
				}
				want := counts{"duration_seconds": 1}
				if !tc.silent {
					want["rejected_total "+tc.reason.String()] = 1
				}
				checkCounts(t, before, want)
				checkQuiet(t, logs)
				if got := sess.CloseReason(); got != session.ForPreread(tc.reason) || logs.Len() != 1 {
					t.Errorf("got %v and %d log entries, want %v and 1", got, logs.Len(), session.ForPreread(tc.reason))
				}
				if got := time.Since(start); (got == preread.DefaultTimeout) != (tc.reason == preread.Fragmented) {
					t.Errorf("got the end after %v", got)
				}
			})
		})
	}
}

// TestHeaderReaderNoMemory checks that the header's window is one of those that share their memory.
func TestHeaderReaderNoMemory(t *testing.T) {
	r, logs := newHeaderReader(t, "192.0.2.0/24")
	taken := free(r.app) - windowSize
	r.app.TakePreread(taken)
	defer r.app.GivePreread(taken)
	for length, want := range map[int]session.CloseReason{windowSize: session.Open, windowSize + 1: session.AdmissionPrereadMemory} {
		cx := layer4.WrapConnection(&script{data: longHeader(length)}, nil, zap.NewNop())
		sess := session.Of(cx)
		r.Read(cx, sess)
		if got := sess.CloseReason(); got != want || logs.Len() > 0 {
			t.Errorf("header of %d bytes: got %v and log entries %v, want %v and none", length, got, logs.All(), want)
		}
		if got := free(r.app); got != windowSize {
			t.Errorf("got %d free, want %d", got, windowSize)
		}
	}
}

// TestHeaderReaderStopped stops a connection from outside while its header is awaited.
func TestHeaderReaderStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, logs := newHeaderReader(t, "192.0.2.0/24")
		_, server := newDuplex(t)
		cx := layer4.WrapConnection(server, nil, zap.NewNop())
		sess := session.Of(cx)
		done := make(chan *layer4.Connection)
		go func() { done <- r.Read(cx, sess) }()
		synctest.Wait()
		sess.Stop(session.Shutdown)
		if got := <-done; got != nil || sess.CloseReason() != session.Shutdown || logs.Len() > 0 {
			t.Errorf("got %v, %v and %d log entries, want the end, %v and none", got, sess.CloseReason(), logs.Len(), session.Shutdown)
		}
	})
}

// TestNewHeaderReader checks that a list of peers is demanded.
func TestNewHeaderReader(t *testing.T) {
	for _, p := range []*ProxyProtocol{{}, {From: []string{"10.0.0.0/33"}}} {
		if _, err := NewHeaderReader(modules.Context(t), p); err == nil || !strings.HasPrefix(err.Error(), "proxy_protocol.from: ") {
			t.Errorf("%v: got error %v, want one about proxy_protocol.from", p.From, err)
		}
	}
}
