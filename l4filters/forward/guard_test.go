package forward

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-sluice/sluice/modules/session"
)

// counting is a listener on loopback that counts connections and closes them.
func counting(t *testing.T) (port string, accepted *atomic.Int32) {
	t.Helper()
	ln := listen(t)
	accepted = new(atomic.Int32)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			_ = conn.Close()
		}
	}()
	_, port, _ = net.SplitHostPort(ln.Addr().String())
	return port, accepted
}

// run handles a connection whose client has said all it has to say, and returns its session.
func (h *Handler) run(t *testing.T) *session.Session {
	t.Helper()
	client, server := newPair(t)
	_ = client.CloseWrite()
	cx := layer4.WrapConnection(server, nil, zap.NewNop())
	if err := h.Handle(cx, behind(t)); err != nil {
		t.Fatal(err)
	}
	return session.Of(cx)
}

// TestGuard checks where a name may lead, by what it resolves to. The paths with TLS and with a PROXY header are the
// same as the plain one.
func TestGuard(t *testing.T) {
	const name = "name.example.test"
	for _, tc := range []struct{ name, addresses, settings string }{
		{"T76_loopback", "127.0.0.1", ``},
		{"T80_public_and_private", "192.0.2.1 127.0.0.1", ``},
		{"T80_private_and_public", "127.0.0.1 192.0.2.1", ``},
		{"mapped", "::ffff:127.0.0.1", ``},
		{"strict", "127.0.0.1", `,"guard":"strict"`},
		{"Z111_with_header", "127.0.0.1", `,"proxy_protocol":"v2"`},
		{"Z111_with_tls", "127.0.0.1", `,"tls":{"server_name":"other.example.test","insecure_skip_verify":true}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			port, accepted := counting(t)
			h, logs, err := load(t, `{"upstream":"`+name+`:`+port+`"`+tc.settings+`}`)
			if err != nil {
				t.Fatal(err)
			}
			h.resolve(t, map[string]string{name: tc.addresses})
			sess := h.run(t)
			if got := sess.CloseReason(); got != session.Guard || accepted.Load() != 0 {
				t.Errorf("got %v and %d connections, want %v and none", got, accepted.Load(), session.Guard)
			}
			if logs.Len() != 1 || logs.All()[0].Level != zapcore.WarnLevel {
				t.Fatalf("got %v, want one warning", logs.All())
			}
			line, _ := logs.All()[0].ContextMap()["error"].(string)
			if !strings.Contains(line, name) || !strings.Contains(line, "allow_private") {
				t.Errorf("got error %q, want the name and what would permit it", line)
			}
		})
	}
}

// TestGuardPermits checks what passes: what the operator wrote or permits.
func TestGuardPermits(t *testing.T) {
	for _, tc := range []struct{ name, host, settings string }{
		{"T82_allow_private", "name.example.test", `,"allow_private":true`},
		{"off", "name.example.test", `,"guard":"off"`},
		{"literal", "127.0.0.1", ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			port, accepted := counting(t)
			h, _, err := load(t, `{"upstream":"`+tc.host+`:`+port+`"`+tc.settings+`}`)
			if err != nil {
				t.Fatal(err)
			}
			h.resolve(t, map[string]string{"name.example.test": "127.0.0.1"})
			if got := h.run(t).CloseReason(); got != session.Completed || accepted.Load() != 1 {
				t.Errorf("got %v and %d connections, want %v and 1", got, accepted.Load(), session.Completed)
			}
		})
	}
}
