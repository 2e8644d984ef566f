package clusterproxy

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// framed is an endpoint that speaks HTTP/2 without TLS, frame by frame.
type framed struct {
	*raw
	// requests counts those that came.
	requests atomic.Int32
}

// newFramed starts one that answers all requests but some, from the first on, which a function refuses. It says whether
// the connection goes on.
func newFramed(t *testing.T, first, refused int32, refuse func(f *http2.Framer, stream uint32) bool) *framed {
	t.Helper()
	b := new(framed)
	b.raw = newRaw(t, func(_ int, c net.Conn) {
		if _, err := io.CopyN(io.Discard, c, int64(len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(c, c)
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
				if n := b.requests.Add(1); n < first || n >= first+refused {
					respond(f, frame.StreamID)
				} else if !refuse(f, frame.StreamID) {
					return
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

// TestRefusedStreams checks that a request which an endpoint hasn't worked on, and has said so, reaches it once more, and
// not more often than that without a retry.
func TestRefusedStreams(t *testing.T) {
	refuse := func(f *http2.Framer, stream uint32) bool {
		return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream) == nil
	}
	leave := func(f *http2.Framer, stream uint32) bool {
		_ = f.WriteGoAway(max(stream, 2)-2, http2.ErrCodeNo, nil)
		return true
	}
	for _, tc := range []struct {
		name, method   string
		first, refused int32
		refuse         func(*http2.Framer, uint32) bool
		settings       object
		status         int
		// requests are those that the endpoint gets, accepted are its connections.
		requests, accepted int32
		said               string
	}{
		{"refused", "GET", 2, 1, refuse, nil, 200, 3, 1, "true10"},
		{"refused_post", "POST", 2, 1, refuse, nil, 200, 3, 1, "true10"},
		{"refused_at_first", "GET", 1, 1, refuse, nil, 200, 3, 1, "false10"},
		{"refused_twice", "GET", 2, 2, refuse, nil, 502, 3, 1, "true10"},
		{"refused_twice_with_a_retry", "GET", 2, 2, refuse, retryAll(nil), 200, 4, 1, "true21"},
		{"left", "GET", 2, 1, leave, nil, 200, 3, 2, "true20"},
		{"left_post", "POST", 2, 1, leave, nil, 200, 3, 2, "true20"},
		{"left_twice", "GET", 2, 2, leave, nil, 502, 3, 2, "true20"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newFramed(t, tc.first, tc.refused, tc.refuse)
			s := newSite(t, web([]string{b.address}, tc.settings), object{"transport": object{"protocol": "http", "versions": []string{"h2c"}}})
			s.get(t).want(t, http.StatusOK)
			s.do(t, tc.method, "").want(t, tc.status)
			if got := s.placeholder("replayed") + s.placeholder("attempts") + s.placeholder("retries"); got != tc.said {
				t.Errorf("got replayed, attempts and retries %s, want %s", got, tc.said)
			}
			if got := b.requests.Load(); got != tc.requests {
				t.Errorf("the endpoint got %d requests, want %d", got, tc.requests)
			}
			if got := b.accepted.Load(); got != tc.accepted {
				t.Errorf("got %d connections, want %d", got, tc.accepted)
			}
			s.idle(t)
		})
	}
}
