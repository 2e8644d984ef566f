package health

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	const ms = time.Millisecond
	usual, capped := Backoff{DefaultBackoffBase, DefaultBackoffCap}, Backoff{25 * ms, 100 * ms}
	for _, tc := range []struct {
		name string
		b    Backoff
		k    int
		want time.Duration
	}{
		{"Z67_first", usual, 1, 25 * ms},
		{"Z67_second", usual, 2, 50 * ms},
		{"Z67_third", usual, 3, 100 * ms},
		{"Z67_fourth", usual, 4, 200 * ms},
		{"Z67_fifth", usual, 5, 400 * ms},
		{"Z67_capped_third", capped, 3, 100 * ms},
		{"Z67_capped_fourth", capped, 4, 100 * ms},
		{"Z67_capped_fifth", capped, 5, 100 * ms},
		{"the_fortieth", usual, 40, time.Second},
		{"the_sixty_third", usual, 63, time.Second},
		{"the_sixty_fourth", Backoff{1, math.MaxInt64}, 64, math.MaxInt64},
		{"the_thousandth", usual, 1000, time.Second},
		{"a_shift_that_just_fits", Backoff{1, math.MaxInt64}, 63, 1 << 62},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.b.Upper(tc.k); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			checkDraws(t, tc.b, tc.k, tc.want)
		})
	}
}

// checkDraws: each is at least 1 ns and below the bound, and half of it in the mean.
func checkDraws(t *testing.T, b Backoff, k int, upper time.Duration) {
	t.Helper()
	const draws = 10_000
	r, sum := rand.New(rand.NewPCG(uint64(k), 2)), 0.0
	for range draws {
		d := b.Delay(k, r.Uint64())
		if d < 1 || d >= upper {
			t.Fatalf("got %v, want 1 ns to %v", d, upper)
		}
		sum += float64(d)
	}
	if mean := sum / draws / float64(upper); mean < 0.49 || mean > 0.51 {
		t.Errorf("got a mean of %v of the bound, want 0.5", mean)
	}
}

func TestDelayAtTheEnds(t *testing.T) {
	b := Backoff{DefaultBackoffBase, DefaultBackoffCap}
	if low, high := b.Delay(1, 0), b.Delay(1, math.MaxUint64); low != 1 || high != DefaultBackoffBase-1 {
		t.Errorf("got %v and %v, want 1 ns and 1 ns less than %v", low, high, DefaultBackoffBase)
	}
	if got := (Backoff{}).Delay(3, math.MaxUint64); got != 0 {
		t.Errorf("without a bound: got %v, want 0", got)
	}
	if first, second := b.Delay(2, 12345), b.Delay(2, 12345); first != second {
		t.Errorf("got %v and %v for the same random bits", first, second)
	}
}

func TestSlowStartFactor(t *testing.T) {
	const sec = time.Second
	line := SlowStart{Window: 60 * sec}
	for _, tc := range []struct {
		name string
		s    SlowStart
		age  time.Duration
		want float64
	}{
		{"Z55_begin", line, 0, 0.1},
		{"Z55_half", line, 30 * sec, 0.5},
		{"Z55_end", line, 60 * sec, 1},
		{"just_before_the_end", line, 60*sec - 1, 1 - 1e-9/60},
		{"after", line, time.Hour, 1},
		{"within_the_minimum", line, 5 * sec, 0.1},
		{"out_of_the_minimum", line, 9 * sec, 0.15},
		{"bent", SlowStart{Window: 60 * sec, Aggression: 2}, 15 * sec, 0.5},
		{"bent_the_other_way", SlowStart{Window: 60 * sec, Aggression: 0.5}, 30 * sec, 0.25},
		{"own_minimum", SlowStart{Window: 60 * sec, MinPercent: 40}, 15 * sec, 0.4},
		{"younger_than_a_second", SlowStart{Window: 4 * sec}, 0, 0.25},
		{"a_window_below_a_second", SlowStart{Window: sec / 2}, 0, 1},
		{"off", SlowStart{}, 0, 1},
		{"before_the_begin", line, -sec, 0.1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.s.Factor(tc.age); math.Abs(got-tc.want) > 1e-12 {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
