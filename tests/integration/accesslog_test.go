package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// accessLogger is the name under which the access log writes.
const accessLogger = "layer4.handlers.access_log"

// accessLine is one line of the access log.
type accessLine map[string]any

// accessLines waits for n lines of the access log that are no debug lines, and returns them.
func (l *lab) accessLines(n int) []accessLine {
	l.Helper()
	var lines []accessLine
	l.eventually(fmt.Sprintf("%d lines in the access log", n), func() (string, bool) {
		lines = nil
		for _, r := range records.find(func(r logRecord) bool { return r.Logger == accessLogger && r.Level == "info" }) {
			var line accessLine
			if err := json.Unmarshal([]byte(r.Line), &line); err != nil {
				l.Fatal(err)
			}
			lines = append(lines, line)
		}
		return fmt.Sprint(lines), len(lines) >= n
	})
	if len(lines) != n {
		l.Fatalf("access log: got %d lines, want %d:\n%v", len(lines), n, lines)
	}
	return lines
}

// expectLine checks fields of a line.
func (l *lab) expectLine(line accessLine, want map[string]any) {
	l.Helper()
	for name, value := range want {
		if fmt.Sprint(line[name]) != fmt.Sprint(value) {
			l.Errorf("%s: got %v, want %v, in %v", name, line[name], value, line)
		}
	}
}

// TestT50_AccessLog checks the line of a connection that was routed by its hello, and those of one without a hello and one
// that was refused.
func TestT50_AccessLog(t *testing.T) {
	l := newLab(t)
	addr := l.digester("a")
	p := l.start(`access_log
		ip_acl {
			allow 127.0.0.0/8
		}
		sni_router {
			route *.example.com {
				alpn h2
				tags team blue
				forward ` + addr + `
			}
		}`)
	hello := named("a.example.com", "foo", "h2")
	p.expectAnswer(digest("a", hello), hello)
	line := p.accessLines(1)[0]
	p.expectLine(line, map[string]any{
		"msg": "connection", "listener": p.addr, "server_name": "a.example.com", "alpn": "foo,h2", "protocol": "h2",
		"pattern": "*.example.com", "cluster": "-", "upstream": addr, "bytes_in": len(hello),
		"bytes_out": len(digest("a", hello)), "reason": "completed", "tags": map[string]any{"team": "blue"}, "peer": nil,
	})
	for name := range strings.FieldsSeq("id remote duration preread connect relay") {
		if value := fmt.Sprint(line[name]); value == "" || value == "0" || value == "<nil>" {
			t.Errorf("%s: got %v in %v", name, line[name], line)
		}
	}

	c := p.dial()
	c.send([]byte("GET / HTTP/1.1\r\n"))
	c.expectClosed()
	p.expectLine(p.accessLines(2)[1], map[string]any{
		"server_name": "-", "alpn": "-", "protocol": "-", "pattern": "-", "upstream": "-", "bytes_in": 0, "reason": "preread_not_tls",
	})
}

// TestS16_Protocol checks which protocol a line names.
func TestS16_Protocol(t *testing.T) {
	l := newLab(t)
	addr := l.digester("a")
	p := l.start(`access_log
		sni_router {
			route a.example.com {
				alpn h2
				forward ` + addr + `
			}
			route a.example.com {
				forward ` + addr + `
			}
		}`)
	for i, tc := range []struct {
		offer    []string
		protocol string
	}{
		{[]string{"h2", "http/1.1"}, "h2"},
		{[]string{"foo"}, "-"},
		{nil, "-"},
	} {
		hello := named("a.example.com", tc.offer...)
		p.expectAnswer(digest("a", hello), hello)
		want := strings.Join(tc.offer, ",")
		if want == "" {
			want = "-"
		}
		p.expectLine(p.accessLines(i + 1)[i], map[string]any{"alpn": want, "protocol": tc.protocol, "server_name": "a.example.com"})
	}
}

// TestS05_SilentClose checks that a client which leaves without a byte has a line for those who debug only, and holds
// nothing.
func TestS05_SilentClose(t *testing.T) {
	l := newLab(t)
	p := l.start(`access_log
		admission
		preread
		forward ` + l.echo())
	base := p.counts()
	c := p.dial()
	c.end()
	c.expectClosed()
	p.settle(base, 1, nil)
	debug := records.find(func(r logRecord) bool { return r.Logger == accessLogger && r.Msg == "connection" })
	if len(debug) != 1 || debug[0].Level != "debug" {
		t.Errorf("got %v, want one line at level debug", debug)
	}
	if got := p.metric("caddy_sluice_admission_connections"); got != 0 {
		t.Errorf("got %v connections, want 0", got)
	}
}

// TestAccessLogOfRefusals checks that a connection which is refused behind the access log has its line, too.
func TestAccessLogOfRefusals(t *testing.T) {
	l := newLab(t)
	p := l.start(`access_log
		admission {
			max_connections 1
		}
		forward ` + l.echo())
	first := p.dial()
	first.send([]byte("x"))
	first.expect([]byte("x"))
	p.dial().expectClosed()
	p.expectLine(p.accessLines(1)[0], map[string]any{"reason": "admission_listener", "upstream": "-"})
	first.end()
	first.expectEnd(nil)
	p.expectLine(p.accessLines(2)[1], map[string]any{"reason": "completed", "bytes_in": 1, "bytes_out": 1})
}

// TestAccessLogBehindBalancer checks that a line has both the client and the load balancer.
func TestAccessLogBehindBalancer(t *testing.T) {
	l := newLab(t)
	p := l.start(`access_log
		preread {
			proxy_protocol from 127.0.0.1
		}
		ip_acl {
			allow 203.0.113.9
		}
		forward ` + l.digester("a"))
	for i, tc := range []struct{ client, reason string }{{"203.0.113.9", "completed"}, {"203.0.113.8", "filter_rejection"}} {
		hello := named("a.example.com")
		c := p.dial()
		c.send(fmt.Appendf(nil, "PROXY TCP4 %s 192.0.2.1 1234 443\r\n", tc.client), hello)
		c.end()
		if tc.reason == "completed" {
			c.expectEnd([]byte(digest("a", hello)))
		} else {
			c.expectClosed()
		}
		line := p.accessLines(i + 1)[i]
		p.expectLine(line, map[string]any{"remote": tc.client + ":1234", "reason": tc.reason, "peer": c.LocalAddr().String()})
	}
}
