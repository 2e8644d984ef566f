package integration

import (
	"strings"
	"testing"
)

// TestHeaderOnly reads a PROXY header and no hello, in front of a server that speaks first.
func TestHeaderOnly(t *testing.T) {
	const header = "PROXY TCP4 192.0.2.9 192.0.2.1 40000 3306\r\n"
	l := newLab(t)
	b := l.backend()
	p := l.start("preread {\nproxy_protocol from 127.0.0.1\nhello off\n}\naccess_log\nip_acl {\nallow 192.0.2.0/24\n}\n" +
		"forward " + b.addr + " {\nproxy_protocol v1\n}")
	base := p.counts()

	c := p.dial()
	c.send([]byte(header[:20]))
	c.send([]byte(header[20:])) // and nothing more: it is the server's turn
	up := b.accept()
	up.expect([]byte(header))
	up.send([]byte("banner"))
	c.expect([]byte("banner"))
	echoes(c, up)
	c.end()
	up.expectEnd(nil)
	up.end()
	c.expectEnd(nil)
	if line := p.accessLine(c.LocalAddr().String()); line["remote"] != "192.0.2.9:40000" || line["reason"] != "completed" {
		t.Errorf("got remote %v, reason %v, want the client of the header, completed", line["remote"], line["reason"])
	}

	liar := p.dial()
	liar.send([]byte("SSH-2.0-x\r\n"))
	liar.expectClosed()
	p.await(base, counts{rejected("proxy_header_invalid"): 1, "duration_seconds_count": 1, handled: 2})

	if err := p.route("preread {\nproxy_protocol from 192.0.2.1\nhello off\n}\nforward " + b.addr); err != nil {
		t.Fatal(err)
	}
	plain := p.dial() // not one of those that send a header: nothing is read of it
	up = b.accept()
	plain.send([]byte(strings.Repeat("x", 100)))
	up.expect([]byte(strings.Repeat("x", 100)))
}
