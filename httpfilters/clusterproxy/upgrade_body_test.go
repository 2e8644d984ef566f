package clusterproxy

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// TestUpgradeBodyIsNotKept checks that a request that may become a stream of another protocol isn't sent again once some of
// its body was, as one that stays HTTP is.
func TestUpgradeBodyIsNotKept(t *testing.T) {
	for _, tc := range []struct {
		name, header string
		want         int32
	}{
		{"http", "X-Upgrade: none", 2},
		{"upgrade", "Connection: Upgrade\r\nUpgrade: websocket", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := resetAfter(t, 1)
			s := newSite(t, web([]string{b.address}, retryAll(object{"max": 1})), nil)
			c := sites.Dial(t, s.Server)
			fmt.Fprint(c, lines("POST / HTTP/1.1", "Host: a.example", tc.header, "Content-Length: 4")+"body")
			if m, err := readMessage(c.Reader); err != nil || m.line != "HTTP/1.1 502 "+http.StatusText(http.StatusBadGateway) {
				t.Errorf("got %q, %v, want 502", m.line, err)
			}
			if got := b.accepted.Load(); got != tc.want {
				t.Errorf("got %d attempts, want %d", got, tc.want)
			}
			_ = c.Close()
			s.idle(t)
		})
	}
}
