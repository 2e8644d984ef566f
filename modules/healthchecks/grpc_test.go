package healthchecks

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/quick"

	"github.com/caddy-sluice/sluice/internal/testkit/conns"
)

// frame puts the prefix before a message.
func frame(message string) string {
	prefix := make([]byte, prefixLength)
	binary.BigEndian.PutUint32(prefix[1:], uint32(len(message)))
	return string(prefix) + message
}

// serving is the message that says so.
const serving = "\x08\x01"

// calls is a server for gRPC. It tells what it was asked.
type calls struct {
	answer func(http.ResponseWriter)
	seen   chan *http.Request
	body   chan string
}

// newCalls starts a server that speaks HTTP/2, with TLS or without.
func newCalls(t *testing.T, secure bool, answer func(http.ResponseWriter)) (*calls, net.Addr) {
	t.Helper()
	c := &calls{answer, make(chan *http.Request, 100), make(chan string, 100)}
	server := httptest.NewUnstartedServer(c)
	t.Cleanup(server.Close)
	server.EnableHTTP2 = secure
	if secure {
		server.StartTLS()
	} else {
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		server.Start()
	}
	return c, server.Listener.Addr()
}

func (c *calls) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.body <- string(body)
	c.seen <- r
	w.Header().Set("Content-Type", "application/grpc+proto")
	c.answer(w)
}

// says0 answers a body with the status 0, as gRPC does: in the trailer.
func says0(body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, body)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}
}

// fields answers with header fields alone.
func fields(status int, pairs ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(pairs); i += 2 {
			w.Header().Set(pairs[i], pairs[i+1])
		}
		w.WriteHeader(status)
	}
}

// TestGRPC checks which answers pass.
func TestGRPC(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer func(http.ResponseWriter)
		err    string
	}{
		{"serving", says0(frame(serving)), ""},
		{"not_serving", says0(frame("\x08\x02")), "the service is not serving: status 2"},
		{"unknown", says0(frame("\x08\x00")), "the service is not serving: status 0"},
		{"service_unknown", says0(frame("\x08\x03")), "the service is not serving: status 3"},
		{"empty_message", says0(frame("")), "the service is not serving: status 0"},
		{"more_fields", says0(frame("\x12\x03abc\x1d1234\x21" + "12345678" + serving + "\x28\x01")), ""},
		{"last_one_counts", says0(frame(serving + "\x08\x02")), "status 2"},
		{"no_message", says0(""), "decoding answer: got 0 bytes, want one message"},
		{"two_messages", says0(frame(serving) + frame(serving)), "want one message"},
		{"cut", says0(frame(serving)[:6]), "want one message"},
		{"compressed", says0("\x01" + frame(serving)[1:]), "the message is compressed"},
		{"malformed", says0(frame("\x08")), "malformed message"},
		{"long", says0(frame(strings.Repeat("\x28\x01", maxMessage))), "the answer is longer than 4096 bytes"},
		{"unimplemented", fields(200, "Grpc-Status", "12", "Grpc-Message", "unknown service"), `got grpc-status "12": "unknown service"`},
		{"no_such_service", fields(200, "Grpc-Status", "5"), `got grpc-status "5"`},
		{"message_is_cut", fields(200, "Grpc-Status", "2", "Grpc-Message", strings.Repeat("x", 1000)), `x"...`},
		{"status_0_without_a_message", fields(200, "Grpc-Status", "0"), "got 0 bytes, want one message"},
		{"no_status", func(w http.ResponseWriter) { _, _ = io.WriteString(w, frame(serving)) }, "the answer has no grpc-status"},
		{"status_in_the_header_only", func(w http.ResponseWriter) {
			w.Header().Set("Grpc-Status", "0")
			_, _ = io.WriteString(w, frame(serving))
		}, "the answer has no grpc-status"},
		{"status_404", fields(404), "got status 404"},
		{"status_503", fields(503, "Grpc-Status", "0"), "got status 503"},
		{"another_type", fields(200, "Content-Type", "text/html"), `got an answer of type "text/html", want application/grpc`},
		{"header_flood", fields(200, "X", strings.Repeat("x", 4*maxHead)), "connection error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, addr := newCalls(t, false, tc.answer)
			expect(t, ask(t, load(t, "grpc", `{}`), at(addr)), tc.err)
		})
	}
}

// TestGRPCCall checks what is asked, with TLS and without.
func TestGRPCCall(t *testing.T) {
	long := strings.Repeat("s", maxService)
	for _, tc := range []struct {
		name, settings, message string
		secure                  bool
	}{
		{"server", `{}`, frame(""), false},
		{"service", `{"service":"a.B"}`, frame("\x0a\x03a.B"), false},
		{"longest", `{"service":"` + long + `"}`, frame("\x0a\xff\x01" + long), false},
		{"from_environment", `{"service":"{env.HEALTH_SERVICE}"}`, frame("\x0a\x01x"), false},
		{"TLS", `{"tls":true}`, frame(""), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("HEALTH_SERVICE", "x")
			c, addr := newCalls(t, tc.secure, says0(frame(serving)))
			expect(t, ask(t, load(t, "grpc", tc.settings), at(addr)), "")
			r, body := <-c.seen, <-c.body
			if r.Method != http.MethodPost || r.RequestURI != grpcPath || r.ProtoMajor != 2 || r.Host != addr.String() || (r.TLS != nil) != tc.secure ||
				r.Header.Get("Content-Type") != grpcType || r.Header.Get("Te") != "trailers" || r.UserAgent() != userAgent ||
				r.Header.Get("Accept-Encoding") != "" {
				t.Errorf("got request %+v", r)
			}
			if body != tc.message {
				t.Errorf("got message %q, want %q", body, tc.message)
			}
		})
	}
}

// TestGRPCElsewhere has endpoints that speak something else.
func TestGRPCElsewhere(t *testing.T) {
	http1 := newSecured(t, nil)
	for _, tc := range []struct {
		name, settings string
		addr           net.Addr
		err            string
	}{
		// Whether the answer is seen, or that the connection is gone, depends on who is first.
		{"http1", `{}`, newWeb(t).addr, ""},
		{"garbage", `{}`, conns.Serve(t, says(strings.Repeat("garbage", 100))), ""},
		{"closes", `{}`, conns.Serve(t, func(net.Conn) {}), ""},
		{"refused", `{}`, refused(t), "refused"},
		{"no_http2_behind_TLS", `{"tls":true}`, offering(t, "http/1.1"), "no application protocol"},
		{"no_protocol_behind_TLS", `{"tls":true}`, offering(t), "the endpoint did not agree to HTTP/2"},
		{"certificate", `{"verify":true}`, http1.addr, "certificate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := ask(t, load(t, "grpc", tc.settings), at(tc.addr))
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got error %v, want one with %q", err, tc.err)
			}
		})
	}
}

// TestRequestMessage checks that a request says which service is meant, whatever its name.
func TestRequestMessage(t *testing.T) {
	law := func(name []byte) bool {
		service := string(name)
		message := encodeRequest(service)
		body := message[prefixLength:]
		if int(binary.BigEndian.Uint32(message[1:])) != len(body) || message[0] != 0 {
			return false
		}
		if service == "" {
			return len(body) == 0
		}
		tag, _, length := decodeField(body)
		return tag == serviceField<<3|wireBytes && length == len(body) && strings.HasSuffix(string(body), service)
	}
	if err := quick.Check(law, nil); err != nil {
		t.Error(err)
	}
}

// FuzzDecodeResponse checks that the decoder takes no field for longer than what there is, that it finds the status behind
// anything that it can read, and that it takes a body for nothing but one whole message.
func FuzzDecodeResponse(f *testing.F) {
	for _, seed := range []string{
		"", serving, "\x08\x02", "\x12\x03abc", "\x12\x04abc", "\x1d123", "\x211234567", "\x1d1234", "\x2112345678", "\x08", "\x00\x00", "\x0b\x0c",
		"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		for rest := message; len(rest) > 0; {
			_, _, length := decodeField(rest)
			if length < 0 || length > len(rest) {
				t.Fatalf("got a field of %d bytes in %d", length, len(rest))
			}
			if length == 0 {
				break
			}
			rest = rest[length:]
		}
		whole := []byte(frame(string(message)))
		_, err := decodeResponse(whole)
		more, errMore := decodeResponse([]byte(frame(string(message) + serving)))
		if err == nil && (errMore != nil || more != statusServing) {
			t.Errorf("got %d, %v with a status behind %q, want %d", more, errMore, message, statusServing)
		}
		for cut := range whole {
			if _, err := decodeResponse(whole[:cut]); err == nil {
				t.Errorf("got no error for the first %d bytes of %q", cut, whole)
			}
		}
		if _, err := decodeResponse(append(bytes.Clone(whole), 0)); err == nil {
			t.Errorf("got no error for a byte behind %q", whole)
		}
	})
}
