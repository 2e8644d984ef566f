package cluster

import (
	"fmt"
	"reflect"
	"time"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
)

// known is what is known about an endpoint that a sequence looks at.
type known struct {
	streaks
	Reason               health.Reason
	Trial                bool
	EjectedUntil         time.Time
	Connections, Pending int64
}

type streaks struct{ Successes, Failures, Consecutive int }

func (s *sim) statusOf(e *Endpoint) known {
	for _, h := range s.s.health.Statuses(time.Now()) {
		if h.Key == e.text {
			return known{
				streaks{h.Successes, h.Failures, h.Consecutive}, h.Reason, h.Trial, h.EjectedUntil, h.Connections, h.Pending,
			}
		}
	}
	return known{}
}

// order orders something for an endpoint, or takes it back.
func (s *sim) order() {
	keys := s.s.keys()
	if len(keys) == 0 {
		return
	}
	var err error
	key, change := pick(s.r, keys...), Change{}
	state := pick(s.r, "", "", "up", "drain", "drain", "disabled")
	if state == "" {
		if err = Restore("sim", key); err == ErrNoOverride {
			err = nil
		}
		s.closed[key] = false
	} else {
		change.State = state
		if state == "drain" && s.oneIn(2) {
			change.Deadline = s.seconds(3)
		}
		err = Override("sim", key, change)
		s.closed[key] = state != "up"
		s.seen["drain"]++
	}
	if err != nil {
		s.t.Errorf("ordering %+v: %v", change, err)
	}
	s.note("order", "%s %+v", key, change)
}

// reload starts another config: for good, or until it is stopped because something else has failed, or not at all.
func (s *sim) reload() {
	set := s.settings()
	before := s.c
	switch s.r.IntN(3) {
	case 0:
		set.balancer = refusing{}
		c, shown := s.handle(set), s.shown()
		if err := c.start(nil); err == nil {
			s.t.Error("a config that can't be used has started")
		}
		if after := s.shown(); !reflect.DeepEqual(after, shown) {
			s.t.Errorf("a config that can't be used: got %v, want %v", after, shown)
		}
		s.release(c)
		s.note("refused config", "")
	case 1:
		c, learnt := s.handle(set), s.learnt()
		s.begin(c)
		c.stop()
		if after := s.learnt(); !reflect.DeepEqual(after, learnt) {
			s.t.Errorf("a start that failed: got %+v, want %+v", after, learnt)
		}
		s.release(c)
		s.note("failed start", "")
	default:
		s.c = s.handle(set)
		s.begin(s.c)
		before.stop()
		s.release(before)
		s.note("reload", "%v", s.s.keys())
	}
}

// release gives back a config's hold.
func (s *sim) release(c *Cluster) {
	if err := c.Cleanup(); err != nil {
		s.t.Error(err)
	}
}

// learnt returns what a start that fails must not change about the endpoints.
func (s *sim) learnt() (list []health.Status) {
	for _, st := range s.s.health.Statuses(time.Now()) {
		if st.Member {
			st.Since = time.Time{} // others were told meanwhile
			list = append(list, st)
		}
	}
	return list
}

// shown returns what a config that is refused must not change.
func (s *sim) shown() []any {
	roster := s.s.roster.Load()
	return []any{
		s.s.health.Statuses(time.Now()), roster, len(s.s.endpoints), fmt.Sprint(s.s.found), len(s.s.overrides), len(s.s.closing),
	}
}

// check checks what must hold at any time.
func (s *sim) check() {
	s.checkView()
	s.checkCounts()
	s.checkTold()
}

// checkView: what the picker sees is what the view says.
func (s *sim) checkView() {
	now := time.Now()
	roster, view := s.s.look(now)
	s.seen["stance "+view.Stance().String()]++
	if len(roster.endpoints) != view.Len() {
		s.t.Fatalf("got %d endpoints and a view of %d", len(roster.endpoints), view.Len())
	}
	for i, e := range roster.endpoints {
		if view.Endpoint(i).Key() != e.text || e.health.Load() != view.Endpoint(i) || s.s.endpoints[e.text] != e {
			s.t.Errorf("%s: got another one's health", e.text)
		}
		s.checkBars(e, view, i)
		if share, want := e.live.Share(), int(view.Effective(i)/roster.weights[i]); share != max(want, 1) {
			s.t.Errorf("%s: got share %d, want %d", e.text, share, want)
		}
		if e.live.Bars()&balance.Full != 0 {
			s.seen["full"]++
			if !view.Endpoint(i).Full() && !isCrowded(e) {
				s.t.Errorf("%s: full, but it has room", e.text)
			}
		}
		if s.closed[e.text] && view.Offers(i) {
			s.t.Errorf("%s: offered though it is out by hand", e.text)
		}
	}
}

// checkCounts: what is counted is what is under way.
func (s *sim) checkCounts() {
	leases, retries := make(map[*Endpoint]int64), int64(0)
	open := uint64(0)
	for _, r := range s.requests {
		if r.charged {
			retries++
		}
		if r.lease != nil {
			leases[r.lease.Endpoint()]++
			open++
		}
	}
	stats, attempts := s.s.health.Stats(), int64(0)
	for _, h := range s.s.health.Statuses(time.Now()) {
		e := s.s.endpoints[h.Key]
		if e == nil {
			s.t.Fatalf("%s: health knows more", h.Key)
		}
		attempts += h.Attempts
		if load := e.live.Load(); load != leases[e] || h.Attempts != leases[e] {
			s.t.Errorf("%s: got load %d, %d attempts, want %d", h.Key, load, h.Attempts, leases[e])
		}
		settled := uint64(0)
		for kind := range e.outcomes {
			settled += e.outcomes[kind].Load()
		}
		if settled != s.settled[e] {
			s.t.Errorf("%s: got %d outcomes, want %d", h.Key, settled, s.settled[e])
		}
	}
	requests := int64(len(s.requests))
	if attempts > requests || uint64(attempts) != open || stats.RequestsActive != requests || stats.RetriesActive != retries ||
		retries > requests || stats.PendingActive > stats.ConnectionsActive || stats.PendingActive < 0 ||
		stats.ConnectionsActive > int64(len(s.conns)) || stats.Attempts != s.picks {
		s.t.Errorf("got %d attempts, %+v, want %d requests, %d retries, %d attempts", attempts, stats, requests, retries, open)
	}
}

// checkTold: whoever wants to be told, and is at an endpoint that is turned off, was told.
func (s *sim) checkTold() {
	for _, r := range s.requests {
		l := r.lease
		if l == nil || !l.listens {
			continue
		}
		o := s.s.overrides[l.Endpoint().text]
		due := o != nil && (o.state == "disabled" || !o.deadline.IsZero() && !time.Now().Before(o.deadline))
		if due {
			s.seen["told to stop"]++
		}
		if heard := l.heard.count(); due && heard == 0 || heard > 3 {
			s.t.Errorf("%s: told %d times", l.Endpoint().text, heard)
		}
	}
}

// drain ends all that is under way. Nothing may be left.
func (s *sim) drain() {
	for len(s.requests) > 0 {
		s.finish(len(s.requests) - 1)
	}
	for _, k := range s.conns {
		k.Close()
	}
	s.conns = nil
	if s.check(); s.s.health.Stats().ConnectionsActive != 0 {
		s.t.Errorf("got something left: %+v", s.s.health.Stats())
	}
	for _, e := range s.s.endpoints {
		if e.holders.first != nil {
			s.t.Errorf("%s: a lease that was settled is on the list", e.text)
		}
	}
	s.c.stop()
	s.release(s.c)
	if n, held := states.References("sim"); held {
		s.t.Errorf("got %d holds at the end", n)
	}
}
