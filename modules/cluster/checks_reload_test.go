package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-sluice/sluice/modules/healthchecks"
)

// noting is a checker that notes when it has checked which port, since it was made. It takes a while for each, and hangs at
// ports below one.
type noting struct {
	below uint16
	mu    sync.Mutex
	made  time.Time
	at    map[uint16][]time.Duration
	slow  time.Duration
	now   int
	max   int
}

func newNoting(slow time.Duration) *noting {
	return &noting{made: time.Now(), at: make(map[uint16][]time.Duration), slow: slow}
}

func (n *noting) Check(ctx context.Context, t *healthchecks.Target) error {
	n.mu.Lock()
	n.now++
	n.max = max(n.max, n.now)
	n.mu.Unlock()
	slow := n.slow
	if t.Port < n.below {
		slow = time.Hour
	}
	select {
	case <-ctx.Done():
	case <-time.After(slow): // virtual time
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.now--; ctx.Err() == nil {
		n.at[t.Port] = append(n.at[t.Port], time.Since(n.made))
	}
	return ctx.Err()
}

// reloads starts n configs one after the other, each for a while.
func reloads(t *testing.T, set settings, n int, each time.Duration) {
	t.Helper()
	var before *Cluster
	for range n {
		c := started(t, set)
		if before != nil {
			StopAll([]*Cluster{before})
		}
		before = c
		time.Sleep(each) // virtual time
	}
	StopAll([]*Cluster{before})
}

// TestReloadsKeepChecksGoing checks that endpoints are checked once an interval however often the config is loaded, and at
// the same times as without.
func TestReloadsKeepChecksGoing(t *testing.T) {
	for _, row := range []struct {
		reloads int
		each    time.Duration
	}{{1, 40 * time.Second}, {20, 2 * time.Second}, {50, 800 * time.Millisecond}, {400, 100 * time.Millisecond}} {
		t.Run(fmt.Sprint(row.reloads), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				noted := newNoting(time.Millisecond)
				reloads(t, checking(noted, 5), row.reloads, row.each)
				for place := range 5 {
					got := noted.at[uint16(1000+place)]
					if len(got) != 8 {
						t.Fatalf("%d: got checks at %v, want 8", place, got)
					}
					for i, at := range got {
						// A check that a reload cuts short is made after it.
						if want := time.Duration(place+5*i) * time.Second; at < want || at > want+10*time.Millisecond {
							t.Errorf("%d: got check %d at %v, want %v", place, i, at, want)
						}
					}
				}
			})
		})
	}
}

// TestReloadsAndChecksThatHang checks that checks which are cut short by each reload don't keep others from being made.
func TestReloadsAndChecksThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noted := newNoting(900 * time.Millisecond)
		reloads(t, checking(noted, 40), 60, time.Second)
		for place := range 40 {
			if got := len(noted.at[uint16(1000+place)]); got < 8 {
				t.Errorf("%d: got %d checks in 60 seconds", place, got)
			}
		}
		if noted.max > 8 {
			t.Errorf("got %d checks at a time", noted.max)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		noted := newNoting(time.Millisecond)
		noted.below = 1010
		reloads(t, checking(noted, 40), 60, time.Second)
		for place := 10; place < 40; place++ {
			if got := len(noted.at[uint16(1000+place)]); got < 8 {
				t.Errorf("%d: got %d checks in 60 seconds, beside some that hang", place, got)
			}
		}
		if noted.max > 8 {
			t.Errorf("got %d checks at a time", noted.max)
		}
	})
}

// TestOtherChecksBeginAnew checks that another check, and one after a config without, is spread as at a start.
func TestOtherChecksBeginAnew(t *testing.T) {
	for _, row := range []struct {
		name    string
		between func(*settings)
	}{
		{"another check", func(set *settings) { set.check++ }},
		{"no check in between", func(set *settings) { set.checker = nil }},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := checking(newNoting(time.Millisecond), 5)
				first := started(t, set)
				time.Sleep(3500 * time.Millisecond) // virtual time
				other := set
				other.checker = newNoting(time.Millisecond)
				row.between(&other)
				second := started(t, other)
				StopAll([]*Cluster{first})
				if other.checker == nil {
					synctest.Wait()
					other = set
					other.checker = newNoting(time.Millisecond)
					first, second = second, started(t, other)
					StopAll([]*Cluster{first})
				}
				time.Sleep(4500 * time.Millisecond) // virtual time
				StopAll([]*Cluster{second})
				var got []time.Duration
				for place := range 5 {
					got = append(got, other.checker.(*noting).at[uint16(1000+place)]...)
				}
				want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}
				if same := slices.EqualFunc(got, want, func(a, b time.Duration) bool { return a-b < 10*time.Millisecond && a >= b }); !same {
					t.Errorf("got checks at %v, want %v", got, want)
				}
			})
		})
	}
}

// TestCheckOf checks what makes two checks the same.
func TestCheckOf(t *testing.T) {
	one := checkOf(json.RawMessage(`{"type":"tcp"}`), time.Second)
	if one != checkOf(json.RawMessage(`{"type":"tcp"}`), time.Second) {
		t.Error("the same check is another one")
	}
	if one == checkOf(json.RawMessage(`{"type":"tcp"}`), 2*time.Second) || one == checkOf(json.RawMessage(`{"type":"tls"}`), time.Second) {
		t.Error("another check is the same")
	}
	set, err := provisioned(t, fmt.Sprintf(`{%s,"health":{"check":{"type":"tcp"}}}`, minimal))
	if err != nil || set.check == checkOf(nil, set.interval) || set.check == 0 {
		t.Errorf("got %d, %v", set.check, err)
	}
}
