package health

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"
)

const (
	simSeeds = 10_000
	simSteps = 60
)

var t0 = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// simSeen counts what the simulation has covered.
type simSeen struct {
	stances                                                    [stanceCount]int
	reasons                                                    [reasonCount]int
	refusals                                                   [refusalCount]int
	whys                                                       [whyCount]int
	retries, replays, ejections, capped, trials, grown, events int
	moves, missed, crowded, turns, returns                     int
}

// TestSimulation drives clusters with made-up events in made-up time, and compares all that they show with the model
// after each. SLUICE_SEED=<n> runs that seed alone.
func TestSimulation(t *testing.T) {
	var seen simSeen
	if s := os.Getenv("SLUICE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			t.Fatalf("reading SLUICE_SEED: %v", err)
		}
		runSeed(t, seed, &seen)
		return
	}
	for seed := range uint64(simSeeds) {
		if runSeed(t, seed, &seen); t.Failed() {
			t.Fatalf("failed; SLUICE_SEED=%d runs this seed alone", seed)
		}
	}
	t.Logf("seen: %+v", seen)
	checkSeen(t, "stance", seen.stances[:])
	checkSeen(t, "reason", seen.reasons[:])
	checkSeen(t, "refusal", seen.refusals[:NoEndpoint]) // that one is the shell's
	checkSeen(t, "reason to stop", seen.whys[:])
	checkSeen(t, "thing", []int{
		seen.retries, seen.replays, seen.ejections, seen.capped, seen.trials, seen.grown, seen.events,
		seen.moves, seen.missed, seen.crowded, seen.turns, seen.returns,
	})
}

func checkSeen(t *testing.T, what string, counts []int) {
	t.Helper()
	for i, n := range counts {
		if n == 0 {
			t.Errorf("%s %d was never seen", what, i)
		}
	}
}

// simRequest, simAttempt and simConn are what is under way, as the simulation knows it.
type simRequest struct {
	r        Request
	start    time.Time
	charged  bool
	blamed   bool
	retries  int
	replayed bool
	// replaying means that its next attempt is a replay.
	replaying bool
	tries     int
	failed    []string
	attempt   *simAttempt
	// over means that no attempt is to follow.
	over bool
	// again is the attempt that is replayed, and failure what it failed with.
	again   *simAttempt
	failure Failure
}

type simAttempt struct {
	a     Attempt
	of    *simRequest
	e     *modelEndpoint
	retry bool
	// trial means that it began as one.
	trial bool
	// proven means that its success was told before its end, blamed that its failure was.
	proven, blamed bool
}

type simConn struct {
	k     Conn
	e     *modelEndpoint
	state uint32
}

type sim struct {
	t    *testing.T
	r    *rand.Rand
	now  time.Time
	luck int
	c    *Cluster
	m    *model
	seen *simSeen

	requests []*simRequest
	conns    []*simConn
	// reasons are those at the last look.
	reasons  map[string]Status
	looked   time.Time
	attempts uint64
	replays  int
	// listed are the members, failing says that the policy is that of a config which is about to go back to the one before.
	listed  []Member
	failing bool
	log     []string
}

func runSeed(t *testing.T, seed uint64, seen *simSeen) {
	t.Helper()
	s := &sim{t: t, r: rand.New(rand.NewPCG(seed, 1)), now: t0, seen: seen, reasons: make(map[string]Status)}
	cfg := makeConfig(s.r)
	if err := cfg.Validate(); err != nil {
		t.Errorf("made a bad policy: %v", err)
	}
	s.c, s.m = NewCluster(cfg, t0), &model{cfg: cfg, now: t0, all: make(map[string]*modelEndpoint)}
	s.members()
	for range simSteps {
		s.step()
		if s.compare(); t.Failed() {
			break
		}
	}
	s.drain()
	if t.Failed() {
		t.Logf("policy %+v", *cfg)
		for _, line := range s.log {
			t.Log(line)
		}
	}
}

func (s *sim) note(format string, args ...any) {
	s.log = append(s.log, s.now.Sub(t0).String()+" "+fmt.Sprintf(format, args...))
}

// step does one thing, now or a while later.
func (s *sim) step() {
	if oneIn(s.r, 3) {
		s.wait()
	}
	if oneIn(s.r, 10) {
		s.luck = s.r.IntN(10)
	}
	switch n := s.r.IntN(100); {
	case n < 20:
		s.admit()
	case n < 75:
		s.progress()
	case n < 85:
		s.check()
	case n < 93:
		s.connection()
	case n < 96:
		s.order()
	case n < 98:
		s.members()
	default:
		s.configure()
	}
}

// wait lets time pass, often to the end of the view, or to just before it.
func (s *sim) wait() {
	to := s.now.Add(time.Duration(s.r.Int64N(int64(pick(s.r, time.Millisecond, time.Second, 15*time.Second)))))
	if until := s.c.View(s.now).Until(); !until.IsZero() && oneIn(s.r, 2) {
		to = until.Add(-time.Duration(s.r.IntN(2)))
	}
	if to.After(s.now) {
		s.now = to
	}
	s.m.to(s.now)
}

func (s *sim) members() {
	members := makeMembers(s.r)
	s.note("members %+v", members)
	s.setMembers(members)
}

func (s *sim) setMembers(members []Member) {
	s.listed = members
	if err := s.c.SetMembers(members, s.now); err != nil {
		s.t.Errorf("setting members: %v", err)
	}
	s.m.setMembers(members)
}

func (s *sim) check() {
	if len(s.m.list) == 0 {
		return
	}
	i, ok := s.r.IntN(len(s.m.list)), s.r.IntN(10) < s.luck
	e := s.m.list[i]
	s.note("check of %s: %v", e.key, ok)
	s.m.check(e, ok)
	s.c.Check(s.c.View(s.now).Endpoint(i), ok, s.now)
}

// order overrides something.
func (s *sim) order() {
	key, o := strconv.Itoa(s.r.IntN(7)), Override{}
	if !oneIn(s.r, 2) {
		o = Override{pick(s.r, Auto, Up, Drain, Disabled), s.r.Uint32N(3)}
	}
	s.note("override of %s: %+v", key, o)
	e := s.m.all[key]
	if got, want := s.c.Override(key, o, s.now), e != nil; got != want {
		s.t.Errorf("override of %s: got %v, want %v", key, got, want)
	}
	if e != nil {
		s.m.override(e, o)
	}
}

// compare holds all that the cluster shows against the model.
func (s *sim) compare() {
	v := s.c.View(s.now)
	got, want := modelView{stance: v.Stance(), serving: none}, s.m.view()
	if at := v.Serving(); at != none {
		got.serving = int(s.m.list[at].member.Tier)
	}
	for i := range v.Len() {
		key := v.Endpoint(i).Key()
		if v.Offers(i) {
			got.offered = append(got.offered, key)
		}
		if v.trials != nil && v.trials.has(i) {
			got.trials = append(got.trials, key)
		}
		if v.Spares(i) {
			got.spares = append(got.spares, key)
		}
		if v.turn == i {
			got.turn = key
		}
	}
	if !reflect.DeepEqual(got, want) || v.Offered() != len(want.offered) || v.Spare() != len(want.spares) {
		s.t.Errorf("got %+v (%d, %d), want %+v", got, v.Offered(), v.Spare(), want)
	}
	s.seen.stances[want.stance]++
	s.seen.turns += one(want.turn != "" && want.stance == FailOpen)
	available := 0
	for i, got := range s.c.Statuses(s.now) {
		e := s.m.all[got.Key]
		s.compareStatus(&got, e)
		if got.Member && i < v.Len() {
			available += one(got.Reason.Available())
			s.compareWeight(v.Effective(i), e)
		}
	}
	s.looked = s.now
	if v.Available() != available {
		s.t.Errorf("got %d available, want %d", v.Available(), available)
	}
	s.compareStats()
}

func (s *sim) compareStatus(got *Status, e *modelEndpoint) {
	want := Status{
		Key: e.key, Reason: s.m.reason(e), Since: got.Since, Member: e.present, Override: e.override, Trial: s.m.wantsTrial(e),
		Weight: max(e.member.Weight, 1), Effective: got.Effective, Consecutive: e.failures,
		Attempts: e.attempts, Retries: e.retries, Connections: e.conns, Pending: e.pending,
	}
	if e.override.Weight > 0 {
		want.Weight = e.override.Weight
	}
	if e.out {
		want.EjectedUntil = e.until
	}
	if e.down {
		want.Successes = e.successes()
	} else {
		want.Failures = e.failed()
	}
	if *got != want {
		s.t.Errorf("got %+v, want %+v", *got, want)
	}
	last, known := s.reasons[e.key]
	if known && got.Member && last.Member && got.Since.Before(s.looked) && (got.Reason != last.Reason || got.Since != last.Since) {
		s.t.Errorf("%s: got %v since %v, want %v since %v", e.key, got.Reason, got.Since, last.Reason, last.Since)
	}
	s.reasons[e.key] = *got
	s.seen.reasons[got.Reason]++
	s.seen.grown += one(e.out && e.multiplier > 1)
}

// compareWeight checks a weight in a view, which may be as old as a hundredth of the window.
func (s *sim) compareWeight(got uint32, e *modelEndpoint) {
	full := max(e.member.Weight, 1)
	if e.override.Weight > 0 {
		full = e.override.Weight
	}
	low, high := 1.0, 1.0
	if slow := &s.m.cfg.SlowStart; slow.Window > 0 && !e.up.IsZero() {
		age := s.now.Sub(e.up)
		low, high = slow.Factor(age-slow.Window/slowStartSteps), slow.Factor(age)
		if !s.m.reason(e).Available() {
			// Nobody looks at it.
			low = 0
		}
	}
	if w := float64(full) * WeightScale; float64(got) < low*w-1 || float64(got) > high*w+1 {
		s.t.Errorf("%s: got weight %d, want %v to %v", e.key, got, low*w, high*w)
	}
}

func (s *sim) compareStats() {
	got := s.c.Stats()
	for _, n := range []struct {
		name      string
		got, want int64
	}{
		{"requests", got.RequestsActive, s.m.requests},
		{"retries", got.RetriesActive, s.m.retries},
		{"connections", got.ConnectionsActive, s.m.conns},
		{"pending", got.PendingActive, s.m.pending},
		{"ejected", int64(got.EjectedNow), int64(s.m.ejected())},
		{"ejections", int64(got.Ejections), int64(s.m.ejections)},
		{"ejections refused", int64(got.EjectionsRefused), int64(s.m.refused)},
		{"trials", int64(got.Trials), int64(s.m.trials)},
		{"attempts", int64(got.Attempts), int64(s.attempts)},
		{"replays", int64(got.Replays), int64(s.replays)},
	} {
		if n.got != n.want {
			s.t.Errorf("%s: got %d, want %d", n.name, n.got, n.want)
		}
	}
	sum := int64(0)
	for _, e := range s.m.all {
		sum += e.attempts
	}
	if sum > got.RequestsActive || got.RetriesActive > got.RequestsActive || got.PendingActive > got.ConnectionsActive {
		s.t.Errorf("got %d attempts, %+v", sum, got)
	}
}

// drain ends all that is under way. Nothing may be left.
func (s *sim) drain() {
	for len(s.requests) > 0 {
		s.finish(len(s.requests) - 1)
	}
	for len(s.conns) > 0 {
		s.closeConn(len(s.conns) - 1)
	}
	s.compare()
	idle := s.c.requests.word.Load() == 0 && s.c.conns.word.Load() == 0
	for _, e := range s.c.byKey {
		idle = idle && e.idle()
	}
	if !idle {
		s.t.Errorf("got something left at the end: %+v", s.c.Stats())
	}
	stats := s.c.Stats()
	s.seen.ejections += int(stats.Ejections)
	s.seen.capped += int(stats.EjectionsRefused)
	s.seen.trials += int(stats.Trials)
	s.seen.retries += int(stats.Retries)
	s.seen.replays += int(stats.Replays)
	s.checkEvents()
}

// checkEvents: the changes of an endpoint, and those of the stance, follow on each other without a gap.
func (s *sim) checkEvents() {
	reasons, last := make(map[string]Reason), Empty
	for _, e := range s.c.Events(nil) {
		s.seen.events++
		if e.Key == "" {
			if e.Stances[0] != last || e.Stances[1] == last {
				s.t.Errorf("got %+v after %v", e, last)
			}
			last = e.Stances[1]
			continue
		}
		if before := reasons[e.Key]; e.Reasons[0] != before || e.Reasons[1] == before {
			s.t.Errorf("got %+v after %v", e, before)
		}
		reasons[e.Key] = e.Reasons[1]
	}
	if last != s.c.View(s.now).Stance() || s.c.EventsReady() {
		s.t.Errorf("got %v as the last stance, want %v", last, s.c.View(s.now).Stance())
	}
}
