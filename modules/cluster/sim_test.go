package cluster

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/discovery"
)

const (
	simSeeds = 10_000
	simSteps = 50
)

// simFound are other seeds, which have found something: a retry that has tried all picked the one without room for retries
// again and again.
var simFound = []uint64{1_102_248}

// TestSimulation drives clusters with made-up events in virtual time, and checks after each what must always hold:
// what is counted against what is under way, and what picks, retries and ejections may do. It is about what lies around
// internal/health, which has a simulation of its own that knows its state machines.
//
// SLUICE_SEED=<n> runs one sequence alone. Each of these was put in by hand, and failed within 100 sequences: the bound
// of the budget compared by ≤, the streak not reset by a success, endpoints that were tried not excluded, the load not
// released, the ceiling of ejections without the new one, full endpoints not let in again after a reload, the answers of
// discovery dropped by a config that doesn't start, an attempt that was given up counted as a failure.
func TestSimulation(t *testing.T) {
	seen := make(map[string]int)
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			t.Fatalf("reading SLUICE_SEED: %v", err)
		}
		simulate(t, seed, seen)
		return
	}
	seeds := uint64(simSeeds)
	if raceDetector {
		seeds /= 10
	}
	for seed := range seeds {
		simulate(t, seed, seen)
	}
	for _, seed := range simFound {
		simulate(t, seed, seen)
	}
	t.Logf("seen: %v", seen)
	for _, what := range []string{
		"admit", "pick", "retry", "replay", "repick", "stop", "move", "missed", "crowded", "proven", "trial", "ejection", "stance normal", "stance fail_open",
		"stance refusing", "stance empty", "refused requests", "refused no_endpoint", "refused endpoint_requests", "full", "reload",
		"reserve", "no room, no reserve", "turn fail_open", "turn refusing", "refused config", "failed start", "found", "lookup failed", "drain", "told to stop", "check", "check not made", "slow start",
		"tried again where there was no other", "dial", "dial refused",
	} {
		if seen[what] == 0 {
			t.Errorf("never seen: %s", what)
		}
	}
}

// TestSimulationReplays checks that the same seed does the same.
func TestSimulationReplays(t *testing.T) {
	for seed := range uint64(100) {
		one, two := simulate(t, seed, make(map[string]int)), simulate(t, seed, make(map[string]int))
		if one != two {
			t.Fatalf("seed %d: got %x, then %x", seed, one, two)
		}
	}
}

// sim is one sequence. Everything is done by one goroutine, but for what timers do.
type sim struct {
	t    *testing.T
	r    *rand.Rand
	seen map[string]int
	c    *Cluster
	s    *state
	luck int

	requests []*simRequest
	conns    []*simConn
	// closed are the endpoints that are taken out by hand.
	closed map[string]bool
	// settled counts what was settled, by endpoint.
	settled map[*Endpoint]uint64
	picks   uint64
	events  []health.Event
	log     []string
}

type simRequest struct {
	Request
	lease *simLease
	// again is the lease to replay, and failure what its attempt has failed with.
	again   *simLease
	failure Failure
	// failed are the endpoints that were tried, lost those at which attempts have failed. retried says that the failure of
	// a replay that wasn't to be had has become a retry.
	failed  []*Endpoint
	lost    []*Endpoint
	retried bool
	charged bool
	tries   int
	over    bool
}

type simLease struct {
	Lease
	// charged says that it is a retry, listens that it wants to be told when to stop.
	open, charged, proven, listens bool
	heard                          told
}

type simConn struct {
	Conn
	e *Endpoint
}

// simulate runs one sequence, and returns the hash of its trace. A sequence that fails ends the test.
func simulate(t *testing.T, seed uint64, seen map[string]int) uint64 {
	t.Helper()
	trace := fnv.New64a()
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if t.Failed() {
				t.Logf("SLUICE_SEED=%d runs this sequence alone", seed)
			}
		}()
		s := &sim{
			t: t, r: rand.New(rand.NewPCG(seed, 2)), seen: seen, closed: make(map[string]bool), settled: make(map[*Endpoint]uint64),
		}
		s.c = s.handle(s.settings())
		s.s.random = s.r.Uint64
		s.begin(s.c)
		for range simSteps {
			s.step()
			synctest.Wait()
			if s.check(); t.Failed() {
				break
			}
		}
		s.drain()
		for _, line := range s.log {
			fmt.Fprintln(trace, line)
			if t.Failed() {
				t.Log(line)
			}
		}
	})
	return trace.Sum64()
}

func (s *sim) note(what, format string, args ...any) {
	s.seen[what]++
	s.log = append(s.log, time.Now().Format("04:05.000000000 ")+what+" "+fmt.Sprintf(format, args...))
}

// handle returns a config's hold on the cluster.
func (s *sim) handle(set *settings) *Cluster {
	c := &Cluster{name: "sim", set: set, events: new(emitted), logger: zap.NewNop(), reseated: make(chan struct{}, 1)}
	c.key = set.balancer.Traits().Key
	var err error
	if c.state, err = takeState("sim"); err != nil {
		s.t.Fatal(err)
	}
	s.s = c.state
	return c
}

// begin starts a cluster, but not its goroutines: what they do is up to the sequence.
func (s *sim) begin(c *Cluster) { begin(s.t, c) }

// step does one thing, now or a while later.
func (s *sim) step() {
	if s.oneIn(3) {
		s.wait()
	}
	if s.oneIn(10) {
		s.luck = s.r.IntN(10)
	}
	switch n := s.r.IntN(100); {
	case n < 20:
		s.admit()
	case n < 68:
		s.progress()
	case n < 76:
		s.checkOne()
	case n < 84:
		s.connection()
	case n < 88:
		s.order()
	case n < 92:
		s.discover()
	case n < 95:
		s.events = s.c.tellAll(s.events)
	default:
		s.reload()
	}
}

// wait lets virtual time pass, often to the end of the view, or to just before it.
func (s *sim) wait() {
	wait := time.Duration(s.r.Int64N(int64(pick(s.r, time.Millisecond, time.Second, 15*time.Second)))) + 1
	if until := s.s.health.View(time.Now()).Until(); !until.IsZero() && s.oneIn(2) {
		wait = time.Until(until) - time.Duration(s.r.IntN(2))
	}
	time.Sleep(wait) // virtual time
}

func (s *sim) oneIn(n int) bool { return s.r.IntN(n) == 0 }

func (s *sim) admit() {
	r := new(simRequest)
	limit := s.c.set.policy.Limits.Requests
	active := s.s.health.Stats().RequestsActive
	err := s.c.Admit(&r.Request)
	if refused := err != nil; refused != (limit > 0 && active >= limit) {
		s.t.Errorf("got %v with %d requests of %d", err, active, limit)
	}
	if err != nil {
		s.note("refused requests", "")
		return
	}
	s.note("admit", "")
	s.requests = append(s.requests, r)
}

// progress goes on with one of the requests.
func (s *sim) progress() {
	if len(s.requests) == 0 {
		s.admit()
		return
	}
	i := s.r.IntN(len(s.requests))
	r := s.requests[i]
	switch {
	case r.lease != nil:
		s.end(r)
	case r.over || s.oneIn(8):
		s.finish(i)
	default:
		s.pick(r)
	}
}

func (s *sim) finish(i int) {
	r := s.requests[i]
	if r.lease != nil {
		s.done(r, Outcome{Kind: health.Aborted})
	}
	if !r.Finish() || r.Finish() {
		s.t.Error("a request must end once")
	}
	s.note("finish", "")
	s.requests = append(s.requests[:i], s.requests[i+1:]...)
}

// checkOne makes a check of one endpoint, as far as the result goes.
func (s *sim) checkOne() {
	keys := s.s.keys()
	if len(keys) == 0 || s.c.set.checker == nil {
		return
	}
	k := &checks{Cluster: s.c, schedule: health.NewSchedule(s.c.set.interval, 1)}
	k.schedule.Set([]string{pick(s.r, keys...)}, time.Now())
	probe, _ := k.schedule.Next(time.Now())
	e := s.s.known(probe.Key())
	before := s.statusOf(e)
	answer := s.answer()
	s.c.set.checker = answer
	k.count(&checked{probe, e, checkResult{at: time.Now(), err: k.ask(s.t.Context(), e)}})
	what := "check"
	if answer.notMade() {
		what = "check not made"
		if after := s.statusOf(e); after != before {
			s.t.Errorf("a check that wasn't made: got %+v, want %+v", after, before)
		}
	}
	s.note(what, "%s %v", e.text, answer.err)
}

// discover lets a source answer, or fail.
func (s *sim) discover() {
	if len(s.c.set.sources) == 0 {
		return
	}
	source := pick(s.r, s.c.set.sources...)
	if s.oneIn(3) {
		roster := s.s.roster.Load()
		s.c.take(source, nil, errNoAnswer)
		if s.s.roster.Load() != roster {
			s.t.Error("a lookup that failed has changed the endpoints")
		}
		s.note("lookup failed", "")
		return
	}
	found := s.found()
	s.c.take(source, found, nil)
	s.note("found", "%v", found)
	roster := s.s.roster.Load()
	if s.c.take(source, append([]discovery.Endpoint(nil), found...), nil); s.s.roster.Load() != roster {
		s.t.Error("the same answer has made another roster")
	}
}
