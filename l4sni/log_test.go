package l4sni

import (
	"testing"
	"testing/synctest"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/modules/session"
)

// TestRejectionLog checks the line about a connection that is refused: who it was, and what its hello said, with
// nothing in it that a terminal or a log reader would take for its own.
func TestRejectionLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sending{reason: preread.SNIUnmatched, bytes: hello("Unknown.Example.NET", "h2", "a\nb,\x1b[31m\\\xff")}
		o := serve(t, testRouter(`,"alert":"off"`), s, nil)
		if o.logs.Len() != 1 {
			t.Fatalf("got %d log entries, want 1", o.logs.Len())
		}
		got := o.logs.All()[0].ContextMap()
		for field, want := range map[string]any{
			"remote":      "192.0.2.1:40000",
			"listener":    "192.0.2.2:443",
			"reason":      "sni_unmatched",
			"server_name": "unknown.example.net",
			"alpn":        `h2,a\x0ab\x2c\x1b[31m\x5c\xff`,
		} {
			if got[field] != want {
				t.Errorf("got %s %q, want %q", field, got[field], want)
			}
		}
		if _, ok := got["duration"]; !ok {
			t.Error("got no duration")
		}
	})
}

// TestHostileName checks that a name which no host can have stays out of log, session and placeholders.
func TestHostileName(t *testing.T) {
	for _, name := range []string{"a\x00.example.com", "a\nb.example.com", "a b.example.com", "ä.example.com", "a/b.example.com"} {
		synctest.Test(t, func(t *testing.T) {
			o := serve(t, testRouter(""), sending{bytes: hello(name)}, nil)
			if o.sess.Reason != preread.NoSNI || o.sess.Hello.ServerName != "" {
				t.Errorf("got %v and name %q, want no_sni and none", o.sess.Reason, o.sess.Hello.ServerName)
			}
			if got := o.cx.Replacer().ReplaceAll("{l4.sluice.sni}", ""); got != "" {
				t.Errorf("got placeholder %q, want none", got)
			}
			if got := o.logs.All()[0].ContextMap()["server_name"]; got != "" {
				t.Errorf("got server_name %q in the log, want none", got)
			}
		})
	}
}

// TestNoLogAtInfo checks that a rejection costs no log entry where debug is off.
func TestNoLogAtInfo(t *testing.T) {
	router, logs := newRouter(t, testRouter(""))
	router.logger = router.logger.WithOptions(zap.IncreaseLevel(zap.InfoLevel))
	seenOf(t, &script{data: []byte("GET /")}, chain{router})
	if logs.Len() != 0 {
		t.Errorf("got %d log entries, want none", logs.Len())
	}
}

// TestPrereadLeavesRejects checks that a preread closes a connection itself only when the client is gone or not who it
// should be, and that it never writes to it.
func TestPrereadLeavesRejects(t *testing.T) {
	each(t, func(t *testing.T, s sending) {
		config := s.preread
		if config == "" {
			config = "{}"
		}
		pre, logs := newPreread(t, config)
		before := count(t)
		_, server := s.connect(t)
		cx := layer4.WrapConnection(server, nil, zap.NewNop())
		if err := pre.Handle(cx, end); err != nil {
			t.Fatal(err)
		}
		checkQuiet(t, logs)
		sess := session.Of(cx)
		if sess.Routed || !sess.Preread || sess.Reason == preread.None && !s.hello {
			t.Errorf("got routed %v, preread %v, reason %v", sess.Routed, sess.Preread, sess.Reason)
		}
		want := counts{"duration_seconds": 1}
		if s.hello {
			want["hello_size_bytes"], want["hello_records"] = 1, 1
		}
		if closes(s.reason) {
			checkPath(t, cx)
			want["rejected_total "+s.reason.String()] = 1
		} else {
			checkPath(t, cx, "end")
		}
		checkCounts(t, before, want)
	})
}
