package forward

import (
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/testkit/conns"
	"github.com/caddy-sluice/sluice/modules/session"
)

// TestZ119_Blackhole has endpoints that never answer: each gets its share of the time, five seconds by default, and all
// together no more than there is.
func TestZ119_Blackhole(t *testing.T) {
	hole, list := conns.Blackhole(t), servers(t, 1)
	for _, tc := range []struct {
		name, config, settings string
		want                   session.CloseReason
		least, most            time.Duration
		// failures is how many the first endpoint is blamed for.
		failures int
	}{
		{
			"Z119_next_endpoint", endpoints(hole, list[0].address), `,"connect_timeout":"4s"`,
			session.Completed, 2 * time.Second, 3500 * time.Millisecond, 1,
		},
		{
			"Z119_per_try_timeout", endpoints(hole, list[0].address) + `,"per_try_timeout":"500ms"`, ``,
			session.Completed, 500 * time.Millisecond, 4 * time.Second, 1,
		},
		{
			"Z119_request_timeout", endpoints(hole, list[0].address) + `,"request_timeout":"300ms"`, ``,
			session.ConnectFailure, 300 * time.Millisecond, 4 * time.Second, 0,
		},
		{
			"Z119_all", endpoints(hole, conns.Blackhole(t)), `,"connect_timeout":"500ms"`,
			session.ConnectFailure, 500 * time.Millisecond, 1900 * time.Millisecond, 1,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, tc.config+first+`,"passive":{"fall":9}`, tc.settings)
			v := s.visit(t, "192.0.2.7")
			if tc.want == session.Completed {
				v.at(t)
				v.leave()
			}
			<-v.done
			if got := v.sess.CloseReason(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if took := v.sess.ConnectTime; took < tc.least || took > tc.most {
				t.Errorf("got %v to connect, want %v to %v", took, tc.least, tc.most)
			}
			s.wantIdle(t)
			if got := s.endpoint(t, hole).Failures; got != tc.failures {
				t.Errorf("got a streak of %d failures, want %d", got, tc.failures)
			}
		})
	}
}
