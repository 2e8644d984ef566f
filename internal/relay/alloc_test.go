//go:build !race

package relay

import "testing"

// A relay allocates a fixed little, and nothing for each message.
func TestAllocations(t *testing.T) {
	const most = 8
	t.Run("relay", func(t *testing.T) {
		b := prepare(t, unixPair, unixPair)
		b.client.Close()
		b.backend.Close()
		got := testing.AllocsPerRun(100, func() {
			r := &Relay{Client: b.Client, Backend: b.Backend}
			if end, err := r.Run(); end != Completed {
				t.Errorf("got %v (%v), want %v", end, err, Completed)
			}
		})
		if got > most {
			t.Errorf("allocations: got %v, want at most %d", got, most)
		}
	})
	t.Run("message", func(t *testing.T) {
		b := prepare(t, tcpPair, tcpPair).start(t)
		buf := make([]byte, 100)
		if got := testing.AllocsPerRun(1000, func() { roundTrip(t, b.client, b.backend, buf) }); got >= 1 {
			t.Errorf("allocations: got %v, want none", got)
		}
	})
}
