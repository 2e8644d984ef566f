package healthchecks

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/pires/go-proxyproto"

	"github.com/caddy-sluice/sluice/internal/testkit/certs"
	"github.com/caddy-sluice/sluice/internal/testkit/conns"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/modules/upstreamtls"
)

// secured is an endpoint with TLS. Behind it is a web server, or one of gRPC, as the client wants. It tells the name, the
// protocol and the number of client certificates of each handshake.
type secured struct {
	addr net.Addr
	// file has the certificate, and its key.
	file string
	seen chan seen
}

type seen struct {
	name, protocol string
	certificates   int
}

func newSecured(t *testing.T, change func(*tls.Config)) *secured {
	t.Helper()
	cert, file := certs.New(t, "backend.example.test")
	s := &secured{file: file, seen: make(chan seen, 100)}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
	if change != nil {
		change(config)
	}
	s.addr = conns.Serve(t, func(conn net.Conn) {
		with := tls.Server(conn, config)
		if with.Handshake() != nil {
			return
		}
		state := with.ConnectionState()
		s.seen <- seen{state.ServerName, state.NegotiatedProtocol, len(state.PeerCertificates)}
		if state.NegotiatedProtocol == "http/1.1" {
			_, _ = with.Read(make([]byte, 4096))
			_, _ = io.WriteString(with, "HTTP/1.1 200 OK\r\n\r\n")
		}
		_, _ = io.Copy(io.Discard, with)
	})
	return s
}

// cluster returns the TLS of a cluster.
func cluster(t *testing.T, settings *upstreamtls.TLS) *upstreamtls.Client {
	t.Helper()
	client, err := settings.Client(modules.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestTLS checks what must be right about an endpoint's TLS, which is nothing but the handshake unless something is
// given, and what it is asked for.
func TestTLS(t *testing.T) {
	s := newSecured(t, nil)
	trusting := `"ca_file":["{env.HEALTH_CA}"]`
	unverified := &upstreamtls.TLS{}
	unverified.InsecureSkipVerify = true
	unverified.ServerName = "cluster.example.test"
	unverified.ALPN = []string{"h2"}
	for _, tc := range []struct {
		name, settings string
		cluster        *upstreamtls.TLS
		want           seen
		err            string
	}{
		{"nothing_is_verified", ``, nil, seen{}, ""},
		{"name", `"server_name":"other.example.test"`, nil, seen{name: "other.example.test"}, ""},
		{"verify", `"verify":true`, nil, seen{}, "certificate"},
		{"ca_file", trusting, nil, seen{}, ""},
		{"ca_file_and_name", trusting + `,"server_name":"backend.example.test"`, nil, seen{name: "backend.example.test"}, ""},
		{"ca_file_and_another_name", trusting + `,"server_name":"other.example.test"`, nil, seen{}, "other.example.test"},
		{"alpn", `"alpn":["xmpp","http/1.1"]`, nil, seen{protocol: "http/1.1"}, ""},
		{"alpn_that_is_not_there", `"alpn":["xmpp"]`, nil, seen{}, "no application protocol"},
		{"as_the_cluster_verifies", ``, new(upstreamtls.TLS), seen{}, "certificate"},
		{"as_the_cluster", ``, unverified, seen{"cluster.example.test", "h2", 0}, ""},
		{"name_before_that_of_the_cluster", `"server_name":"other.example.test"`, unverified, seen{"other.example.test", "h2", 0}, ""},
		{"verify_before_the_cluster", `"verify":true`, unverified, seen{}, "certificate"},
		{"ca_file_before_the_cluster", trusting, unverified, seen{}, "cluster.example.test"},
		{"ca_file_for_the_cluster", trusting, new(upstreamtls.TLS), seen{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("HEALTH_CA", s.file)
			e := at(s.addr)
			if tc.cluster != nil {
				e.TLS = cluster(t, tc.cluster)
			}
			err := ask(t, load(t, "tls", `{`+tc.settings+`}`), e)
			expect(t, err, tc.err)
			if err != nil {
				return
			}
			if got := <-s.seen; got != tc.want {
				t.Errorf("got %+v at the endpoint, want %+v", got, tc.want)
			}
			if e.TLS != nil && e.TLS.Config.ServerName != tc.cluster.ServerName {
				t.Errorf("got %q in the cluster's config, want it as it was", e.TLS.Config.ServerName)
			}
		})
	}
}

// TestTLSHostName checks that the host is the name if there is no other.
func TestTLSHostName(t *testing.T) {
	s := newSecured(t, nil)
	e := at(s.addr)
	e.Host = "backend.example.test" // which at connects to on loopback
	expect(t, ask(t, load(t, "tls", `{}`), e), "")
	if got := <-s.seen; got.name != "backend.example.test" {
		t.Errorf("got the name %q, want the host", got.name)
	}
}

// TestTLSClientCertificate checks that an endpoint which wants a certificate sees that of the cluster.
func TestTLSClientCertificate(t *testing.T) {
	s := newSecured(t, func(c *tls.Config) {
		c.ClientAuth = tls.RequireAnyClientCert
		c.MaxVersion = tls.VersionTLS12 // in which the client hears of it in the handshake
	})
	with := &upstreamtls.TLS{}
	with.InsecureSkipVerify = true
	with.ClientCertificateFile, with.ClientCertificateKeyFile = s.file, s.file
	e := at(s.addr)
	expect(t, ask(t, load(t, "tls", `{}`), e), "TLS handshake: ")
	e.TLS = cluster(t, with)
	expect(t, ask(t, load(t, "tls", `{}`), e), "")
	if got := <-s.seen; got.certificates != 1 {
		t.Errorf("got %d certificates, want that of the cluster", got.certificates)
	}
}

// TestNoTLS has endpoints that speak no TLS.
func TestNoTLS(t *testing.T) {
	for name, addr := range map[string]net.Addr{
		"speaks_http": newWeb(t).addr, "garbage": conns.Serve(t, says("garbage\r\n")), "closes": conns.Serve(t, func(net.Conn) {}),
	} {
		t.Run(name, func(t *testing.T) { expect(t, ask(t, load(t, "tls", `{}`), at(addr)), "TLS handshake: ") })
	}
}

// TestWhetherTLS checks when the checks that can do without TLS speak it.
func TestWhetherTLS(t *testing.T) {
	insecure := &upstreamtls.TLS{}
	insecure.InsecureSkipVerify = true
	insecure.ALPN = []string{"h2"} // for traffic: the check speaks HTTP/1.1
	for _, tc := range []struct {
		name, settings string
		cluster        bool
		want           bool
	}{
		{"neither", ``, false, false},
		{"cluster", ``, true, true},
		{"check", `,"tls":true`, false, true},
		{"name", `,"server_name":"backend.example.test"`, false, true},
		{"off", `,"tls":false`, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, w := newSecured(t, nil), newWeb(t)
			addr := w.addr
			if tc.want {
				addr = s.addr
			}
			e := at(addr)
			if tc.cluster {
				e.TLS = cluster(t, insecure)
			}
			expect(t, ask(t, load(t, "http", `{"path":"/200"`+tc.settings+`}`), e), "")
			if tc.want {
				if got := <-s.seen; got.protocol != "http/1.1" {
					t.Errorf("got the protocol %q, want http/1.1", got.protocol)
				}
			}
		})
	}
	t.Run("unverified_by_whom", func(t *testing.T) {
		s := newSecured(t, nil)
		expect(t, ask(t, load(t, "http", `{"path":"/","tls":true,"verify":true}`), at(s.addr)), "certificate")
	})
}

// TestProxyHeader checks that what expects a PROXY header gets one first, in the version that is right, and that it names
// nobody.
func TestProxyHeader(t *testing.T) {
	for _, tc := range []struct {
		kind, settings, cluster string
		version                 byte
	}{
		{"tls", `{}`, "v1", 1},
		{"tls", `{}`, "v2", 2},
		{"http", `{"path":"/"}`, "v2", 2},
		{"grpc", `{}`, "v1", 1},
		{"http", `{"path":"/","proxy_protocol":"v1"}`, "v2", 1},
		{"http", `{"path":"/","proxy_protocol":"v2"}`, "", 2},
		{"http", `{"path":"/","proxy_protocol":"off"}`, "v2", 0},
		{"http", `{"path":"/"}`, "", 0},
	} {
		t.Run(tc.kind+"_"+tc.settings+"_"+tc.cluster, func(t *testing.T) {
			header, rest := make(chan *proxyproto.Header, 1), make(chan byte, 1)
			e := at(conns.Serve(t, func(conn net.Conn) {
				reader := bufio.NewReader(conn)
				got, _ := proxyproto.Read(reader)
				header <- got
				first, _ := reader.ReadByte()
				rest <- first
			}))
			e.ProxyProtocol = tc.cluster
			_ = ask(t, load(t, tc.kind, tc.settings), e) // fails, as the endpoint says nothing
			got := <-header
			switch {
			case tc.version == 0 && got == nil:
			case got == nil || got.Version != tc.version || got.TransportProtocol != proxyproto.UNSPEC || !got.Command.IsLocal():
				t.Errorf("got header %+v, want version %d, of nobody", got, tc.version)
			}
			if want := map[string]byte{"tls": 22, "http": 'G', "grpc": 'P'}[tc.kind]; <-rest != want {
				t.Errorf("got no %q behind the header", want)
			}
		})
	}
	t.Run("passes", func(t *testing.T) {
		e := at(conns.Serve(t, func(conn net.Conn) {
			reader := bufio.NewReader(conn)
			if _, err := proxyproto.Read(reader); err != nil {
				t.Error(err)
			}
			if _, err := http.ReadRequest(reader); err != nil {
				t.Error(err)
			}
			_, _ = io.Copy(conn, bytes.NewReader([]byte("HTTP/1.1 200 OK\r\n\r\n")))
			silent(conn)
		}))
		e.ProxyProtocol = "v2"
		expect(t, ask(t, load(t, "http", `{"path":"/"}`), e), "")
	})
}

// offering returns the address of an endpoint with TLS that speaks these protocols.
func offering(t *testing.T, protocols ...string) net.Addr {
	t.Helper()
	return newSecured(t, func(c *tls.Config) { c.NextProtos = protocols }).addr
}
