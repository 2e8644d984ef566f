package l4sni

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/modules/session"
)

// drip writes a hello byte by byte, with a pause before each.
func drip(client io.Writer, hello []byte, pause time.Duration) {
	for i := range hello {
		time.Sleep(pause)
		if _, err := client.Write(hello[i : i+1]); err != nil {
			return
		}
	}
}

// TestDeadline checks when an undecided connection is, and is not, ended.
func TestDeadline(t *testing.T) {
	const timeout = preread.DefaultTimeout
	whole := hello("a.example.com")
	for _, tc := range []struct {
		name    string
		client  func(*duplex)
		kind    preread.Kind
		reason  preread.Reason
		elapsed time.Duration
	}{
		{"S08_silence", func(*duplex) {}, preread.Reject, preread.Fragmented, timeout},
		{"S09_drip", func(c *duplex) { drip(c, whole, timeout/10) }, preread.Reject, preread.Fragmented, timeout},
		{"half_a_hello", func(c *duplex) { drip(c, whole[:30], 0) }, preread.Reject, preread.Fragmented, timeout},
		{"hello_just_before", func(c *duplex) {
			time.Sleep(timeout - 1)
			_, _ = c.Write(whole)
		}, preread.Routed, preread.None, timeout - 1},
		{"last_byte_just_before", func(c *duplex) {
			_, _ = c.Write(whole[:len(whole)-1])
			time.Sleep(timeout - 1)
			_, _ = c.Write(whole[len(whole)-1:])
		}, preread.Routed, preread.None, timeout - 1},
		{
			"steady_and_in_time", func(c *duplex) { drip(c, whole, timeout/100) }, preread.Routed, preread.None,
			time.Duration(len(whole)) * timeout / 100,
		},
		{"end_of_stream", func(c *duplex) {
			_, _ = c.Write(whole[:20])
			time.Sleep(timeout / 2)
			_ = c.CloseWrite()
		}, preread.Reject, preread.FrontClosed, timeout / 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := newDuplex(t)
				play(t, client, tc.client)
				start := time.Now()
				r := read(capped(t, 32768), server, nil)
				r.check(t, tc.kind, tc.reason)
				if r.silent() {
					t.Error("got silent, want a reason that is counted")
				}
				if got := time.Since(start); got != tc.elapsed || r.sess.PrereadTime != got {
					t.Errorf("got a verdict after %v (%v in the session), want %v", got, r.sess.PrereadTime, tc.elapsed)
				}
			})
		})
	}
}

// TestDeadlineFromSessionStart checks that time spent in earlier handlers counts.
func TestDeadlineFromSessionStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, server := newDuplex(t)
		cx := layer4.WrapConnection(server, nil, zap.NewNop())
		sess := session.Of(cx)
		time.Sleep(4 * time.Second)
		r := capped(t, 32768).read(cx, sess)
		if got := time.Since(sess.Start); r.err != nil || r.verdict.Reason != preread.Fragmented || got != preread.DefaultTimeout {
			t.Errorf("got %v, %v after %v, want fragmented after %v", r.verdict.Reason, r.err, got, preread.DefaultTimeout)
		}
	})
}

// TestNoDeadlineAfterwards checks that a routed connection may be silent for as long as it likes, and so may one that
// a fallback takes after the deadline.
func TestNoDeadlineAfterwards(t *testing.T) {
	for name, sent := range map[string][]byte{"routed": hello("a.example.com"), "fragmented": hello("a.example.com")[:20]} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := newDuplex(t)
				play(t, client, func(c *duplex) {
					_, _ = c.Write(sent)
					time.Sleep(time.Hour)
					_, _ = c.Write([]byte("late"))
					_ = c.CloseWrite()
				})
				r := read(capped(t, 32768), server, nil)
				if got, err := io.ReadAll(r.cx); string(got) != string(sent)+"late" || err != nil {
					t.Errorf("got %q, %v, want all that was sent", got, err)
				}
			})
		})
	}
}

// TestActive checks that a connection counts as active from its start until it has a place to go.
func TestActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router, _ := newRouter(t, `{"routes":[{"names":["a.example.com"],"handle":[{"handler":"probe","do":"handover"}]}]}`)
		before := count(t)
		client, server := newDuplex(t)
		done := make(chan error)
		go func() { done <- router.Handle(layer4.WrapConnection(server, nil, zap.NewNop()), end) }()
		synctest.Wait()
		checkCounts(t, before, counts{"active": 1})

		_, _ = client.Write(hello("a.example.com")[:20])
		synctest.Wait()
		checkCounts(t, before, counts{"active": 1})

		_, _ = client.Write(hello("a.example.com")[20:])
		synctest.Wait()
		routed := counts{"routed_total": 1, "duration_seconds": 1, "hello_size_bytes": 1, "hello_records": 1}
		checkCounts(t, before, routed)

		_ = client.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		checkCounts(t, before, routed)
	})
}
