package health

import (
	"math/rand/v2"
	"strconv"
	"time"
)

func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// pick returns one of the values.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func seconds(r *rand.Rand, most int) time.Duration {
	return time.Duration(1+r.IntN(most)) * time.Second
}

// makeConfig makes up a policy whose thresholds are reached often.
func makeConfig(r *rand.Rand) *Config {
	c := &Config{PanicPercent: pick(r, 0, 0, 25, 50, 100), Refuse: oneIn(r, 3)}
	if oneIn(r, 2) {
		c.Active = Thresholds{1 + r.IntN(3), 1 + r.IntN(3)}
	}
	if !oneIn(r, 3) {
		c.Passive = Passive{Thresholds: Thresholds{r.IntN(3), r.IntN(4)}, RetryAfter: seconds(r, 10)}
		c.Passive.Statuses.Add(500, 599)
	}
	if !oneIn(r, 3) {
		c.Outlier = Outlier{
			ConsecutiveFailures: 1 + r.IntN(3), Time: seconds(r, 10), MaxPercent: pick(r, 10, 34, 50, 67, 100),
			CheckUnejects: oneIn(r, 3),
		}
		if oneIn(r, 2) {
			c.Outlier.MaxTime = c.Outlier.Time + seconds(r, 40)
		}
		if oneIn(r, 2) {
			c.Outlier.Statuses.Add(503, 503)
		}
	}
	if oneIn(r, 2) {
		c.Limits = makeLimits(r, 6)
	}
	c.Retry = Retry{
		Max: r.IntN(MaxRetries + 1), On: Kinds(r.Uint32N(1 << kindCount)), Budget: Budget{1 + r.IntN(100), r.IntN(3)},
		Backoff: pick(r, Backoff{}, Backoff{DefaultBackoffBase, DefaultBackoffCap}),
	}
	c.Retry.Statuses.Add(500, 502)
	if oneIn(r, 2) {
		c.Timeouts = Timeouts{PerTry: time.Second, Request: seconds(r, 5)}
	}
	if oneIn(r, 2) {
		c.SlowStart = SlowStart{Window: seconds(r, 20), AfterEjection: oneIn(r, 2), Aggression: pick(r, 0, 1, 2.0)}
	}
	return c
}

func makeLimits(r *rand.Rand, most int64) Limits {
	return Limits{Connections: r.Int64N(most), Pending: r.Int64N(most), Requests: r.Int64N(most), Retries: r.Int64N(most)}
}

// makeMembers makes up a list of members. Some were there before.
func makeMembers(r *rand.Rand) []Member {
	var list []Member
	for i := range 7 {
		if oneIn(r, 3) {
			continue
		}
		w := Member{Key: strconv.Itoa(i), Weight: r.Uint32N(4)}
		if oneIn(r, 4) {
			w.Tier = uint8(1 + r.IntN(2))
		}
		if oneIn(r, 3) {
			w.Limits = makeLimits(r, 4)
		}
		if oneIn(r, 6) {
			w.Limits = Limits{Retries: 1}
		}
		list = append(list, w)
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// makeOutcome makes up how an attempt ended. Bad luck comes in rows.
func makeOutcome(r *rand.Rand, luck int) Outcome {
	if r.IntN(10) < luck {
		return pick(r, Outcome{}, Answered(200), Answered(404))
	}
	return Outcome{pick(r, Answer, Connect, Reset, Timeout, Malformed, Stale, Aborted), pick(r, 500, 503)}
}
