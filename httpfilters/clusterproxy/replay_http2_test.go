package clusterproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/caddy-sluice/sluice/modules/cluster"
)

// framed is an endpoint that speaks HTTP/2 without TLS, frame by frame.
type framed struct {
	*raw
	// requests counts those that came, got is how much came of the bodies of those that are answered.
	requests, got atomic.Int32
}

// newFramed starts one that answers all requests but some, from the first on, which a function refuses. It says whether
// the connection goes on.
func newFramed(t *testing.T, first, refused int32, refuse func(f *http2.Framer, stream uint32) bool) *framed {
	t.Helper()
	return newSecured(t, nil, first, refused, refuse)
}

// newSecured is newFramed with TLS, unless the config is nil.
func newSecured(t *testing.T, secured *tls.Config, first, refused int32, refuse func(f *http2.Framer, stream uint32) bool) *framed {
	t.Helper()
	b := new(framed)
	b.raw = newRaw(t, func(_ int, c net.Conn) {
		if secured != nil {
			c = tls.Server(c, secured)
		}
		// The transport may not know yet that a stream has ended when the test does, and keep the connection for minutes.
		defer context.AfterFunc(t.Context(), func() { _ = c.Close() })()
		if _, err := io.CopyN(io.Discard, c, int64(len(http2.ClientPreface))); err != nil {
			return
		}
		f, turnedDown := http2.NewFramer(c, c), make(map[uint32]bool)
		_ = f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.HeadersFrame:
				if n := b.requests.Add(1); n >= first && n < first+refused {
					if !refuse(f, frame.StreamID) {
						return
					}
					turnedDown[frame.StreamID] = true
				} else if frame.StreamEnded() {
					respond(f, frame.StreamID)
				}
			case *http2.DataFrame:
				if turnedDown[frame.StreamID] {
					continue
				}
				b.got.Add(int32(len(frame.Data())))
				if frame.StreamEnded() {
					respond(f, frame.StreamID)
				}
			}
		}
	})
	return b
}

// respond answers with 200.
func respond(f *http2.Framer, stream uint32) {
	var block bytes.Buffer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
}

// The ways in which an endpoint says that it hasn't worked on a request.
func refuseStream(f *http2.Framer, stream uint32) bool {
	return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream) == nil
}

func leave(f *http2.Framer, stream uint32) bool {
	_ = f.WriteGoAway(max(stream, 2)-2, http2.ErrCodeNo, nil)
	return true
}

// h2c are the options of a handler that speaks HTTP/2 without TLS.
func h2c() object {
	return object{"transport": object{"protocol": "http", "versions": []string{"h2c"}}}
}

// transportWait is how long Go's transport waits before it sends a request for the third time.
const transportWait = time.Second

// TestRefusedStreams checks that a request which an endpoint hasn't worked on, and has said so, reaches it once more at
// once, and not more often than that without a retry.
func TestRefusedStreams(t *testing.T) {
	for _, tc := range []struct {
		name, method, body string
		first, refused     int32
		refuse             func(*http2.Framer, uint32) bool
		settings           object
		status             int
		// requests are those that the endpoint gets, accepted are its connections.
		requests, accepted int32
		said               string
		failures           int
	}{
		{"refused", "GET", "", 2, 1, refuseStream, nil, 200, 3, 2, "true20", 0},
		{"refused_post", "POST", "", 2, 1, refuseStream, nil, 200, 3, 2, "true20", 0},
		{"refused_body", "POST", "hello", 2, 1, refuseStream, nil, 200, 3, 2, "true20", 0},
		{"refused_at_first", "GET", "", 1, 1, refuseStream, nil, 200, 3, 2, "false10", 0},
		{"refused_twice", "GET", "", 2, 2, refuseStream, nil, 502, 3, 2, "true20", 1},
		{"refused_body_twice", "POST", "hello", 2, 2, refuseStream, nil, 502, 3, 2, "true20", 1},
		{"refused_twice_with_a_retry", "GET", "", 2, 2, refuseStream, retryAll(nil), 200, 4, 2, "true31", 0},
		{"refused_body_twice_with_a_retry", "POST", "hello", 2, 2, refuseStream, retryAll(nil), 200, 4, 2, "true31", 0},
		{"left", "GET", "", 2, 1, leave, nil, 200, 3, 2, "true20", 0},
		{"left_post", "POST", "", 2, 1, leave, nil, 200, 3, 2, "true20", 0},
		{"left_body", "POST", "hello", 2, 1, leave, nil, 200, 3, 2, "true20", 0},
		{"left_twice", "GET", "", 2, 2, leave, nil, 502, 3, 2, "true20", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newFramed(t, tc.first, tc.refused, tc.refuse)
			s := newSite(t, web([]string{b.address}, with(object{"passive": object{"fall": 9}}, tc.settings)), h2c())
			s.get(t).want(t, http.StatusOK)
			begin := time.Now()
			s.do(t, tc.method, tc.body).want(t, tc.status)
			if took := time.Since(begin); took >= transportWait {
				t.Errorf("it took %v, want less than %v", took, transportWait)
			}
			if got := s.placeholder("replayed") + s.placeholder("attempts") + s.placeholder("retries"); got != tc.said {
				t.Errorf("got replayed, attempts and retries %s, want %s", got, tc.said)
			}
			if got := b.requests.Load(); got != tc.requests {
				t.Errorf("the endpoint got %d requests, want %d", got, tc.requests)
			}
			// On a busy machine the transport makes one that no request needs: the one in the pool is free while it dials.
			if got := b.accepted.Load(); got != tc.accepted && got != tc.accepted+1 {
				t.Errorf("got %d connections, want %d", got, tc.accepted)
			}
			if got := int(b.got.Load()); tc.status == http.StatusOK && got != len(tc.body) {
				t.Errorf("the endpoint got %d bytes, want %d", got, len(tc.body))
			}
			if got := failuresOf(t, b.address); got != tc.failures {
				t.Errorf("got a streak of %d failures, want %d", got, tc.failures)
			}
			s.idle(t)
		})
	}
}

// TestRefusedWithTLS checks the same with TLS, where Go's transport learns on the way that this is HTTP/2.
func TestRefusedWithTLS(t *testing.T) {
	certificates := secure(t, false, echo).TLS.Certificates
	for name, refuse := range map[string]func(*http2.Framer, uint32) bool{"refused": refuseStream, "left": leave} {
		for _, body := range []string{"", "hello"} {
			t.Run(name+" "+body, func(t *testing.T) {
				b := newSecured(t, &tls.Config{Certificates: certificates, NextProtos: []string{"h2"}}, 2, 1, refuse)
				s := newSite(t, web([]string{b.address}, nil), object{
					"transport": object{"protocol": "http", "tls": object{"insecure_skip_verify": true}},
				})
				for range 2 {
					s.do(t, http.MethodPost, body).want(t, http.StatusOK)
				}
				if got := s.placeholder("replayed") + s.placeholder("attempts") + s.placeholder("retries"); got != "true20" {
					t.Errorf("got replayed, attempts and retries %s, want true20", got)
				}
				if got := b.requests.Load(); got != 3 {
					t.Errorf("the endpoint got %d requests, want 3", got)
				}
				s.idle(t)
			})
		}
	}
}

// TestRefusedUpload checks what becomes of a body that is too long to be kept: it is sent again if none of it was read.
// If it can't be, the endpoint isn't to blame.
func TestRefusedUpload(t *testing.T) {
	late := func(f *http2.Framer, stream uint32) bool {
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return false
			}
			if _, ok := frame.(*http2.DataFrame); ok {
				return refuseStream(f, stream)
			}
		}
	}
	b := newFramed(t, 1, 1, late)
	s := newSite(t, web([]string{b.address}, with(object{"passive": object{"fall": 9}}, retryAll(nil))), h2c())
	s.do(t, http.MethodPost, strings.Repeat("x", 100_000)).want(t, http.StatusBadGateway)
	if got := b.requests.Load(); got != 1 {
		t.Errorf("the endpoint got %d requests, want 1", got)
	}
	if got := failuresOf(t, b.address); got != 0 {
		t.Errorf("got a streak of %d failures, want 0", got)
	}
	s.idle(t)
}

// TestProtocolError checks that a request which the endpoint may have worked on isn't sent again.
func TestProtocolError(t *testing.T) {
	for _, body := range []string{"", "hello"} {
		b := newFramed(t, 1, 1, func(f *http2.Framer, stream uint32) bool {
			return f.WriteRSTStream(stream, http2.ErrCodeProtocol) == nil
		})
		s := newSite(t, web([]string{b.address}, nil), h2c())
		s.do(t, http.MethodPost, body).want(t, http.StatusBadGateway)
		if got := b.requests.Load(); got != 1 {
			t.Errorf("body %q: the endpoint got %d requests, want 1", body, got)
		}
	}
}

// TestRefusedAfterEarlyHints checks that nothing is sent again once the client has got some of an answer.
func TestRefusedAfterEarlyHints(t *testing.T) {
	for _, body := range []string{"", "hello"} {
		b := newFramed(t, 1, 1, func(f *http2.Framer, stream uint32) bool {
			var block bytes.Buffer
			encoder := hpack.NewEncoder(&block)
			_ = encoder.WriteField(hpack.HeaderField{Name: ":status", Value: "103"})
			_ = encoder.WriteField(hpack.HeaderField{Name: "link", Value: "<a>"})
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true})
			return refuseStream(f, stream)
		})
		s := newSite(t, web([]string{b.address}, retryAll(nil)), h2c())
		s.do(t, http.MethodPost, body).want(t, http.StatusBadGateway)
		if got := b.requests.Load(); got != 1 {
			t.Errorf("body %q: the endpoint got %d requests, want 1", body, got)
		}
		if got := s.placeholder("replayed") + s.placeholder("retries"); got != "false0" {
			t.Errorf("body %q: got replayed and retries %s, want false0", body, got)
		}
	}
}

// TestRefusedAndDrained checks that a request which was refused doesn't go back to an endpoint that was taken out in the
// meantime.
func TestRefusedAndDrained(t *testing.T) {
	for _, body := range []string{"", "hello"} {
		var drained string
		b := newFramed(t, 1, 1, func(f *http2.Framer, stream uint32) bool {
			if err := cluster.Override("web", drained, cluster.Change{State: "drain"}); err != nil {
				t.Error(err)
			}
			return refuseStream(f, stream)
		})
		drained = b.address
		live := newFramed(t, 0, 0, nil)
		s := newSite(t, web([]string{b.address, live.address}, nil), h2c())
		s.do(t, http.MethodPost, body).want(t, http.StatusOK)
		if old, other := b.requests.Load(), live.requests.Load(); old != 1 || other != 1 {
			t.Errorf("body %q: the endpoints got %d and %d requests, want 1 each", body, old, other)
		}
		s.idle(t)
	}
}
