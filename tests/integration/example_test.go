package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// forwarded is the PROXY header of a load balancer in front of an example.
const forwarded = "PROXY TCP4 203.0.113.7 192.0.2.1 4000 443\r\n"

// TestExamples runs examples on other ports, and tries what their first lines say. They share a lab: Caddy holds on to the
// locks of certificates for five seconds.
func TestExamples(t *testing.T) {
	// before is a PROXY header, or what to post.
	type try struct{ port, before, url, want string }
	const large, small = `{"model":"large","prompt":"hi"}`, `{"model":"small","prompt":"hi"}`
	l := newLab(t)
	for name, tries := range map[string][]try{
		"quickstart": {
			{"8443", "", "https://alpha.test/", "hello from alpha"},
			{"8443", "", "https://www.beta.test/", "hello from beta"},
			{"8080", large, "http://127.0.0.1/v1/chat", "large model"},
			{"8080", small, "http://127.0.0.1/v1/chat", "small model"},
		},
		"proxy-protocol": {{"8443", forwarded, "https://alpha.test/", "hello 203.0.113.7"}},
		"proxy-to-backend": {
			{"8080", "", "http://127.0.0.1/", "hello 127.0.0.1"},
			{"8443", forwarded, "https://alpha.test/", "hello 203.0.113.7"},
		},
		"one-port": {{"8443", "", "https://kube.test/", "hello from kube"}},
		"clusters": {
			{"8080", "", "http://127.0.0.1/", "hello from (one|two)"},
			{"8081", "", "http://127.0.0.1/", "hello from (one|two)"},
			{"8082", "", "http://127.0.0.1/", "hello from back.test"},
		},
		"body-filters": {
			{"8080", large, "http://127.0.0.1/v1/chat", "large model"},
			{"8080", `{"model":"other"}`, "http://127.0.0.1/v1/chat", "small model"},
			{"8080", `{"prompt":"hi"}`, "http://127.0.0.1/v1/chat", `400: which model\?`},
			{"8080", `{"model":"large","model":"x"}`, "http://127.0.0.1/v1/chat", "400: the body could be read in several ways.*"},
		},
		"dynamic":      {{"8443", "", "https://localhost/", "hello from localhost"}},
		"upstream-tls": {{"8443", "", "https://front.test/", "back.test got HTTP/1.1"}},
	} {
		p, ports := l.example(name)
		for _, try := range tries {
			want := regexp.MustCompile("^(?:" + try.want + ")$")
			p.addr = "127.0.0.1:" + ports[try.port]
			// Caddy issues the certificates of the sites after it has started.
			p.eventually(name+": "+try.url, func() (string, bool) {
				got, err := p.askInsecurely(try.before, try.url)
				return fmt.Sprintf("%q, %v", got, err), want.MatchString(got)
			})
		}
	}
}

// listenPort finds the ports in the examples.
var listenPort = regexp.MustCompile(`:((?:80|84|90)\d\d)\b`)

// example runs an example. It returns which port stands for each of those in the file.
func (l *lab) example(name string) (*proxy, map[string]string) {
	l.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", name, "Caddyfile"))
	if err != nil {
		l.Fatal(err)
	}
	ports := make(map[string]string)
	moved := listenPort.ReplaceAllStringFunc(string(text), func(port string) string {
		if ports[port[1:]] == "" {
			_, ports[port[1:]], _ = net.SplitHostPort(l.freeAddr())
		}
		return ":" + ports[port[1:]]
	})
	// The example's options are all that stands between the first and the second brace at the start of a line.
	_, rest, _ := strings.Cut(moved, "\n{\n")
	options, sites, ok := strings.Cut(rest, "\n}\n")
	if !ok {
		l.Fatal("the example has no options")
	}
	return l.run(strings.Replace(options, "skip_install_trust\n", "\n", 1), sites), ports
}

// askInsecurely requests a URL through the proxy, after a PROXY header if there is one, or posts JSON to it, and trusts
// every certificate.
func (p *proxy) askInsecurely(before, url string) (string, error) {
	method, body := http.MethodGet, ""
	if strings.HasPrefix(before, "{") {
		method, body, before = http.MethodPost, before, ""
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.addr)
			if err == nil {
				_, err = io.WriteString(conn, before)
			}
			return conn, err
		},
		DisableKeepAlives: true,
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	res, err := (&http.Client{Transport: transport, Timeout: patience}).Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	return string(got), err
}
