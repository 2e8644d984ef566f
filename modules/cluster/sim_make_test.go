package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/discovery"
	"github.com/caddy-sluice/sluice/modules/healthchecks"
	"github.com/caddy-sluice/sluice/modules/hostport"
)

var (
	errNoAnswer = errors.New("no answer")
	errRefused  = errors.New("refused by the test")
)

// pick returns one of the values.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// answering is a checker that answers at once.
type answering struct{ err error }

func (a *answering) Check(context.Context, *healthchecks.Target) error { return a.err }

func (a *answering) notMade() bool { return healthchecks.NotMade(a.err) }

// source is a source of endpoints that is asked by nobody.
type source string

func (s source) Lookup(context.Context, []discovery.Endpoint) ([]discovery.Endpoint, time.Duration, error) {
	return nil, time.Hour, errNoAnswer
}
func (s source) Identity() string { return string(s) }
func (s source) String() string   { return string(s) }

// refusing is a balancer that refuses all lists.
type refusing struct{ policy }

func (refusing) Prepare([]balancers.Endpoint, balancers.Picker) (balancers.Picker, error) {
	return nil, errRefused
}

// settings makes up a config whose thresholds and limits are reached often.
func (s *sim) settings() *settings {
	set := &settings{static: s.members(), interval: time.Second, timeout: time.Second}
	p := policy{Config: balance.Config{Policy: pick(s.r, balance.P2C, balance.RoundRobin, balance.LeastConnections, balance.Random,
		balance.Maglev, balance.RingHash, balance.First)}}
	switch p.Policy {
	case balance.Maglev:
		p.TableSize = 101
	case balance.RingHash:
		p.RingPoints = 4
	}
	if p.Policy.Keyed() {
		p.key = balancers.Key{Source: balancers.ClientIP}
	}
	set.balancer = p
	if s.oneIn(2) {
		set.sources = []discovery.Source{pick(s.r, source("x"), source("y"))}
	}
	if s.oneIn(3) {
		set.closeAfter = s.seconds(5)
	}
	set.policy = s.policy()
	if s.oneIn(2) {
		set.checker = new(answering)
		set.policy.Active = health.Thresholds{Rise: 1 + s.r.IntN(3), Fall: 1 + s.r.IntN(3)}
	}
	if p.Policy.Ramps() && s.oneIn(3) {
		s.seen["slow start"]++
		set.policy.SlowStart = health.SlowStart{Window: s.seconds(20), AfterEjection: s.oneIn(2)}
	}
	return set
}

func (s *sim) seconds(most int) time.Duration { return time.Duration(1+s.r.IntN(most)) * time.Second }

func (s *sim) policy() health.Config {
	c := health.Config{PanicPercent: pick(s.r, 0, 0, 50, 100), Refuse: s.oneIn(3)}
	if s.oneIn(2) {
		c.Passive = health.Passive{Thresholds: health.Thresholds{Rise: s.r.IntN(3), Fall: s.r.IntN(4)}, RetryAfter: s.seconds(10)}
		c.Passive.Statuses.Add(500, 599)
	}
	if s.oneIn(2) {
		c.Outlier = health.Outlier{ConsecutiveFailures: 1 + s.r.IntN(3), Time: s.seconds(10), MaxPercent: pick(s.r, 34, 50, 100)}
		if s.oneIn(2) {
			c.Outlier.MaxTime = c.Outlier.Time + s.seconds(40)
		}
	}
	if s.oneIn(2) {
		c.Limits = s.someLimits(6)
	}
	c.Retry = health.DefaultRetry()
	if s.oneIn(2) {
		c.Retry = health.Retry{
			Max: 1 + s.r.IntN(health.MaxRetries), On: health.KindSet(health.Connect, health.Reset, health.Timeout),
			Budget:  health.Budget{Percent: 1 + s.r.IntN(100), Min: s.r.IntN(3)},
			Backoff: health.Backoff{Base: health.DefaultBackoffBase, Cap: health.DefaultBackoffCap},
		}
		c.Retry.Statuses.Add(500, 503)
	}
	if s.oneIn(3) {
		c.Timeouts = health.Timeouts{PerTry: time.Second, Request: s.seconds(5)}
	}
	return c
}

func (s *sim) someLimits(most int64) health.Limits {
	return health.Limits{
		Connections: s.r.Int64N(most), Pending: s.r.Int64N(most), Requests: s.r.Int64N(most), Retries: s.r.Int64N(most),
	}
}

// members makes up the endpoints of a config: up to 6, with some that were in the one before.
func (s *sim) members() (list []member) {
	for i := range 6 {
		if s.oneIn(2) {
			continue
		}
		m := member{Address: hostOf(i), weight: 1 + s.r.Uint32N(3), backup: s.oneIn(6), trusted: true}
		if s.oneIn(3) {
			m.limits = s.someLimits(3)
		}
		list = append(list, m)
	}
	if len(list) == 0 {
		list = append(list, member{Address: hostOf(0), weight: 1, trusted: true})
	}
	return list
}

// found makes up an answer of discovery. Some of it is configured as well.
func (s *sim) found() (list []discovery.Endpoint) {
	for i := 4; i < 9; i++ {
		if a := hostOf(i); s.oneIn(2) {
			list = append(list, discovery.Endpoint{Host: a.Host, Port: a.Port, Weight: 1 + s.r.Uint32N(3), Priority: uint16(s.r.IntN(2))})
		}
	}
	return list
}

func hostOf(i int) hostport.Address {
	return hostport.Address{Host: fmt.Sprintf("192.0.2.%d", i+1), Port: 80}
}

// answer makes up what a check finds.
func (s *sim) answer() *answering {
	switch {
	case s.oneIn(6):
		return &answering{fmt.Errorf("dialing: %w", healthchecks.ErrNotMade)}
	case s.r.IntN(10) < s.luck:
		return &answering{}
	}
	return &answering{errNoAnswer}
}

// outcome makes up how an attempt ended. Bad luck comes in rows.
func (s *sim) outcome() Outcome {
	if s.r.IntN(10) < s.luck {
		return pick(s.r, Outcome{}, health.Answered(200), health.Answered(404))
	}
	kind := pick(s.r, health.Answer, health.Connect, health.Reset, health.Timeout, health.Malformed, health.Stale, health.Aborted)
	return Outcome{Kind: kind, Status: pick(s.r, 500, 503)}
}
