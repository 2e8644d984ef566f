package preread

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

const (
	simSeeds       = 256
	simConnections = 48
	// simDripMax is the longest stream that is delivered byte by byte.
	simDripMax = 400
)

// simSeen counts what the simulation has covered.
type simSeen struct {
	reasons                                             [reasonCount]int
	routed, split, records, overLimit, late, withHeader int
}

// TestSimulation drives cores with made-up connections, cut and delayed at random, and compares each answer with the
// shadow's. SLUICE_SEED=<n> runs that seed alone.
func TestSimulation(t *testing.T) {
	var seen simSeen
	if s := os.Getenv("SLUICE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			t.Fatalf("reading SLUICE_SEED: %v", err)
		}
		runSeed(t, seed, &seen, io.Discard)
		return
	}
	for seed := range uint64(simSeeds) {
		if runSeed(t, seed, &seen, io.Discard); t.Failed() {
			t.Fatalf("seed %d failed; run it alone with SLUICE_SEED=%d", seed, seed)
		}
	}
	for r := range Reasons() {
		if seen.reasons[r] == 0 {
			t.Errorf("no connection was rejected with %v", r)
		}
	}
	for name, n := range map[string]int{
		"routed": seen.routed, "delivered in pieces": seen.split, "in several records": seen.records, "complete over the limit": seen.overLimit,
		"late bytes": seen.late, "with a PROXY header": seen.withHeader,
	} {
		if n == 0 {
			t.Errorf("no connection was %s", name)
		}
	}
	t.Logf("seen: %+v", seen)
}

// TestSimulationRepeats is what makes a seed worth printing: the same one gives the same answers.
func TestSimulationRepeats(t *testing.T) {
	var seen simSeen
	first, second, other := fnv.New64a(), fnv.New64a(), fnv.New64a()
	runSeed(t, 7, &seen, first)
	runSeed(t, 7, &seen, second)
	runSeed(t, 8, &seen, other)
	if first.Sum64() != second.Sum64() || first.Sum64() == other.Sum64() {
		t.Errorf("got fingerprints %x, %x and %x for seeds 7, 7 and 8", first.Sum64(), second.Sum64(), other.Sum64())
	}
}

func runSeed(t *testing.T, seed uint64, seen *simSeen, log io.Writer) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	routes := simTable(r)
	table := newTable(t, routes)
	for range simConnections {
		s := &simRun{t: t, r: r, conn: makeConn(r, routes, table), now: t0, log: log}
		s.shadow.conn = s.conn
		s.play()
		s.count(seen)
	}
}

// simRun plays one connection.
type simRun struct {
	t      *testing.T
	r      *rand.Rand
	conn   *simConn
	core   Core
	shadow shadow
	now    time.Time
	log    io.Writer

	window  []byte
	last    Verdict
	reads   int
	outside bool // decided by the deadline, a timeout or a close
}

func (s *simRun) play() {
	for _, n := range s.cuts() {
		s.feed(n)
	}
	if s.last.Kind == NeedMore {
		s.end()
	}
	s.latched()
	s.sameAtOnce()
	s.readHello()
}

// cuts returns the window lengths at which the core is asked: all at once, in a few pieces, or byte by byte.
func (s *simRun) cuts() []int {
	total := len(s.conn.wire)
	if !oneIn(s.r, 5) { // the others ignore the limit when they read
		total = min(total, s.conn.cfg.MaxBytes)
	}
	var cuts []int
	switch n := s.r.IntN(100); {
	case n < 20 && total <= simDripMax:
		for i := range total {
			cuts = append(cuts, i)
		}
	case n < 45:
		for i, pieces := 0, 2+s.r.IntN(4); i < total; i += 1 + total/pieces + s.r.IntN(10) {
			cuts = append(cuts, i)
		}
	}
	return append(cuts, total)
}

// feed gives the core the first n bytes, in memory of their own, a while after the last input.
func (s *simRun) feed(n int) {
	s.now = s.now.Add(time.Duration(s.r.IntN(20)) * time.Millisecond)
	if oneIn(s.r, 20) {
		s.now = s.now.Add(time.Duration(s.r.Int64N(int64(DefaultTimeout))))
	}
	if s.last.Kind == NeedMore {
		s.window = bytes.Clone(s.conn.wire[:n])
		s.reads++
	}
	window := s.window
	if len(window) != n {
		window = bytes.Clone(s.conn.wire[:n])
	}
	got := s.core.Bytes(&s.conn.cfg, window, s.now)
	if !bytes.Equal(window, s.conn.wire[:n]) {
		s.errorf("the window was changed")
	}
	s.compare(got, s.shadow.bytes(n, s.now))
	s.outside = s.outside || got.Reason == Fragmented
}

// end finishes a connection that has said all it will say.
func (s *simRun) end() {
	switch s.outside = true; s.r.IntN(3) {
	case 0:
		s.compare(s.core.Timeout(), s.shadow.end(rejected(Fragmented)))
	case 1:
		s.compare(s.core.FrontClosed(), s.shadow.end(rejected(FrontClosed)))
	default:
		s.now = s.last.Deadline
		s.compare(s.core.Bytes(&s.conn.cfg, s.window, s.now), s.shadow.bytes(len(s.window), s.now))
	}
}

// compare holds an answer against the laws, and against the shadow's answer unless the bytes are chaos.
func (s *simRun) compare(got, want Verdict) {
	fmt.Fprintln(s.log, s.conn.kind, got.Kind, got.Reason, got.Match, got.Offset)
	switch {
	case !s.conn.chaos && got != want:
		s.errorf("got %+v, want %+v", got, want)
	case s.last.Kind != NeedMore && got != s.last:
		s.errorf("got %+v after %+v", got, s.last)
	case got.Offset > len(s.window):
		s.errorf("got offset %d in a window of %d bytes", got.Offset, len(s.window))
	case got.Kind == NeedMore && got.Deadline != s.shadow.verdict.Deadline && !s.conn.chaos:
		s.errorf("got deadline %v, want %v", got.Deadline, s.shadow.verdict.Deadline)
	}
	s.last = got
}

// latched gives the core one more input of any kind.
func (s *simRun) latched() {
	for _, got := range []Verdict{
		s.core.Bytes(&s.conn.cfg, randomBytes(s.r, s.r.IntN(100)), s.now.Add(time.Hour)), s.core.Timeout(), s.core.FrontClosed(),
	} {
		if got != s.last {
			s.errorf("got %+v after %+v", got, s.last)
		}
	}
}

// sameAtOnce: what the bytes decided, they decide for a fresh core that gets them all at once.
func (s *simRun) sameAtOnce() {
	if got := decide(&s.conn.cfg, s.window); !s.outside && got != s.last {
		s.errorf("at once: got %+v, want %+v", got, s.last)
	}
}

// readHello checks the views on the hello, which must be good for as long as the window is.
func (s *simRun) readHello() {
	if s.conn.chaos || s.outside || s.conn.kind != "hello" || s.last.Reason == TooLarge {
		return
	}
	hello := s.core.Hello()
	if hello == nil {
		s.errorf("got no hello, want one")
		return
	}
	if got := s.core.ServerName(); got != s.conn.name {
		s.errorf("got name %q, want %q", got, s.conn.name)
	}
	if got := s.last.Offset + hello.WireSize; got != s.conn.at || hello.Records != s.conn.records {
		s.errorf("got the end of the hello at %d in record %d, want %d, %d", got, hello.Records, s.conn.at, s.conn.records)
	}
}

func (s *simRun) errorf(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("%s connection of %d bytes (header %d, decides at %d, limit %d), read %d: %s", s.conn.kind, len(s.conn.wire),
		s.conn.header, s.conn.at, s.conn.cfg.MaxBytes, s.reads, fmt.Sprintf(format, args...))
}

// count notes what the connection has covered.
func (s *simRun) count(seen *simSeen) {
	if s.conn.chaos {
		return
	}
	decided := s.last.Kind == Routed
	seen.reasons[s.last.Reason]++
	seen.routed += one(decided)
	seen.split += one(decided && s.reads > 2)
	seen.records += one(decided && s.conn.records > 1)
	seen.overLimit += one(decided && len(s.window) > s.conn.cfg.MaxBytes)
	seen.withHeader += one(decided && s.conn.header > 0)
	seen.late += one(s.last.Reason == Fragmented && s.conn.at > 0 && len(s.window) >= s.conn.at)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
