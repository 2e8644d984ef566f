package accesslog

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/testkit/conns"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/modules/session"
)

const (
	client = "192.0.2.1:50000"
	local  = "10.0.0.1:443"
)

// load provisions a handler, with a logger whose entries from a level on can be looked at.
func load(t testing.TB, config string, level zapcore.Level) (*Handler, *observer.ObservedLogs) {
	t.Helper()
	mod, err := modules.Load(t, "layer4.handlers.access_log", config)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(level)
	h := mod.(*Handler)
	h.logger = zap.New(core)
	return h, logs
}

// pass lets a new connection through the handler, with f behind it.
func pass(t testing.TB, h *Handler, f func(*session.Session) error) *session.Session {
	t.Helper()
	cx := conns.New(t, client, local)
	_ = h.Handle(cx, layer4.HandlerFunc(func(cx *layer4.Connection) error { return f(session.Of(cx)) }))
	return session.Of(cx)
}

// line returns the only line of the log.
func line(t *testing.T, logs *observer.ObservedLogs) observer.LoggedEntry {
	t.Helper()
	entries := logs.TakeAll()
	if len(entries) != 1 || entries[0].Message != "connection" {
		t.Fatalf("got %v, want one line about a connection", entries)
	}
	return entries[0]
}

func TestProvision(t *testing.T) {
	for _, tc := range []struct{ config, err string }{
		{`{}`, ""},
		{`{"sample":0.01}`, ""},
		{`{"sample":1}`, ""},
		{`{"sample":0.009}`, "sample: 0.009 is out of range, 0.01 to 1"},
		{`{"sample":1.1}`, "sample: 1.1 is out of range"},
		{`{"sample":-1}`, "sample: -1 is out of range"},
	} {
		_, err := modules.Load(t, "layer4.handlers.access_log", tc.config)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: got error %v, want one with %q", tc.config, err, tc.err)
		}
	}
}

func TestUnmarshalCaddyfile(t *testing.T) {
	for _, tc := range []struct {
		text string
		want float64
		err  string
	}{
		{"access_log", 0, ""},
		{"access_log {\nsample 10%\n}", 0.1, ""},
		{"access_log {\nsample 1%\n}", 0.01, ""},
		{"access_log {\nsample 2.5%\n}", 0.025, ""},
		{"access_log {\nsample 100%\n}", 1, ""},
		{"access_log /var/log", 0, `access_log takes no argument, got "/var/log"`},
		{"access_log {\nsample\n}", 0, "sample needs an argument"},
		{"access_log {\nsample 0.1\n}", 0, `sample: "0.1" is no percentage, such as 10%`},
		{"access_log {\nsample some%\n}", 0, `sample: "some%" is no percentage`},
		{"access_log {\nsample 0%\n}", 0, `sample: "0%" is out of range, 1% to 100%`},
		{"access_log {\nsample 101%\n}", 0, `sample: "101%" is out of range`},
		{"access_log {\nsample NaN%\n}", 0, `sample: "NaN%" is out of range`},
		{"access_log {\nsample 5%\nsample 5%\n}", 0, "sample is given twice"},
		{"access_log {\nformat json\n}", 0, `unrecognized option "format": expected sample`},
	} {
		var h Handler
		err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser(tc.text))
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: got error %v, want one with %q", tc.text, err, tc.err)
		}
		if err == nil && math.Abs(h.Sample-tc.want) > 1e-9 {
			t.Errorf("%q: got %v, want %v", tc.text, h.Sample, tc.want)
		}
	}
}

// columns are the fields that each line has.
var columns = strings.Fields("id remote listener server_name alpn protocol pattern cluster upstream bytes_in bytes_out duration " +
	"preread connect relay reason")

// TestT50_EmptySession checks that a line has all columns when nothing is known.
func TestT50_EmptySession(t *testing.T) {
	h, logs := load(t, `{}`, zap.InfoLevel)
	pass(t, h, func(*session.Session) error { return nil })
	entry := line(t, logs)
	got := entry.ContextMap()
	for _, name := range columns {
		if _, ok := got[name]; !ok {
			t.Errorf("field %s is missing", name)
		}
	}
	for name := range strings.FieldsSeq("server_name alpn protocol pattern cluster upstream") {
		if got[name] != "-" {
			t.Errorf("%s: got %v, want -", name, got[name])
		}
	}
	if len(got) != len(columns) || entry.Level != zap.InfoLevel || got["reason"] != "completed" || got["remote"] != client || got["listener"] != local {
		t.Errorf("got %v %v, want %d fields", entry.Level, got, len(columns))
	}
}

// TestT50_FullSession checks every field of a connection about which all is known.
func TestT50_FullSession(t *testing.T) {
	h, logs := load(t, `{}`, zap.InfoLevel)
	pass(t, h, func(s *session.Session) error {
		s.Set(func() {
			s.Client, s.Peer = conns.Addr("203.0.113.9:1234"), conns.Addr(client)
			s.Hello = &session.Hello{ServerName: "a.example.com", ALPN: protocolList("foo", "h2")}
			s.Pattern, s.Protocol, s.Cluster, s.Upstream = "*.example.com", "h2", "web", "10.0.0.2:443"
			s.Tags = map[string]string{"team": "blue"}
			s.Attempts, s.BytesIn, s.BytesOut = 2, 5, 7
			s.PrereadTime, s.ConnectTime, s.RelayTime = 1*time.Second, 2*time.Second, 3*time.Second
			s.Reason, s.Routed = preread.NoSNI, true
		})
		s.End(session.IdleTimeout)
		return nil
	})
	got := line(t, logs).ContextMap()
	for name, want := range map[string]any{
		"remote": "203.0.113.9:1234", "peer": client, "server_name": "a.example.com", "alpn": "foo,h2", "protocol": "h2",
		"pattern": "*.example.com", "cluster": "web", "upstream": "10.0.0.2:443", "attempts": 2, "bytes_in": int64(5), "bytes_out": int64(7),
		"preread": 1 * time.Second, "connect": 2 * time.Second, "relay": 3 * time.Second, "reason": "idle_timeout", "fallback": "no_sni",
	} {
		if got[name] != want {
			t.Errorf("%s: got %v, want %v", name, got[name], want)
		}
	}
	if tags, ok := got["tags"].(map[string]any); !ok || tags["team"] != "blue" {
		t.Errorf("tags: got %v, want team blue", got["tags"])
	}
}

// protocolList returns a protocol list as it stands in a hello.
func protocolList(names ...string) clienthello.Protocols {
	var list clienthello.Protocols
	for _, name := range names {
		list = append(append(list, byte(len(name))), name...)
	}
	return list
}

// TestClientTextIsBounded checks that what a client chooses can neither break a line nor fill the disk.
func TestClientTextIsBounded(t *testing.T) {
	h, logs := load(t, `{}`, zap.InfoLevel)
	long := strings.Repeat("\n\x1b[31m", 40)
	pass(t, h, func(s *session.Session) error {
		s.Set(func() { s.Hello = &session.Hello{ALPN: protocolList("h2", long, long, long)} })
		return nil
	})
	got := line(t, logs).ContextMap()["alpn"].(string)
	if len(got) != 256 || !strings.HasPrefix(got, `h2,\x0a\x1b[31m`) || !strings.HasSuffix(got, "...") || strings.ContainsAny(got, "\n\x1b") {
		t.Errorf("got %d bytes, %q", len(got), got)
	}
}

// TestReason checks what a line says that nobody of ours ended, and that the first reason stands.
func TestReason(t *testing.T) {
	for _, tc := range []struct {
		name   string
		behind func(*session.Session) error
		want   string
	}{
		{"stock_handler", func(*session.Session) error { return nil }, "completed"},
		{"stock_handler_failed", func(*session.Session) error { return errors.New("an error") }, "error"},
		{"fault", func(*session.Session) error { panic("a fault") }, "internal"},
		{"refused", func(s *session.Session) error { s.End(session.AdmissionProcess); return nil }, "admission_process"},
		{"dial_failed", func(s *session.Session) error { s.End(session.ConnectFailure); return nil }, "connect_failure"},
		{"rejected", func(s *session.Session) error {
			s.Reason = preread.SNIUnmatched
			s.Reject()
			return nil
		}, "preread_sni_unmatched"},
		{"killed", func(s *session.Session) error { s.Stop(session.Killed); return errors.New("closed") }, "killed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, logs := load(t, `{}`, zap.InfoLevel)
			pass(t, h, tc.behind)
			var lines []observer.LoggedEntry
			for _, entry := range logs.All() {
				if entry.Message == "connection" {
					lines = append(lines, entry)
				}
			}
			if len(lines) != 1 || lines[0].ContextMap()["reason"] != tc.want {
				t.Errorf("T48: got %v, want one line with reason %s", lines, tc.want)
			}
		})
	}
}

// TestHandedOver checks that the line comes when the HTTP app has closed the connection, with its counts.
func TestHandedOver(t *testing.T) {
	h, logs := load(t, `{}`, zap.InfoLevel)
	sess := pass(t, h, func(s *session.Session) error {
		s.End(session.HandedOver)
		return errors.New("handed over")
	})
	if logs.Len() != 0 {
		t.Fatalf("got %v while it is open", logs.All())
	}
	sess.Closed(11, 22)
	got := line(t, logs).ContextMap()
	if got["reason"] != "handed_over" || got["bytes_in"] != int64(11) || got["bytes_out"] != int64(22) {
		t.Errorf("got %v", got)
	}
}

// TestLevels checks what is written at which level.
func TestLevels(t *testing.T) {
	for _, tc := range []struct {
		name   string
		level  zapcore.Level
		silent bool
		want   string
	}{
		{"info", zap.InfoLevel, false, "connection info"},
		{"S05_without_a_byte", zap.InfoLevel, true, ""},
		{"debug", zap.DebugLevel, false, "connection accepted debug, connection info"},
		{"S05_without_a_byte_debug", zap.DebugLevel, true, "connection accepted debug, connection debug"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, logs := load(t, `{}`, tc.level)
			pass(t, h, func(s *session.Session) error {
				if s.Silent = tc.silent; s.Silent {
					s.End(session.ForPreread(preread.FrontClosed))
				}
				return nil
			})
			var got []string
			for _, entry := range logs.All() {
				got = append(got, entry.Message+" "+entry.Level.String())
			}
			if strings.Join(got, ", ") != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestChosen checks which connections a share leaves out.
func TestChosen(t *testing.T) {
	for _, tc := range []struct {
		reason        session.CloseReason
		share, random float64
		want          bool
	}{
		{session.Completed, 0.1, 0.0999, true},
		{session.Completed, 0.1, 0.1, false},
		{session.Completed, 1, 0.9999999, true},
		{session.HandedOver, 0.1, 0.5, false},
		{session.Error, 0.1, 0.5, true},
		{session.AdmissionSourceIP, 0.1, 0.5, true},
		{session.ForPreread(preread.NotTLS), 0.1, 0.5, true},
	} {
		if got := chosen(tc.reason, tc.share, tc.random); got != tc.want {
			t.Errorf("%v, share %v, random %v: got %v, want %v", tc.reason, tc.share, tc.random, got, tc.want)
		}
	}
}

// TestSample checks that the share is about right. A result this far off comes once in a billion runs.
func TestSample(t *testing.T) {
	h, logs := load(t, `{"sample":0.5}`, zap.InfoLevel)
	const n = 1000
	for range n {
		pass(t, h, func(*session.Session) error { return nil })
	}
	if got := logs.Len(); got < 400 || got > 600 {
		t.Errorf("got %d lines for %d connections, want about half", got, n)
	}
}

// TestEndedSession checks that a session which was stopped goes no further, and has a line.
func TestEndedSession(t *testing.T) {
	h, logs := load(t, `{}`, zap.InfoLevel)
	cx := conns.New(t, client, local)
	session.Of(cx).End(session.Killed)
	_ = h.Handle(cx, layer4.HandlerFunc(func(*layer4.Connection) error {
		t.Error("got a call of next")
		return nil
	}))
	if got := line(t, logs).ContextMap()["reason"]; got != "killed" {
		t.Errorf("got %v, want killed", got)
	}
}

func BenchmarkHandle(b *testing.B) {
	h, _ := load(b, `{}`, zap.InfoLevel)
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	for name, core := range map[string]zapcore.Core{
		"off":  zapcore.NewNopCore(),
		"json": zapcore.NewCore(encoder, zapcore.AddSync(discard{}), zap.InfoLevel),
	} {
		b.Run(name, func(b *testing.B) {
			h.logger = zap.New(core)
			cx := conns.New(b, client, local)
			next := layer4.HandlerFunc(func(*layer4.Connection) error { return nil })
			b.ReportAllocs()
			for b.Loop() {
				_ = h.Handle(cx, next)
			}
		})
	}
}

// discard writes nowhere.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
