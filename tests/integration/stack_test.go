package integration

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	_ "github.com/mholt/caddy-l4/modules/l4tls"
)

// TestUnixListener has clients without an IP address.
func TestUnixListener(t *testing.T) {
	l := newLab(t)
	path := filepath.Join(l.dir, "listen")
	p := l.run(server("unix/"+path, "route {\n preread {\n proxy_protocol from 0.0.0.0/0 ::/0 \n}\n"+
		routes(l.digester("route"), "")+"\n}"), "")
	base := p.counts()
	ask := func(data []byte) string {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		peer := p.peer(c)
		peer.send(data)
		peer.end()
		answer, _ := io.ReadAll(peer)
		return string(answer)
	}
	hello := named("known.test")
	if got, want := ask(hello), digest("route", hello); got != want {
		t.Errorf("answer: got %q, want %q", got, want)
	}
	if got, want := ask(named("unknown.test")), string(alert(112)); got != want {
		t.Errorf("answer: got %q, want the alert", got)
	}
	p.settle(base, 2, counts{"routed_total": 1, rejected("sni_unmatched"): 1})
}

// TestTermination terminates the TLS of one route with caddy-l4's own handler, which sees the hello from its first
// byte, and forwards what is inside.
func TestTermination(t *testing.T) {
	l := newLab(t)
	certFile, keyFile := l.keyPair("known.test")
	l4, site := l.freeAddr(), l.freeAddr()
	p := l.run(server(l4, "route {\n sight\n sni_router {\n route known.test {\n tls \n forward "+l.echo()+"\n}\n}\n}"),
		fmt.Sprintf("https://known.test:%s {\n bind 127.0.0.1 \n tls %s %s \n}\n", port(site), certFile, keyFile))
	p.addr = l4
	c, err := tls.Dial("tcp", p.addr, &tls.Config{ServerName: "known.test", RootCAs: l.authority().pool})
	if err != nil {
		t.Fatal(err)
	}
	inside := p.peer(c)
	inside.send([]byte("hello inside"))
	inside.expect([]byte("hello inside"))
	inside.end()
	inside.expectEnd(nil)
	inside.Close()
	p.expectEnding("completed", len("hello inside"), len("hello inside"))
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// keyPair issues a certificate into files.
func (l *lab) keyPair(name string) (certFile, keyFile string) {
	l.Helper()
	cert := l.certificate(name)
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		l.Fatal(err)
	}
	certFile, keyFile = filepath.Join(l.dir, "cert.pem"), filepath.Join(l.dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: cert.Certificate[0]}, keyFile: {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			l.Fatal(err)
		}
	}
	return certFile, keyFile
}
