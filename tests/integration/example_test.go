package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestQuickstart runs the first example that users see, on other ports.
func TestQuickstart(t *testing.T) {
	l := newLab(t)
	text, err := os.ReadFile("../../examples/quickstart/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	ports := make(map[string]string)
	var pairs []string
	for _, port := range []string{"8443", "9001", "9002"} {
		_, ports[port], _ = net.SplitHostPort(l.freeAddr())
		pairs = append(pairs, ":"+port, ":"+ports[port])
	}
	// The example's options are all that stands between the first and the second brace at the start of a line.
	_, rest, _ := strings.Cut(strings.NewReplacer(pairs...).Replace(string(text)), "\n{\n")
	options, sites, ok := strings.Cut(rest, "\n}\n")
	if !ok {
		t.Fatal("the example has no options")
	}
	p := l.run(strings.Replace(options, "skip_install_trust\n", "\n", 1), sites)
	p.addr = "127.0.0.1:" + ports["8443"]
	for host, want := range map[string]string{"alpha.test": "hello from alpha", "www.beta.test": "hello from beta"} {
		// Caddy issues the certificates of the sites after it has started.
		p.eventually("https://"+host+"/", func() (string, bool) {
			got, err := p.getInsecurely(host)
			return fmt.Sprintf("%q, %v", got, err), got == want
		})
	}
}

// getInsecurely requests https://host/ through the proxy and trusts every certificate.
func (p *proxy) getInsecurely(host string) (string, error) {
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", p.addr)
		},
		DisableKeepAlives: true,
	}
	res, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + host + "/")
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}
