package health

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

func keys(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return list
}

// begin begins all checks that can begin.
func begin(s *Schedule, now time.Time) (begun []*Probe, again time.Time) {
	for {
		p, at := s.Next(now)
		if p == nil {
			return begun, at
		}
		begun = append(begun, p)
	}
}

func TestSchedule(t *testing.T) {
	const interval = 5 * time.Second
	t.Run("Z49_first_checks_are_spread", func(t *testing.T) {
		s := NewSchedule(interval, DefaultParallelChecks)
		s.Set(keys(10), t0)
		now := t0
		for i := range 10 {
			if want := t0.Add(time.Duration(i) * interval / 10); now != want {
				t.Fatalf("check %d: got %v, want %v", i, now.Sub(t0), want.Sub(t0))
			}
			p, _ := s.Next(now)
			if p == nil || p.Key() != strconv.Itoa(i) {
				t.Fatalf("check %d: got %+v", i, p)
			}
			if none, again := s.Next(now); none != nil {
				t.Fatalf("got a second one: %+v", none)
			} else if s.Done(p, now.Add(time.Second/10)); i < 9 {
				now = again
			}
		}
		if _, again := s.Next(now); again != t0.Add(interval) {
			t.Errorf("got the next check at %v, want %v", again.Sub(t0), interval)
		}
	})
	t.Run("Z49_eight_at_a_time", func(t *testing.T) {
		s := NewSchedule(interval, DefaultParallelChecks)
		s.Set(keys(20), t0)
		now := t0.Add(interval)
		underWay, again := begin(s, now)
		if len(underWay) != 8 || !again.IsZero() {
			t.Fatalf("got %d checks and the next at %v, want 8, and a wait", len(underWay), again)
		}
		total, seen := 0, make(map[string]bool)
		for len(underWay) > 0 {
			p := underWay[0]
			total++
			seen[p.Key()] = true
			s.Done(p, now)
			more, _ := begin(s, now)
			if underWay = append(underWay[1:], more...); len(underWay) > 8 {
				t.Fatalf("got %d at a time", len(underWay))
			}
		}
		// The first one was due at the begin and, an interval later, again.
		if total != 21 || len(seen) != 20 {
			t.Errorf("got %d checks of %d endpoints, want 21 of 20", total, len(seen))
		}
	})
	t.Run("Z50_no_result_after_a_stop", func(t *testing.T) {
		s := NewSchedule(interval, 2)
		s.Set(keys(2), t0)
		underWay, _ := begin(s, t0.Add(interval))
		s.Set(nil, t0)
		for _, p := range underWay {
			if s.Done(p, t0.Add(interval)) {
				t.Errorf("the result of %s counts", p.Key())
			}
		}
		if p, again := s.Next(t0.Add(time.Hour)); p != nil || !again.IsZero() {
			t.Errorf("got %v, %v", p, again)
		}
	})
	t.Run("what_was_missed_is_not_made_up_for", func(t *testing.T) {
		s := NewSchedule(interval, 1)
		s.Set(keys(1), t0)
		p, _ := s.Next(t0)
		late := t0.Add(4 * interval)
		s.Done(p, late)
		if p, _ = s.Next(late); p == nil {
			t.Fatal("got no check when one is overdue")
		}
		s.Done(p, late)
		if p, again := s.Next(late); p != nil || again != late.Add(interval) {
			t.Errorf("got %v, or the next at %v, want %v", p, again.Sub(t0), 5*interval)
		}
	})
	t.Run("one_that_comes_back_is_another_one", func(t *testing.T) {
		s := NewSchedule(interval, 2)
		s.Set(keys(1), t0)
		old, _ := s.Next(t0)
		s.Set(nil, t0)
		s.Set(keys(1), t0)
		fresh, _ := s.Next(t0)
		if fresh == nil || s.Done(old, t0) || !s.Done(fresh, t0) {
			t.Errorf("got %v after %v", fresh, old)
		}
	})
	t.Run("Z51_a_check_that_could_not_be_made_is_skipped", func(t *testing.T) {
		r := newRig(t, &Config{Active: Thresholds{1, 1}}, 1)
		s := NewSchedule(interval, 1)
		s.Set(keys(1), t0)
		p, _ := s.Next(t0)
		s.Done(p, t0)
		if _, again := s.Next(t0); again != t0.Add(interval) {
			t.Errorf("got the next check at %v, want %v", again.Sub(t0), interval)
		}
		r.wantReason(0, Healthy)
	})
}

// TestScheduleAtRandom: never more than the limit, no endpoint twice, none sooner than an interval after its last begin
// was due, and none forgotten.
func TestScheduleAtRandom(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		parallel, interval, now := 1+r.IntN(4), time.Duration(10+r.IntN(90)), t0
		s := NewSchedule(interval, parallel)
		underWay, current, last := []*Probe(nil), map[string]bool{}, map[string]time.Time{}
		for range 300 {
			if oneIn(r, 20) {
				current = map[string]bool{}
				list := keys(r.IntN(6))
				for _, key := range list {
					current[key] = true
				}
				s.Set(list, now)
			}
			p, again := s.Next(now)
			switch {
			case p != nil && (slices.Contains(underWay, p) || !current[p.Key()] || len(underWay) >= parallel || p.due.Sub(last[p.Key()]) < 0):
				t.Fatalf("seed %d: got %+v with %d under way", seed, p, len(underWay))
			case p != nil:
				underWay, last[p.Key()] = append(underWay, p), p.due
			case again.IsZero() && len(underWay) < parallel && len(current) > len(underWay):
				t.Fatalf("seed %d: nothing to wait for, with %d of %d under way", seed, len(underWay), len(current))
			}
			for _, q := range slices.Clone(underWay) {
				if oneIn(r, 3) {
					underWay = slices.DeleteFunc(underWay, func(p *Probe) bool { return p == q })
					if s.Done(q, now) != !q.gone {
						t.Fatalf("seed %d: got a result of %+v that counts, or one that doesn't", seed, q)
					}
				}
			}
			now = now.Add(time.Duration(r.IntN(20)))
		}
	}
}
