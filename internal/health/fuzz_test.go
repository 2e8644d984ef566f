package health

import (
	"testing"
	"time"
)

// FuzzCluster has a random history of a few endpoints. Laws, after each step:
//   - all counts are at least 0, and a part is never more than its whole;
//   - no more endpoints are ejected than the cap allows, and none that is forced up;
//   - what is offered is available, unless there is a panic or a trial; nothing that was taken out by hand is;
//   - while one endpoint is available and there is no threshold, one is offered;
//   - a neutral outcome changes no streak;
//   - while an endpoint is healthy, no attempt changes the failures of its checks, and no check those of its attempts;
//   - a view holds until its end: asking again just before it gives the same one, whatever was asked in between;
//   - at the end, nothing is left.
func FuzzCluster(f *testing.F) {
	f.Add([]byte{3, 0, 0, 0, 1, 1, 1, 0, 2, 0, 2, 3, 9, 9})
	f.Add([]byte{2, 255, 0, 1, 0, 1, 0, 1, 0, 1, 3, 40, 0, 1, 4, 0, 5, 0})
	f.Add([]byte{7, 83, 12, 16, 6, 9, 3, 200, 6, 0, 0, 2, 0, 2, 0, 2, 3, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 4 {
			return
		}
		h := newHistory(t, data[:4])
		for data = data[4:]; len(data) >= 2; data = data[2:] {
			h.step(data[0], int(data[1]))
			h.laws()
		}
		for _, a := range h.open {
			a.Done(Outcome{Kind: Aborted}, h.now)
			a.r.Finish()
		}
		for _, k := range h.conns {
			k.Close()
		}
		h.laws()
		h.wantIdle()
	})
}

// history is a rig with what goes on in it.
type history struct {
	*rig
	cfg   *Config
	n     int
	open  []*Attempt
	conns []*Conn
	modes []Mode
}

// newHistory reads a policy.
func newHistory(t *testing.T, data []byte) *history {
	t.Helper()
	cfg := &Config{Retry: retries(2), PanicPercent: int(data[2]) % 101, Refuse: data[2] > 150}
	if data[1]&1 != 0 {
		cfg.Active = Thresholds{1 + int(data[1]>>1&1), 1 + int(data[1]>>2&1)}
	}
	if data[1]&8 != 0 {
		cfg.Passive = Passive{Thresholds: Thresholds{int(data[1] >> 4 & 1), 1 + int(data[1]>>5&1)}, RetryAfter: 7 * time.Second}
	}
	if data[1]&64 != 0 {
		cfg.SlowStart = SlowStart{Window: 20 * time.Second, AfterEjection: data[1]&128 != 0}
	}
	cfg.Outlier = Outlier{ConsecutiveFailures: int(data[3] % 4), Time: 5 * time.Second, MaxPercent: 1 + int(data[3]>>2)}
	if data[3]&3 == 3 {
		cfg.Outlier.MaxTime = 20 * time.Second
	}
	n := 1 + int(data[0]%6)
	h := &history{rig: newRig(t, cfg, n), cfg: cfg, n: n, modes: make([]Mode, n)}
	return h
}

// step does one thing with a number.
func (h *history) step(what byte, x int) {
	i := x % h.n
	switch what % 7 {
	case 0, 1:
		h.attempt(x)
	case 2:
		h.settle(x)
	case 3:
		h.now = h.now.Add(time.Duration(x) * 100 * time.Millisecond)
	case 4:
		e := h.endpoint(i)
		h.keeps(e, ByTraffic, func() { h.c.Check(e, x&64 != 0, h.now) })
	case 5:
		h.modes[i] = Mode(x / h.n % 4)
		h.c.Override(h.endpoint(i).Key(), Override{Mode: h.modes[i]}, h.now)
	case 6:
		k := new(Conn)
		if h.c.Dial(k, h.endpoint(i)) == Granted {
			h.conns = append(h.conns, k)
		}
		k = h.conns[x%len(h.conns)]
		[]func(){k.Connected, k.Idle, k.Reused, k.Close}[x/h.n%4]()
	}
}

// attempt begins an attempt at an endpoint that is offered.
func (h *history) attempt(x int) {
	v := h.c.View(h.now)
	for k := range h.n {
		if i := (x + k) % h.n; v.Offers(i) {
			h.open = append(h.open, h.try(h.admit(), i))
			return
		}
	}
}

// settle ends an attempt. What is to be tried again isn't: its request ends in the wait.
func (h *history) settle(x int) {
	if len(h.open) == 0 {
		return
	}
	i := x % len(h.open)
	a := h.open[i]
	h.open = append(h.open[:i], h.open[i+1:]...)
	before := h.streaks(a.e)
	kind := Kind(x / 7 % int(kindCount))
	h.keeps(a.e, ByCheck, func() {
		if x&1 != 0 {
			f := failure(kind)
			f.Reused = x&2 != 0
			kind = a.Fail(f, uint64(x)<<56, h.now).Outcome.Kind
		} else {
			a.Done(Outcome{Kind: kind}, h.now)
		}
	})
	if after := h.streaks(a.e); (kind == Stale || kind == Aborted) && after != before {
		h.t.Fatalf("%v: got %+v, want %+v", kind, after, before)
	}
	a.r.Finish()
}

// keeps does something that must not change the failures of a source, unless health changes with it.
func (h *history) keeps(e *Endpoint, of Source, do func()) {
	before := e.streaks
	do()
	if e.streaks.down == before.down && e.streaks.failures[of] != before.failures[of] {
		h.t.Fatalf("%s: got %+v after %+v", e.key, e.streaks, before)
	}
}

func (h *history) streaks(e *Endpoint) [3]int {
	for _, s := range h.c.Statuses(h.now) {
		if s.Key == e.Key() {
			return [3]int{s.Successes, s.Failures, s.Consecutive}
		}
	}
	h.t.Fatalf("%s is not known", e.Key())
	return [3]int{}
}

func (h *history) laws() {
	h.t.Helper()
	v, s := h.c.View(h.now), h.c.Stats()
	if s.RequestsActive < s.RetriesActive || s.RetriesActive < 0 || s.ConnectionsActive < s.PendingActive || s.PendingActive < 0 {
		h.t.Fatalf("got %+v", s)
	}
	if s.EjectedNow*100 > h.n*h.cfg.Outlier.MaxPercent {
		h.t.Fatalf("got %d of %d ejected, want at most %d %%", s.EjectedNow, h.n, h.cfg.Outlier.MaxPercent)
	}
	available, attempts := 0, int64(0)
	for i, e := range h.c.Statuses(h.now) {
		attempts += e.Attempts
		closed := h.modes[i] == Drain || h.modes[i] == Disabled
		switch {
		case v.Offers(i) && closed:
			h.t.Fatalf("%d is offered, and %v", i, e.Reason)
		case v.Offers(i) && !e.Reason.Available() && !e.Trial && v.Stance() != FailOpen:
			h.t.Fatalf("%d is offered, and %v, in stance %v", i, e.Reason, v.Stance())
		case h.modes[i] == Up && (e.Reason == Ejected || !e.EjectedUntil.IsZero()):
			h.t.Fatalf("%d is ejected, though it is up by hand", i)
		}
		if e.Reason.Available() {
			available++
		}
	}
	switch {
	case available != v.Available():
		h.t.Fatalf("got %d available, want %d", v.Available(), available)
	case available > 0 && h.cfg.PanicPercent == 0 && (v.Stance() != Normal || v.Offered() < available):
		h.t.Fatalf("got %d offered in stance %v, and %d available", v.Offered(), v.Stance(), available)
	case attempts > s.RequestsActive:
		h.t.Fatalf("got %d attempts in %d requests", attempts, s.RequestsActive)
	case !v.Until().IsZero() && h.c.View(v.Until().Add(-1)) != v, h.c.View(h.now) != v:
		h.t.Fatalf("got another view before %v", v.Until())
	}
}
