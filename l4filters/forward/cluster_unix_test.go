//go:build unix

package forward

import (
	"testing"

	"github.com/caddy-sluice/sluice/modules/session"
)

// TestLeavesDuringBackoff has a client that resets its connection while a retry waits, and one whose session is stopped.
func TestLeavesDuringBackoff(t *testing.T) {
	for _, tc := range []struct {
		name  string
		leave func(*visit)
		want  session.CloseReason
	}{
		{"Z80_client", func(v *visit) { _, _ = v.client.SetLinger(0), v.client.Close() }, session.ClientGone},
		{"stopped", func(v *visit) { v.sess.Stop(session.Killed) }, session.Killed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, endpoints(closed(t), closed(t))+`,"retry":{"max":5,"backoff_base":"1h","backoff_cap":"1h"}`, `,"connect_timeout":"5m"`)
			v := s.visit(t, "192.0.2.7")
			eventually(t, func() (string, bool) {
				return "got no failure", s.logs.FilterMessage("connecting to endpoint failed").Len() == 1
			})
			tc.leave(v)
			<-v.done
			if got := v.sess.CloseReason(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			s.wantIdle(t)
			if got := s.loud(); len(got) > 0 {
				t.Errorf("got %v, want nothing loud", got)
			}
		})
	}
}
