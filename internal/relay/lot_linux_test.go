package relay

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// spots counts the parked directions.
func (l *lot) spots() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.parked)
}

// parkedRig is a relay that has moved some bytes both ways and then been left alone until both directions are parked.
func parkedRig(t *testing.T) *rig {
	t.Helper()
	b := prepare(t, tcpPair, tcpPair).start(t)
	send(t, b.client, []byte("ping"))
	receive(t, b.backend, "ping")
	send(t, b.backend, []byte("pong"))
	receive(t, b.client, "pong")
	eventually(t, "both directions are parked", func() bool { return sharedLot().spots() == 2 })
	return b
}

func TestParkAndGoOn(t *testing.T) {
	b := parkedRig(t)
	// The far ends' writes bring one direction back each, which then is on a goroutine for a while.
	for i := range 3 {
		text := fmt.Sprint("again ", i)
		send(t, b.client, []byte(text))
		receive(t, b.backend, text)
		send(t, b.backend, []byte(text))
		receive(t, b.client, text)
	}
	eventually(t, "both directions are parked again", func() bool { return sharedLot().spots() == 2 })
	data := random(t, 3<<20)
	go send(t, b.backend, data)
	receive(t, b.client, string(data))
	b.client.CloseWrite()
	b.backend.CloseWrite()
	b.expect(t, Completed, 4+3*7, 4+3*7+len(data))
}

func TestParkedEndings(t *testing.T) {
	for name, tc := range map[string]struct {
		do  func(t *testing.T, b *rig)
		end End
	}{
		"both end":        {func(_ *testing.T, b *rig) { b.client.CloseWrite(); b.backend.CloseWrite() }, Completed},
		"client closes":   {func(_ *testing.T, b *rig) { b.client.CloseWrite(); b.backend.Close() }, Completed},
		"client resets":   {func(t *testing.T, b *rig) { abortConn(t, b.client) }, ClientAborted},
		"backend resets":  {func(t *testing.T, b *rig) { abortConn(t, b.backend) }, BackendAborted},
		"stop":            {func(_ *testing.T, b *rig) { b.Stop() }, Stopped},
		"stop repeatedly": {func(_ *testing.T, b *rig) { b.Stop(); b.Stop() }, Stopped},
	} {
		t.Run(name, func(t *testing.T) {
			b := parkedRig(t)
			tc.do(t, b)
			b.expect(t, tc.end, 4, 4)
			if n := sharedLot().spots(); n != 0 {
				t.Errorf("parked after the end: got %d, want 0", n)
			}
		})
	}
}

// One direction has ended, the other one is parked and still works.
func TestParkedHalf(t *testing.T) {
	b := prepare(t, tcpPair, tcpPair).start(t)
	b.client.CloseWrite()
	eventually(t, "the other direction is parked", func() bool { return sharedLot().spots() == 1 })
	if !b.HalfClosed() {
		t.Error("not half-closed")
	}
	send(t, b.backend, []byte("late"))
	receive(t, b.client, "late")
	b.backend.CloseWrite()
	b.expect(t, Completed, 0, 4)
}

// A direction in use for longer than restAfter does not park in between. A machine that is busy elsewhere may hold up the
// test for so long that it has to: such a round says nothing.
func TestBusyStaysAwake(t *testing.T) {
	b := prepare(t, tcpPair, tcpPair).start(t)
	tick := time.NewTicker(restAfter / 10)
	defer tick.Stop()
	for range 40 {
		used := time.Now()
		send(t, b.client, []byte("x"))
		receive(t, b.backend, "x")
		send(t, b.backend, []byte("y"))
		receive(t, b.client, "y")
		<-tick.C
		if n := sharedLot().spots(); n != 0 && time.Since(used) < restAfter {
			t.Errorf("parked while in use: got %d directions, want none", n)
		}
	}
}

// Parked connections have one goroutine each, that of Run, and the lot has one for all.
func TestParkedGoroutines(t *testing.T) {
	const relays = 50
	noLeaks(t)
	pool := ownPipes(t)
	before := runtime.NumGoroutine()
	rigs := make([]*rig, relays)
	for i := range rigs {
		rigs[i] = connect(t, pool, tcpPair, tcpPair).start(t)
	}
	eventually(t, "all are parked", func() bool { return sharedLot().spots() == 2*relays })
	eventually(t, "their goroutines have gone", func() bool { return runtime.NumGoroutine() <= before+relays+1 })
	for i, b := range rigs {
		text := fmt.Sprint("relay ", i)
		send(t, b.client, []byte(text))
		receive(t, b.backend, text)
	}
}

// Spots are never given twice at a time, also when the numbers begin again.
func TestSpotsWrap(t *testing.T) {
	l := &lot{parked: map[spot]*direction{1: {}, 2: {}}, last: 1<<31 - 2}
	for _, want := range []spot{1<<31 - 1, 3} {
		if got := l.free(); got != want {
			t.Errorf("spot: got %d, want %d", got, want)
		}
	}
}
