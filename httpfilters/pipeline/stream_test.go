package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/encode"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode/gzip" // is loaded by its name
)

// Events reach the client one by one, and so do the messages of a stream in both directions.
func TestEventsAtTheirPace(t *testing.T) {
	for name, wish := range map[string]Wish{"none": {}, "read": streamed, "write": writing} {
		t.Run(name, func(t *testing.T) {
			s := newSiteBoth(t, newHandler(t, onBodies("f", wish, idle), entry{name: "h", response: onResponse(func(*Exchange) error { return nil })}))
			next := make(chan struct{}, 1)
			gone := make(chan error, 1)
			s.backend = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				control := http.NewResponseController(w)
				for i := range 3 {
					if err := control.Flush(); err != nil {
						t.Error(err)
					}
					<-next
					fmt.Fprintf(w, "data: %d\n\n", i)
				}
				_ = control.Flush()
				<-r.Context().Done() // the client has had enough
				gone <- r.Context().Err()
			}
			byVersion(t, func(t *testing.T, client *http.Client) {
				ctx, cancel := cancelled(t)
				res, err := client.Do(s.request(t, http.MethodGet, "").WithContext(ctx)) // the header comes before anything else
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				for i := range 3 {
					next <- struct{}{} // an event is sent only after the one before has come
					want := fmt.Sprintf("data: %d\n\n", i)
					got := make([]byte, len(want))
					if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
						t.Errorf("got %q and %v", got, err)
					}
				}
				cancel()
				within(t, "the backend", gone)
			})
			s.idle(t)
		})
	}
}

// A stream in both directions: each message is answered before the next is sent.
func TestBothDirections(t *testing.T) {
	for name, wish := range map[string]Wish{"read": streamed, "write": writing} {
		t.Run(name, func(t *testing.T) {
			s := newSiteBoth(t, newHandler(t, onBodies("f", wish, upperIf(wish))))
			s.backend = func(w http.ResponseWriter, r *http.Request) {
				control := http.NewResponseController(w)
				if err := control.EnableFullDuplex(); err != nil {
					t.Error(err)
				}
				w.Header().Set("Trailer", "Grpc-Status")
				_ = control.Flush()
				for buf := make([]byte, 100); ; {
					n, err := r.Body.Read(buf)
					_, _ = w.Write(buf[:n])
					_ = control.Flush()
					if err != nil {
						if !errors.Is(err, io.EOF) {
							t.Error(err)
						}
						break
					}
				}
				w.Header().Set("Grpc-Status", "0")
			}
			byVersion(t, func(t *testing.T, client *http.Client) {
				r, w := io.Pipe()
				req := s.request(t, http.MethodPost, "")
				req.Body, req.ContentLength = r, -1
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				for range 3 {
					_, _ = io.WriteString(w, "ping")
					got := make([]byte, 4)
					if _, err := io.ReadFull(res.Body, got); err != nil || !strings.EqualFold(string(got), "ping") {
						t.Fatalf("got %q and %v", got, err)
					}
				}
				w.Close()
				if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil || res.Trailer.Get("Grpc-Status") != "0" {
					t.Errorf("got %q, %v, trailers %v", rest, err, res.Trailer)
				}
			})
		})
	}
}

// upperIf is upper for filters that write.
func upperIf(wish Wish) func(*Exchange, *Chunk) (Action, error) {
	if wish.Access == ReadWrite {
		return upper
	}
	return idle
}

// H64: trailers are kept in both directions, announced or not, however the body passes; what they say of bytes that have
// changed isn't.
func TestH64_Trailers(t *testing.T) {
	for name, wish := range map[string]Wish{"none": {}, "stream": streamed, "write": writing, "buffer": buffered, "whole": rewrite} {
		t.Run(name, func(t *testing.T) {
			s := newSiteBoth(t, newHandler(t, onBodies("f", wish, upperIf(wish))))
			kept := wish.Access != ReadWrite
			s.backend = func(w http.ResponseWriter, r *http.Request) {
				announced := r.Header.Get("X-Late") == ""
				if announced {
					w.Header().Set("Trailer", "X-Announced, Digest")
				}
				body, err := io.ReadAll(r.Body)
				if err != nil || r.Trailer.Get("X-Sum") != "1" || (r.Trailer.Get("Digest") != "") != kept {
					t.Errorf("got %v, trailers %v", err, r.Trailer)
				}
				_, _ = w.Write(body)
				if announced {
					w.Header().Set("X-Announced", "a")
					w.Header().Set("Digest", "d")
				}
				w.Header().Set(http.TrailerPrefix+"X-Late", "l")
				w.Header().Set(http.TrailerPrefix+"Repr-Digest", "d")
			}
			byVersion(t, func(t *testing.T, client *http.Client) {
				for _, body := range []string{"hello", "", strings.Repeat("x", 100000)} {
					req := s.request(t, http.MethodPost, body, "chunked")
					req.Trailer = http.Header{"X-Sum": {"1"}, "Digest": {"d"}}
					res := do(t, client, req)
					if !strings.EqualFold(res.body, body) || res.err != nil {
						t.Errorf("got %d bytes and %v", len(res.body), res.err)
					}
					want := http.Header{"X-Announced": {"a"}, "X-Late": {"l"}}
					if kept {
						want["Digest"], want["Repr-Digest"] = []string{"d"}, []string{"d"}
					}
					got := maps.Clone(res.Trailer)
					maps.DeleteFunc(got, func(_ string, values []string) bool { return len(values) == 0 })
					if fmt.Sprint(got) != fmt.Sprint(want) || res.Header.Get("X-Announced") != "" {
						t.Errorf("%d bytes: got trailers %v, want %v, header %v", len(body), got, want, res.Header)
					}
					if wish.Mode != Buffer { // or the server gives a short answer a length, and has no place for trailers
						continue
					}
					req = s.request(t, http.MethodPost, body, "chunked", "X-Late: 1")
					req.Trailer = http.Header{"X-Sum": {"1"}, "Digest": {"d"}}
					if res := do(t, client, req); res.Trailer.Get("X-Late") != "l" {
						t.Errorf("%d bytes: got trailers %v, which weren't announced", len(body), res.Trailer)
					}
				}
			})
			s.idle(t)
		})
	}
}

const asking = "GET / HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n\n"

// H57: filters see nothing of what follows an upgrade. H58: those for the header can refuse it.
func TestH57_Upgrade(t *testing.T) {
	called := make(chan string, 10)
	hook := func(_ *Exchange, c *Chunk) (Action, error) {
		called <- string(c.Bytes())
		return Continue, nil
	}
	statuses := make(chan int, 10)
	limited := false
	end, over := ended()
	s := newSite(t, newHandler(t, end, entry{name: "limit", request: onRequest(func(*Exchange) error {
		if limited {
			return Reject(http.StatusTooManyRequests, errors.New("too many"))
		}
		return nil
	}), response: onResponse(func(x *Exchange) error { statuses <- x.Response().Status; return nil })}, onBodies("f", rewrite, hook)))
	s.next = func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "WebSocket")
		w.Header().Set("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
		w.WriteHeader(http.StatusSwitchingProtocols)
		control := http.NewResponseController(w)
		_ = control.Flush()
		conn, in, err := control.Hijack()
		if err != nil {
			return err
		}
		defer conn.Close()
		line, err := in.ReadString('\n')
		_, _ = io.WriteString(conn, line)
		return err
	}
	c := s.wire(t)
	c.write(asking)
	if res := c.answer(http.MethodGet); res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got status %d", res.StatusCode)
	}
	c.write("hello\n")
	if line, err := c.Reader.ReadString('\n'); line != "hello\r\n" || err != nil {
		t.Errorf("got %q and %v", line, err)
	}
	c.closed()
	if err := within(t, "the log", over); err != nil {
		t.Error(err)
	}
	if got := within(t, "the status", statuses); got != http.StatusSwitchingProtocols {
		t.Errorf("got status %d at the filter", got)
	}
	if got := within(t, "the empty body of the request", called); got != "" || len(called) > 0 {
		t.Errorf("got %q at the filter, and %d more", got, len(called))
	}
	limited = true
	c = s.wire(t)
	c.write(asking)
	if res := c.answer(http.MethodGet); res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("got status %d, want 429", res.StatusCode)
	}
	within(t, "the log", over)
}

// An answer that switches protocols without having been asked is 502, and nobody gets round that by taking the connection.
func TestInvalidSwitch(t *testing.T) {
	const plain = "GET / HTTP/1.1\nHost: a\n\n"
	for name, c := range map[string]struct{ request, upgrade, accept string }{
		"not asked for":      {plain, "websocket", "x"},
		"another protocol":   {asking, "h2c", "x"},
		"no protocol":        {asking, "", "x"},
		"no key":             {asking, "websocket", ""},
		"asked for in a way": {strings.Replace(asking, "Upgrade: websocket\n", "", 1), "websocket", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			end, over := ended()
			s := newSite(t, newHandler(t, end))
			s.next = func(w http.ResponseWriter, _ *http.Request) error {
				for name, value := range map[string]string{"Upgrade": c.upgrade, "Sec-Websocket-Accept": c.accept, "Connection": "Upgrade"} {
					if value != "" {
						w.Header().Set(name, value)
					}
				}
				w.WriteHeader(http.StatusSwitchingProtocols)
				if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
					conn.Close()
					t.Error("the connection was handed over")
				}
				return nil
			}
			check := watchCounts(t)
			conn := s.wire(t)
			conn.write(c.request)
			if res := conn.whole(http.MethodGet); res.StatusCode != http.StatusBadGateway || res.Header.Get("Upgrade") != "" {
				t.Errorf("got status %d %v", res.StatusCode, res.Header)
			}
			check("response_invalid 1")
			if err := within(t, "the log", over); err == nil {
				t.Error("the log phase has no error")
			}
		})
	}
}

// The connection is handed over to who asks before there is an answer, and not past one that is held back.
func TestHijack(t *testing.T) {
	for name, held := range map[string]bool{"fresh": false, "held": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, newHandler(t, entry{name: "f", responseBody: onResponseBody{buffered, idle}}))
			s.backend = func(w http.ResponseWriter, _ *http.Request) {
				if held {
					_, _ = io.WriteString(w, "ok")
				}
				conn, _, err := http.NewResponseController(w).Hijack()
				if (err == nil) == held {
					t.Errorf("got %v", err)
				}
				if err == nil {
					defer conn.Close()
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			}
			for range 3 {
				c := s.wire(t)
				c.write("GET / HTTP/1.1\nHost: a\n\n")
				if res := c.whole(http.MethodGet); res.StatusCode != http.StatusOK || res.body != "ok" {
					t.Errorf("got status %d %q", res.StatusCode, res.body)
				}
			}
			s.idle(t)
		})
	}
}

// Whatever a handler can do with the server's writer it can do with ours.
func TestControls(t *testing.T) {
	s := newSite(t, newHandler(t, onBodies("f", streamed, idle)))
	s.backend = func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		server := r.Context().Value(http.ServerContextKey).(*http.Server)
		if err := errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{}), control.EnableFullDuplex(), control.Flush()); err != nil || server == nil {
			t.Error(err)
		}
	}
	if res := post(t, s, "hello"); res.StatusCode != http.StatusOK {
		t.Errorf("got status %d", res.StatusCode)
	}
}

// The stream of another protocol in a request (RFC 8441) is no body, but nobody gets past filters for bodies by a method.
func TestTunnels(t *testing.T) {
	for _, c := range []struct {
		method string
		major  int
		header http.Header
		want   bool
	}{
		{"CONNECT", 2, http.Header{":protocol": {"websocket"}}, true},
		{"CONNECT", 2, nil, false},
		{"CONNECT", 1, nil, false},
		{"GET", 2, http.Header{":protocol": {"websocket"}}, false},
	} {
		if got := isTunnel(&http.Request{Method: c.method, ProtoMajor: c.major, Header: c.header}); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

// encodeHandler returns Caddy's handler that compresses.
func encodeHandler(t *testing.T) *encode.Encode {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	e := &encode.Encode{EncodingsRaw: caddy.ModuleMap{"gzip": []byte("{}")}, MinLength: 1}
	if err := errors.Join(e.Provision(ctx), e.Validate()); err != nil {
		t.Fatal(err)
	}
	return e
}

// Filters see what the backend sent, on whichever side of them answers are compressed.
func TestEncode(t *testing.T) {
	e := encodeHandler(t)
	for name, wish := range map[string]Wish{"write": writing, "whole": rewrite} {
		for _, outside := range []bool{true, false} {
			t.Run(fmt.Sprint(name, outside), func(t *testing.T) {
				s := newSiteBoth(t, newHandler(t, onBodies("f", wish, upper)))
				backend := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
					w.Header().Set("Content-Type", "text/plain")
					w.Header().Set("Content-Length", "5")
					_, err := io.WriteString(w, "hello")
					return err
				})
				handler := s.handler
				s.handler = newHandler(t) // passes by
				s.next = func(w http.ResponseWriter, r *http.Request) error {
					if outside {
						return e.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
							return handler.ServeHTTP(w, r, backend)
						}))
					}
					return handler.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
						return e.ServeHTTP(w, r, backend)
					}))
				}
				byVersion(t, func(t *testing.T, client *http.Client) {
					res := s.send(t, client, http.MethodGet, "", "Accept-Encoding: gzip")
					encoding, body := "", res.body
					if outside {
						encoding, body = "gzip", unzipped(t, body)
					}
					if res.Header.Get("Content-Encoding") != encoding || res.err != nil || body != "HELLO" {
						t.Errorf("got %v, %q, %v", res.Header, body, res.err)
					}
				})
			})
		}
	}
}
