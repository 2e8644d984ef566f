//go:build unix

package forward

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/modules/session"
)

// hang makes a handler wait for a name server that says nothing, and tells when it has begun to.
func (h *Handler) hang() (asked <-chan struct{}) {
	began := make(chan struct{}, 10)
	h.dialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		began <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	return began
}

// TestClientLeavesWhileConnecting checks that a reset ends the connecting, and that the end of the client's stream
// does not, with and without bytes that nobody has read.
func TestClientLeavesWhileConnecting(t *testing.T) {
	for _, tc := range []struct {
		name  string
		sends int
		ends  bool
	}{{"silent", 0, false}, {"unread_bytes", 1000, false}, {"after_the_end_of_its_stream", 10, true}} {
		t.Run(tc.name, func(t *testing.T) {
			h, _, err := load(t, `{"upstream":"name.example.test:443","connect_timeout":"5m"}`)
			if err != nil {
				t.Fatal(err)
			}
			asked := h.hang()
			client, server := newPair(t)
			_, _ = client.Write(make([]byte, tc.sends))
			if tc.ends {
				_ = client.CloseWrite()
			}
			cx := layer4.WrapConnection(server, nil, zap.NewNop())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = h.Handle(cx, behind(t))
			}()
			<-asked
			select {
			case <-done:
				t.Fatalf("got %v while the client is there", session.Of(cx).CloseReason())
			case <-time.After(2 * departureAfter):
			}
			_, _ = client.SetLinger(0), client.Close()
			<-done
			if got := session.Of(cx).CloseReason(); got != session.ClientGone {
				t.Errorf("got %v, want %v", got, session.ClientGone)
			}
		})
	}
}

// TestS12_EndWhileConnecting has a client that ends its stream while the upstream takes its time: bytes and end
// arrive, and the connection can be read from afterwards.
func TestS12_EndWhileConnecting(t *testing.T) {
	client, server := newPair(t)
	d := watchDeparture(server, func() { t.Error("got a departure, want none") })
	d.timer.Reset(0)
	_, _ = client.Write([]byte("hello"))
	_ = client.CloseWrite()
	time.Sleep(20 * time.Millisecond) // the watch has what would mislead it
	d.stop()
	if got, err := io.ReadAll(server); string(got) != "hello" || err != nil {
		t.Errorf("got %q, %v, want all of it and the end", got, err)
	}
}

// TestDepartureStops checks the watch's end before it has begun, and that other connections than TCP have none.
func TestDepartureStops(t *testing.T) {
	_, server := newPair(t)
	watchDeparture(server, func() { t.Error("got a departure, want none") }).stop()
	watchDeparture(pipe(t), func() { t.Error("got a departure, want none") }).stop()
}
