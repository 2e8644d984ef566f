package integration

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// programsEnv is set where openssl and curl must be there; a test fails if one is missing then.
const programsEnv = "SLUICE_TEST_PROGRAMS"

// authority issues the certificates of a test run.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	pem  []byte
}

// sharedAuthority is the one authority of the process.
var sharedAuthority = sync.OnceValues(newAuthority)

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certTemplate("test CA")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{cert, key, pool, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

func certTemplate(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<60))
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

func (l *lab) authority() *authority {
	l.Helper()
	ca, err := sharedAuthority()
	if err != nil {
		l.Fatal(err)
	}
	return ca
}

// certificate issues a certificate for these names; the first is its common name.
func (l *lab) certificate(names ...string) tls.Certificate {
	l.Helper()
	ca := l.authority()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		l.Fatal(err)
	}
	template := certTemplate(names[0])
	template.DNSNames, template.KeyUsage = names, x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		l.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// caFile writes the authority's certificate for programs.
func (l *lab) caFile() string {
	l.Helper()
	path := filepath.Join(l.dir, "ca.pem")
	if err := os.WriteFile(path, l.authority().pem, 0o600); err != nil {
		l.Fatal(err)
	}
	return path
}

// site is an HTTPS server with a certificate of its own for these names. It answers with its first name, the protocol
// and the name in the client's certificate, and returns its address.
func (l *lab) site(auth tls.ClientAuthType, names ...string) string {
	l.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.Fatal(err)
	}
	server := &http.Server{
		ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{l.certificate(names...)},
			ClientAuth:   auth, ClientCAs: l.authority().pool,
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			client := "nobody"
			if len(r.TLS.PeerCertificates) > 0 {
				client = r.TLS.PeerCertificates[0].Subject.CommonName
			}
			fmt.Fprintf(w, "%s %s %s", names[0], r.Proto, client)
		}),
	}
	var wait sync.WaitGroup
	wait.Go(func() { _ = server.ServeTLS(ln, "", "") })
	l.Cleanup(func() {
		server.Close()
		wait.Wait()
	})
	return ln.Addr().String()
}

// get requests https://name/ through the proxy with Go's client.
func (p *proxy) get(name string, h2 bool, certs ...tls.Certificate) (string, error) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2)
	protocols.SetHTTP2(h2)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: p.authority().pool, Certificates: certs},
		Protocols:       protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", p.addr)
		},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	res, err := client.Get("https://" + name + "/")
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

// startSites runs a router between two sites, alpha.test and *.beta.test.
func startSites(l *lab) *proxy {
	l.Helper()
	return l.start(fmt.Sprintf(`sni_router {
		route alpha.test {
			forward %s
		}
		route *.beta.test {
			forward %s
		}
	}`, l.site(tls.NoClientCert, "alpha.test"), l.site(tls.NoClientCert, "*.beta.test")))
}

func TestPassthroughWithGo(t *testing.T) {
	l := newLab(t)
	p := startSites(l)
	base := p.counts()
	for _, tc := range []struct {
		host string
		h2   bool
		want string
	}{
		{"alpha.test", false, "alpha.test HTTP/1.1 nobody"},
		{"alpha.test", true, "alpha.test HTTP/2.0 nobody"},
		{"www.beta.test", false, "*.beta.test HTTP/1.1 nobody"},
		{"WWW.Beta.Test", true, "*.beta.test HTTP/2.0 nobody"},
	} {
		if got, err := p.get(tc.host, tc.h2); err != nil || got != tc.want {
			t.Errorf("https://%s/ (h2: %v): got %q, %v, want %q", tc.host, tc.h2, got, err, tc.want)
		}
	}
	p.settle(base, 4, counts{"routed_total": 4})
	p.quiet()
}

// TestRefusalAsTheUserSeesIt checks that a TLS client understands the alerts.
func TestRefusalAsTheUserSeesIt(t *testing.T) {
	l := newLab(t)
	p := l.start(routes(l.backend().addr, ""))
	_, err := p.get("unknown.test", false)
	if err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("unknown name: got %v, want unrecognized name", err)
	}
	_, err = p.get("h2.test", false)
	if err == nil || !strings.Contains(err.Error(), "no application protocol") {
		t.Errorf("unmatched protocol: got %v, want no application protocol", err)
	}
}

func TestMutualTLS(t *testing.T) {
	l := newLab(t)
	p := l.start(routes(l.site(tls.RequireAndVerifyClientCert, "known.test"), ""))
	want := "known.test HTTP/1.1 alice"
	if got, err := p.get("known.test", false, l.certificate("alice")); err != nil || got != want {
		t.Errorf("with a certificate: got %q, %v, want %q", got, err, want)
	}
	if _, err := p.get("known.test", false); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without a certificate: got %v, want the backend's refusal", err)
	}
}

// TestTheBackendChoosesTheProtocol offers what the backend doesn't speak: the proxy leaves the choice alone.
func TestTheBackendChoosesTheProtocol(t *testing.T) {
	l := newLab(t)
	p := l.start(fmt.Sprintf(`sni_router {
		route shared.test {
			alpn h2
			forward %s
		}
		route shared.test {
			forward %s
		}
	}`, l.site(tls.NoClientCert, "shared.test"), l.digester("any")))
	c, err := tls.Dial("tcp", p.addr, &tls.Config{
		ServerName: "shared.test", RootCAs: l.authority().pool, NextProtos: []string{"spdy/1", "http/1.1", "h2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Errorf("protocol: got %q, want h2, the server's choice", got)
	}
	for _, alpn := range [][]string{{"http/1.1"}, nil} {
		hello := named("shared.test", alpn...)
		p.expectAnswer(digest("any", hello), hello)
	}
}

// needs skips the test if a program is missing, or fails it where programs must be there.
func (l *lab) needs(program string) {
	l.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv(programsEnv) != "" {
		l.Fatalf("%s is missing, and %s is set", program, programsEnv)
	}
	l.Skipf("%s is missing", program)
}

// program runs a program and returns what it prints.
func program(stdin, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestPassthroughWithCurl(t *testing.T) {
	for _, tc := range []struct {
		host, option, want string
	}{
		{"alpha.test", "--http1.1", "alpha.test HTTP/1.1 nobody"},
		{"alpha.test", "--http2", "alpha.test HTTP/2.0 nobody"},
		{"WWW.Beta.Test", "--http2", "*.beta.test HTTP/2.0 nobody"},
		{"www.beta.test.", "--http1.1", "*.beta.test HTTP/1.1 nobody"},
	} {
		t.Run(tc.host+tc.option, func(t *testing.T) {
			l := newLab(t)
			l.needs("curl")
			p := startSites(l)
			_, port, _ := net.SplitHostPort(p.addr)
			got, err := program("", "curl", tc.option, "--cacert", l.caFile(), "-sS", "--max-time", "15",
				"--noproxy", "*", "--resolve", tc.host+":"+port+":127.0.0.1", "https://"+tc.host+":"+port+"/")
			if err != nil || got != tc.want {
				t.Errorf("curl: got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestPassthroughWithOpenSSL(t *testing.T) {
	for _, tc := range []struct {
		name, sni, want string
		options         []string
	}{
		{"exact", "alpha.test", "alpha.test HTTP/1.1 nobody", nil},
		{"tls12", "alpha.test", "alpha.test HTTP/1.1 nobody", []string{"-tls1_2"}},
		{"E28_upper_case", "X.BETA.TEST", "*.beta.test HTTP/1.1 nobody", nil},
		{"small_records", "alpha.test", "alpha.test HTTP/1.1 nobody", []string{"-max_send_frag", "512"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			l.needs("openssl")
			p := startSites(l)
			args := append([]string{
				"s_client", "-connect", p.addr, "-servername", tc.sni, "-CAfile", l.caFile(),
				"-verify_return_error", "-quiet",
			}, tc.options...)
			got, err := program("GET / HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n", "openssl", args...)
			if err != nil || !strings.HasSuffix(got, tc.want) {
				t.Errorf("openssl: got %q, %v, want %q at its end", got, err, tc.want)
			}
		})
	}
	t.Run("alert", func(t *testing.T) {
		l := newLab(t)
		l.needs("openssl")
		p := startSites(l)
		got, err := program("", "openssl", "s_client", "-connect", p.addr, "-servername", "gamma.test")
		if err == nil || !strings.Contains(got, "alert number 112") {
			t.Errorf("openssl: got %q, %v, want alert number 112", got, err)
		}
	})
	// Go's server refuses such a name, so this looks at what arrives.
	t.Run("E28_trailing_dot", func(t *testing.T) {
		l := newLab(t)
		l.needs("openssl")
		b := l.backend()
		p := l.start(routes(b.addr, ""))
		var wait sync.WaitGroup
		wait.Go(func() {
			_, _ = program("", "openssl", "s_client", "-connect", p.addr, "-servername", "Known.Test.")
		})
		up := b.accept()
		got := make([]byte, 200)
		if _, err := io.ReadFull(up, got); err != nil || !bytes.Contains(got, []byte("Known.Test.")) {
			t.Errorf("hello: got %q, %v, want Known.Test. in it", got, err)
		}
		up.Close()
		wait.Wait()
	})
	t.Run("no_name", func(t *testing.T) {
		l := newLab(t)
		l.needs("openssl")
		p := startSites(l)
		base := p.counts()
		if got, err := program("", "openssl", "s_client", "-connect", p.addr, "-noservername"); err == nil {
			t.Errorf("openssl: got %q, want a failure", got)
		}
		p.settle(base, 1, counts{rejected("no_sni"): 1})
	})
}

// TestResetBehindTLS has Caddy's TLS in front of forward: when the backend resets, the client must not get a proper end.
func TestResetBehindTLS(t *testing.T) {
	l := newLab(t)
	b := l.backend()
	cert, key := l.certificateFiles("term.test")
	addr := l.freeAddr()
	config := server(addr, "route {\n tls\n forward "+b.addr+"\n}")
	p := l.run(config, "https://term.test:"+port(l.freeAddr())+" {\nbind 127.0.0.1\ntls "+cert+" "+key+"\n}\n")
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(raw, &tls.Config{ServerName: "term.test", RootCAs: l.authority().pool})
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	up := b.accept()
	up.expect([]byte("hello"))
	up.send([]byte("half an answer"))
	half := make([]byte, len("half an answer"))
	if _, err := io.ReadFull(c, half); err != nil {
		t.Fatal(err)
	}
	up.abort()
	if _, err := c.Read(half); err == nil || errors.Is(err, io.EOF) {
		p.Errorf("got %v, want a reset: half an answer must not look whole", err)
	}
}
