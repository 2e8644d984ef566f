package integration

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// terminating is a route that ends TLS with caddy-l4's handler and forwards what is inside.
func terminating(policy, upstream string) string {
	return "access_log\nadmission {\nmax_connections 10\n}\ntls {\n" + policy + "\n}\nforward " + upstream
}

// accessLine waits for the only line of the access log about a client.
func (p *proxy) accessLine(client string) map[string]any {
	p.Helper()
	var line map[string]any
	p.eventually("a line about "+client, func() (string, bool) {
		found := records.find(func(r logRecord) bool {
			return r.Logger == "layer4.handlers.access_log" && r.Msg == "connection" && strings.Contains(r.Line, client)
		})
		if len(found) != 1 {
			return fmt.Sprintf("%d lines", len(found)), false
		}
		return found[0].Line, json.Unmarshal([]byte(found[0].Line), &line) == nil
	})
	return line
}

// secure connects to the proxy by TLS.
func (p *proxy) secure(config *tls.Config) (*peer, *tls.Conn, error) {
	p.Helper()
	raw := p.dial()
	c := tls.Client(raw.stream, config)
	if err := c.Handshake(); err != nil {
		return nil, nil, err
	}
	return p.peer(c), c, nil
}

// TestDecrypted checks that forward, the access log and half-closes work on the stream inside TLS, with a certificate
// from Caddy's automation.
func TestDecrypted(t *testing.T) {
	l := newLab(t)
	l4, site := l.freeAddr(), l.freeAddr()
	p := l.run(server(l4, "route {\n"+terminating("", l.digester("inside"))+"\n}"),
		fmt.Sprintf("https://auto.test:%s {\nbind 127.0.0.1\ntls internal\n}\n", port(site)))
	p.addr = l4
	const name = "auto.test"
	insecure := &tls.Config{ServerName: name, InsecureSkipVerify: true} // a root of this test's own Caddy
	var c *peer
	var conn *tls.Conn
	l.eventually("the certificate is there", func() (string, bool) {
		var err error
		c, conn, err = p.secure(insecure)
		return fmt.Sprint(err), err == nil
	})
	if err := conn.ConnectionState().PeerCertificates[0].VerifyHostname(name); err != nil {
		t.Errorf("got a certificate that is not for the name: %v", err)
	}
	question := pattern(300 << 10)
	client := conn.LocalAddr().String()
	c.send(question)
	c.end() // inside TLS; the answer is still to come
	c.expectEnd([]byte(digest("inside", question)))
	c.Close()
	line := p.accessLine(client)
	if line["reason"] != "completed" || line["bytes_in"] != float64(len(question)) || line["bytes_out"] == 0.0 {
		t.Errorf("got reason %v, %v and %v bytes, want completed, %d and the answer's", line["reason"], line["bytes_in"], line["bytes_out"], len(question))
	}
}

// TestT88_ClientCertificates terminates TLS for clients with a certificate only.
func TestT88_ClientCertificates(t *testing.T) {
	l := newLab(t)
	certFile, keyFile := l.keyPair("known.test")
	l4, site := l.freeAddr(), l.freeAddr()
	policy := "connection_policy {\nclient_auth {\nmode require_and_verify\ntrust_pool file " + l.caFile() + "\n}\n}"
	p := l.run(server(l4, "route {\n"+terminating(policy, l.echo())+"\n}"),
		fmt.Sprintf("https://known.test:%s {\nbind 127.0.0.1\ntls %s %s\n}\n", port(site), certFile, keyFile))
	p.addr = l4
	config := &tls.Config{ServerName: "known.test", RootCAs: l.authority().pool}

	with := config.Clone()
	with.Certificates = []tls.Certificate{l.certificate("client.test")}
	c, _, err := p.secure(with)
	if err != nil {
		t.Fatalf("with a certificate: %v", err)
	}
	c.send([]byte("word"))
	c.expect([]byte("word"))
	c.end()
	c.expectEnd(nil)

	// TLS 1.3 tells the client of the refusal after its own handshake is over.
	refused, conn, err := p.secure(config)
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		refused.Close()
	}
	if err == nil || err == io.EOF {
		t.Errorf("without a certificate: got %v, want it refused", err)
	}
}

// TestT89_CertificateRotation replaces a certificate: connections made after the reload get the new one, a broken file is
// refused and changes nothing, and a connection that is open goes on.
func TestT89_CertificateRotation(t *testing.T) {
	l := newLab(t)
	certFile, keyFile := l.keyPair("known.test")
	l4, site := l.freeAddr(), l.freeAddr()
	options := server(l4, "route {\n"+terminating("", l.echo())+"\n}")
	sites := fmt.Sprintf("https://known.test:%s {\nbind 127.0.0.1\ntls %s %s\n}\n", port(site), certFile, keyFile)
	p := l.run(options, sites)
	p.addr = l4
	signature := func() string {
		t.Helper()
		c, conn, err := p.secure(&tls.Config{ServerName: "known.test", RootCAs: l.authority().pool})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return fmt.Sprintf("%x", conn.ConnectionState().PeerCertificates[0].Signature)
	}
	open, _, err := p.secure(&tls.Config{ServerName: "known.test", RootCAs: l.authority().pool})
	if err != nil {
		t.Fatal(err)
	}
	first := signature()

	l.keyPair("known.test") // into the same files
	if err := p.load(options, sites); err != nil {
		t.Fatal(err)
	}
	second := signature()
	if second == first {
		t.Error("got the old certificate after the reload")
	}

	if err := os.WriteFile(certFile, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.load(options, sites); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v for a broken file, want a refusal", err)
	}
	if got := signature(); got != second {
		t.Error("got another certificate after a refused reload")
	}
	open.send([]byte("word"))
	open.expect([]byte("word"))
}
