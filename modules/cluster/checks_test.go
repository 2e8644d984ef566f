package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/healthchecks"
)

// hanging is a checker that answers when its time is over. It notes when checks began.
type hanging struct {
	mu       sync.Mutex
	begun    []time.Time
	now, max int
}

func (h *hanging) Check(ctx context.Context, _ *healthchecks.Target) error {
	h.mu.Lock()
	h.begun = append(h.begun, time.Now())
	h.now++
	h.max = max(h.max, h.now)
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now--
	return ctx.Err()
}

// checking returns settings with active checks.
func checking(checker healthchecks.Checker, endpoints int) settings {
	weights := make([]uint32, endpoints)
	for i := range weights {
		weights[i] = 1
	}
	return settings{
		static: static(weights...), checker: checker, interval: 5 * time.Second, timeout: 2 * time.Second,
		policy: health.Config{Active: health.Thresholds{Rise: 1, Fall: 1}, Refuse: true},
	}
}

// started starts a cluster with its goroutines.
func started(t *testing.T, set settings) *Cluster {
	t.Helper()
	c := handle(t, set)
	if err := StartAll([]*Cluster{c}); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestZ48_CheckThatHangs checks that a check that gets no answer fails when its time is over, and not before.
func TestZ48_CheckThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := started(t, checking(new(hanging), 1))
		if got := reasons(c); got[0] != "healthy" {
			t.Errorf("got %v before the first check, want it healthy", got)
		}
		time.Sleep(2*time.Second - 1) // virtual time
		if got := reasons(c); got[0] != "healthy" {
			t.Errorf("got %v before the timeout", got)
		}
		time.Sleep(time.Nanosecond) // virtual time
		synctest.Wait()
		st := c.state.status().Endpoints[0]
		if st.State != "unhealthy_active" || st.LastCheck == nil || st.LastCheck.Duration != 2 || st.LastCheck.Passed {
			t.Errorf("got %+v, %+v at the timeout", st, st.LastCheck)
		}
		StopAll([]*Cluster{c})
	})
}

// TestZ49_ChecksAreSpread checks that at most eight checks go on at a time, and that the first are spread.
func TestZ49_ChecksAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many, few := new(hanging), new(hanging)
		set := checking(many, 60)
		c := started(t, set)
		time.Sleep(30 * time.Second) // virtual time
		StopAll([]*Cluster{c})
		if many.max != health.DefaultParallelChecks {
			t.Errorf("got %d checks at a time, want %d", many.max, health.DefaultParallelChecks)
		}
		start := time.Now()
		set = checking(few, 10)
		set.check = 1 // another one, which begins anew
		c = started(t, set)
		time.Sleep(5*time.Second - 1) // virtual time
		StopAll([]*Cluster{c})
		if len(few.begun) != 10 || few.begun[0].Sub(start) != 0 || few.begun[5].Sub(start) != 2500*time.Millisecond {
			t.Errorf("got checks at %v", few.begun)
		}
	})
}

// TestZ50_StopDuringChecks checks that checks that are cut short are no verdict, neither at a stop nor at a reload, and that
// a stop waits for them.
func TestZ50_StopDuringChecks(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			checker := new(hanging)
			set := checking(checker, 8)
			set.interval = 8 * time.Millisecond
			c := started(t, set)
			time.Sleep(10 * time.Millisecond) // virtual time: all are under way
			next := started(t, checking(new(answering), 8))
			StopAll([]*Cluster{c})
			if checker.now != 0 || checker.max != 8 {
				t.Errorf("got %d checks after the stop, %d before", checker.now, checker.max)
			}
			if got := reasons(c); slices.Contains(got, "unhealthy_active") {
				t.Errorf("got %v after the checks were cut short", got)
			}
			StopAll([]*Cluster{next})
		})
	}
}

// failing is a checker that fails in one way.
func failing(err error) *answering { return &answering{err} }

// panicking is a checker that panics.
type panicking struct{}

func (panicking) Check(context.Context, *healthchecks.Target) error { panic("made by the test") }

// TestZ51_ChecksThatAreNotMade checks that what goes wrong on our side is no verdict.
func TestZ51_ChecksThatAreNotMade(t *testing.T) {
	for _, row := range []struct {
		name    string
		checker healthchecks.Checker
		want    string
	}{
		{"no file descriptors", failing(fmt.Errorf("dialing: %w", syscall.EMFILE)), "healthy"},
		{"not made", failing(healthchecks.ErrNotMade), "healthy"},
		{"panic", panicking{}, "healthy"},
		{"refused", failing(syscall.ECONNREFUSED), "unhealthy_active"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := started(t, checking(row.checker, 1))
				time.Sleep(20 * time.Second) // virtual time
				st := c.state.status().Endpoints[0]
				if made := st.LastCheck != nil; st.State != row.want || made != (row.want != "healthy") {
					t.Errorf("got %s, %+v, want %s", st.State, st.LastCheck, row.want)
				}
				StopAll([]*Cluster{c})
			})
		})
	}
}

// series is a checker whose results are written down: P passes, F fails. The last one goes on.
type series struct {
	mu      sync.Mutex
	results string
}

func (s *series) Check(context.Context, *healthchecks.Target) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	result := s.results[0]
	if len(s.results) > 1 {
		s.results = s.results[1:]
	}
	if result == 'F' {
		return errNoAnswer
	}
	return nil
}

// TestChecksInARow checks that only failures in a row count, across a reload too.
func TestChecksInARow(t *testing.T) {
	for _, row := range []struct{ results, want string }{
		{"PFPFPFP", "healthy"}, {"FPFPFPFP", "healthy"}, {"PFF", "unhealthy_active"}, {"FFPP", "healthy"},
	} {
		t.Run(row.results, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := checking(&series{results: row.results}, 1)
				set.policy.Active = health.Thresholds{Rise: 2, Fall: 2}
				c := started(t, set)
				time.Sleep(time.Duration(len(row.results))*set.interval - 1) // virtual time
				if got := reasons(c); got[0] != row.want {
					t.Errorf("got %v, want %v", got[0], row.want)
				}
				StopAll([]*Cluster{c})
			})
		})
	}
	t.Run("across a reload", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			set := checking(&series{results: "F"}, 1)
			set.policy.Active = health.Thresholds{Rise: 2, Fall: 2}
			before := started(t, set)
			time.Sleep(time.Second) // virtual time: one check
			after := started(t, set)
			StopAll([]*Cluster{before})
			time.Sleep(set.interval - time.Second - 1) // virtual time
			if got := reasons(after); got[0] != "healthy" {
				t.Errorf("got %v before its time", got)
			}
			time.Sleep(time.Nanosecond) // virtual time: the first check of the new config is the second one
			synctest.Wait()
			if got := reasons(after); got[0] != "unhealthy_active" {
				t.Errorf("got %v", got)
			}
			StopAll([]*Cluster{after})
		})
	})
}

// TestZ54_CheckAndEjection checks that a check that passes ends no ejection, unless it is told so.
func TestZ54_CheckAndEjection(t *testing.T) {
	for _, unejects := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			set := checking(new(answering), 2)
			set.policy.Outlier = ejecting.Outlier
			set.policy.Outlier.CheckUnejects = unejects
			c := started(t, set)
			settle(t, c, Outcome{Kind: health.Reset})
			time.Sleep(10 * time.Second) // virtual time
			if got := slices.Contains(reasons(c), "ejected"); got == unejects {
				t.Errorf("got ejected %v, want %v", got, !unejects)
			}
			StopAll([]*Cluster{c})
		})
	}
}

// TestChecksOfFoundEndpoints checks that an endpoint is checked as soon as it is found, and not after it is gone.
func TestChecksOfFoundEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := new(counting)
		set := checking(asked, 1)
		set.sources = append(set.sources, source("x"))
		c := started(t, set)
		time.Sleep(time.Second) // virtual time
		c.take(source("x"), foundAt(1, 2), nil)
		time.Sleep(10 * time.Second) // virtual time
		if st := c.state.status().Endpoints; len(st) != 3 || st[1].LastCheck == nil || st[2].LastCheck == nil {
			t.Errorf("got %+v", st)
		}
		c.take(source("x"), nil, nil)
		synctest.Wait()
		n := asked.n.Load()
		time.Sleep(50 * time.Second) // virtual time
		if got := asked.n.Load() - n; got != 10 {
			t.Errorf("got %d checks in ten intervals of one endpoint", got)
		}
		StopAll([]*Cluster{c})
	})
}
