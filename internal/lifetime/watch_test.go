package lifetime

import (
	"testing"
	"time"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// every returns events of one kind, step by step until the end.
func every(step, end time.Duration, k kind) []event {
	var events []event
	for at := step; at <= end; at += step {
		events = append(events, event{at, k})
	}
	return events
}

func TestWatch(t *testing.T) {
	steady := every(50*ms, 5*s, relayed)
	for _, tc := range []struct {
		name   string
		limits Limits
		events []event
		want   Expiry
		at     time.Duration
	}{
		{"no_limits", Limits{}, steady, None, 5 * s},
		{"negative_is_off", Limits{-1, -1, -1, -1}, []event{{s, finished}}, None, s},
		{"T37_session_busy", Limits{Session: 500 * ms}, steady, Session, 500 * ms},
		{"T38_session_idle", Limits{Session: 500 * ms}, nil, Session, 500 * ms},
		{"T38_session_idle_for_less", Limits{Session: 500 * ms, Idle: 501 * ms}, nil, Session, 500 * ms},
		{"T39_max_busy", Limits{Max: s}, steady, Max, s},
		{"T39_max_idle", Limits{Max: s}, nil, Max, s},
		{"T40_session_shorter", Limits{Session: 500 * ms, Max: s}, steady, Session, 500 * ms},
		{"T40_max_shorter", Limits{Session: s, Max: 500 * ms}, steady, Max, 500 * ms},
		{"T40_equal", Limits{Session: s, Max: s}, steady, Session, s},
		{"half_close_busy", Limits{HalfClose: s}, append([]event{{20 * ms, finished}}, steady...), HalfClose, 1020 * ms},
		{"half_close_first_call_counts", Limits{HalfClose: s}, []event{{20 * ms, finished}, {900 * ms, finished}}, HalfClose, 1020 * ms},
		{"half_close_at_the_start", Limits{HalfClose: s}, []event{{0, finished}}, HalfClose, s},
		{"half_close_never", Limits{HalfClose: s}, steady, None, 5 * s},
		{"half_close_after_session", Limits{HalfClose: s, Session: s}, []event{{1, finished}}, Session, s},
		{"half_close_before_session", Limits{HalfClose: s, Session: 2 * s}, []event{{1, finished}}, HalfClose, s + 1},
		{"Z118_half_open_and_idle", Limits{Idle: 800 * ms}, []event{{100 * ms, relayed}, {200 * ms, finished}}, Idle, 900 * ms},
		{"Z118_half_open_and_idle_for_less", Limits{Idle: 800 * ms, HalfClose: 300 * ms}, []event{{100 * ms, finished}}, HalfClose, 400 * ms},
		{"due_at_once_hard_first", Limits{Idle: s, Max: s, HalfClose: s}, []event{{0, finished}}, Max, s},
		{"due_at_once_half_close_before_idle", Limits{Idle: s, HalfClose: s}, []event{{0, finished}}, HalfClose, s},
	} {
		for name, known := range map[string]bool{"/age_known": true, "/age_unknown": false} {
			t.Run(tc.name+name, func(t *testing.T) {
				sim := sim{limits: tc.limits, events: tc.events, known: known}
				if got := sim.run(t); got != tc.want || sim.now != tc.at {
					t.Errorf("got %v at %v, want %v at %v", got, sim.now, tc.want, tc.at)
				}
			})
		}
	}
}

func TestIdle(t *testing.T) {
	const limit = 800 * ms
	for _, tc := range []struct {
		name   string
		known  bool
		events []event
		at     time.Duration
		looks  int
	}{
		{"from_the_start", true, nil, 800 * ms, 3},
		{"from_the_last_byte", true, []event{{123 * ms, relayed}}, 923 * ms, 4},
		{"busy", true, every(50*ms, 7*s, relayed), 7*s + limit, 13},
		{"byte_between_the_looks", true, []event{{750 * ms, relayed}}, 1550 * ms, 5},
		{"byte_at_the_limit", true, []event{{800 * ms, relayed}}, 1600 * ms, 5},
		{"byte_that_can_not_be_moved", true, []event{{750 * ms, stalled}}, 1550 * ms, 5},
		{"drained_before_the_looks", true, []event{{600 * ms, drained}}, 800 * ms, 3},
		{"slow_reader", true, every(90*ms, 3*s, drained), 3*s + 800*ms, 33},
		{"slow_reader_then_a_byte", true, append(every(90*ms, 990*ms, drained), event{s, relayed}), 1800 * ms, 7},
		{"unknown_from_the_start", false, nil, 800 * ms, 9},
		{"unknown_after_a_byte", false, []event{{110 * ms, relayed}}, s, 11},
		{"unknown_byte_that_can_not_be_moved", false, []event{{110 * ms, stalled}}, 800 * ms, 9},
		{"unknown_slow_reader", false, every(90*ms, 3*s, drained), 3*s + 800*ms, 39},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sim := sim{limits: Limits{Idle: limit}, events: tc.events, known: tc.known}
			if got := sim.run(t); got != Idle || sim.now != tc.at || sim.looks != tc.looks {
				t.Errorf("got %v at %v with %d looks, want it at %v with %d", got, sim.now, sim.looks, tc.at, tc.looks)
			}
		})
	}
}

// TestAgeBeforeTheStart has a last byte that is older than the relay.
func TestAgeBeforeTheStart(t *testing.T) {
	sim := sim{limits: Limits{Idle: s}, known: true, before: time.Hour}
	if got := sim.run(t); got != Idle || sim.now != s {
		t.Errorf("got %v at %v, want it at %v", got, sim.now, s)
	}
}

// TestLateLook has the first look after the limit, and something that moves slowly.
func TestLateLook(t *testing.T) {
	var w Watch
	w.Start(Limits{Idle: 800 * ms}, t0)
	w.Next(t0, Activity{})
	if e, wait := w.Next(t0.Add(2*s), Activity{Age: 2 * s, Moved: 7}); e != None || wait != 50*ms {
		t.Errorf("got %v, %v, want another look after 1/16", e, wait)
	}
	if e, wait := w.Next(t0.Add(2*s+50*ms), Activity{Age: 2*s + 50*ms, Moved: 8}); e != None || wait != 100*ms {
		t.Errorf("got %v, %v, want it alive", e, wait)
	}
	w.Start(Limits{Idle: 800 * ms}, t0)
	w.Next(t0.Add(2*s), Activity{Age: 2 * s})
	if e, _ := w.Next(t0.Add(2*s+50*ms), Activity{Age: 2*s + 50*ms}); e != Idle {
		t.Errorf("got %v, want %v", e, Idle)
	}
}

// TestCoarseAge has a kernel whose clock is a little behind: it is asked again until the age is reached.
func TestCoarseAge(t *testing.T) {
	var w Watch
	w.Start(Limits{Idle: 800 * ms}, t0)
	w.Next(t0, Activity{})
	w.Next(t0.Add(700*ms), Activity{Age: 700 * ms})
	if e, wait := w.Next(t0.Add(800*ms), Activity{Age: 797 * ms}); e != None || wait != 3*ms {
		t.Errorf("got %v, %v, want %v and 3ms", e, wait, None)
	}
	if e, _ := w.Next(t0.Add(803*ms), Activity{Age: 801 * ms}); e != Idle {
		t.Errorf("got %v, want %v", e, Idle)
	}
}

// TestAgeBecomesUnknown has a socket that tells its age no more.
func TestAgeBecomesUnknown(t *testing.T) {
	var w Watch
	w.Start(Limits{Idle: 800 * ms}, t0)
	w.Next(t0, Activity{})
	w.Next(t0.Add(700*ms), Activity{Age: 700 * ms})
	if e, _ := w.Next(t0.Add(800*ms), Activity{Age: -1}); e != Idle {
		t.Errorf("got %v, want %v", e, Idle)
	}
}

// TestRestart checks that nothing of an earlier lifetime is left.
func TestRestart(t *testing.T) {
	var w Watch
	w.Start(Limits{Max: s, HalfClose: s}, t0)
	w.HalfClosed(t0)
	if e, _ := w.Next(t0.Add(s), Activity{}); e != Max {
		t.Fatalf("got %v, want %v", e, Max)
	}
	w.Start(Limits{HalfClose: s}, t0.Add(s))
	if e, wait := w.Next(t0.Add(9*s), Activity{}); e != None || wait != 0 {
		t.Errorf("got %v, %v, want nothing", e, wait)
	}
}

func TestZeroWatch(t *testing.T) {
	var w Watch
	if e, wait := w.Next(t0, Activity{}); e != None || wait != 0 || w.NeedsActivity(t0) {
		t.Errorf("got %v, %v", e, wait)
	}
}

func TestExpiryNames(t *testing.T) {
	for e, want := range []string{"none", "idle", "session", "max", "half_close", "unknown"} {
		if got := Expiry(e).String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAllocatesNothing(t *testing.T) {
	var w Watch
	got := testing.AllocsPerRun(100, func() {
		w.Start(Limits{Idle: s, Max: s}, t0)
		w.Next(t0.Add(900*ms), Activity{Age: 900 * ms})
	})
	if got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}
