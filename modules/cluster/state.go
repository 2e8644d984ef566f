package cluster

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/discovery"
	"github.com/caddy-sluice/sluice/modules/hostport"
)

// states has what is known about clusters, by name. A config takes a reference when it is provisioned, and changes
// nothing until it has started: one that is refused leaves no trace.
var states = caddy.NewUsagePool()

// state is what is known about a cluster, whichever configs have it.
type state struct {
	name   string
	health *health.Cluster
	roster atomic.Pointer[roster]
	// random is a source of random numbers.
	random func() uint64
	// wake has room for one word to the keeper.
	wake chan struct{}
	// checking has room for one word, of the cluster whose checks go on: those of another one wait until they have ended.
	checking chan struct{}
	// begun is closed, and hasBegun set, once a config with the cluster has started.
	begun    chan struct{}
	hasBegun atomic.Bool
	// keyless counts the picks of a balancer with a key that had none, refused those that found no endpoint, crowded those
	// that found only full ones.
	keyless, refused, crowded atomic.Uint64
	// lookups counts the answers of discovery, lookupFailures the failures.
	lookups, lookupFailures atomic.Uint64

	// lacking says that the operator was told of too few endpoints, and not of enough since; later is the tier after the
	// first of which he was told that it serves, 0 if none does. They are the keeper's.
	lacking bool
	later   uint8
	// news are the events that are to be emitted.
	news news

	// building is held by who changes what a roster is made of: the members, their weights, who rules. A roster takes as
	// long as its balancer needs, seconds for a large ring, and mu isn't held meanwhile: the roster before serves until the
	// new one is there. Who takes both takes building first. Picks take only mu.
	building sync.Mutex

	// mu guards the fields below, and the change from one roster to the next. It is held for moments.
	mu        sync.Mutex
	endpoints map[string]*Endpoint
	// running are the clusters that have started and not stopped. The last one rules.
	running []*Cluster
	// kept is closed when the last keeper that was started has ended; nil if none was.
	kept chan struct{}
	// found are the last answers of the sources that are in use, by identity.
	found     map[string][]discovery.Endpoint
	overrides map[string]*override
	// closing are the timers of endpoints that are unhealthy, those that have gone off included.
	closing map[*Endpoint]*ending
}

// roster are the endpoints to choose from, and the picker that chooses.
type roster struct {
	endpoints []*Endpoint
	weights   []uint32
	tiers     []uint8
	picker    balancers.Picker
	// members is that of the view which has the same endpoints.
	members uint64
	// applied is the version of the view that the bars and shares of the endpoints show.
	applied atomic.Uint64
}

// pick chooses an endpoint. It is a method so that the query doesn't escape.
func (r *roster) pick(q *balancers.Query) (int, bool) {
	if set, ok := r.picker.(*balancers.Set); ok {
		return set.Pick(*q)
	}
	// Another balancer may keep what it is given.
	own := *q
	own.Tried = slices.Clone(q.Tried)
	return r.picker.Pick(own)
}

// takeState returns the state of a name; releaseState gives it back.
func takeState(name string) (*state, error) {
	value, _, err := states.LoadOrNew(name, func() (caddy.Destructor, error) { return newState(name), nil })
	if err != nil {
		return nil, err
	}
	return value.(*state), nil
}

func releaseState(name string) error {
	_, err := states.Delete(name)
	return err
}

func newState(name string) *state {
	s := &state{
		name: name, health: health.NewCluster(new(health.Config), time.Now()), random: rand.Uint64,
		wake: make(chan struct{}, 1), checking: make(chan struct{}, 1), begun: make(chan struct{}),
		endpoints: make(map[string]*Endpoint), found: make(map[string][]discovery.Endpoint),
		overrides: make(map[string]*override), closing: make(map[*Endpoint]*ending),
	}
	empty, _ := balance.New(balance.Config{}, nil, nil) // nothing to be wrong with
	s.roster.Store(&roster{picker: empty, members: s.health.View(time.Now()).Members()})
	return s
}

// Destruct implements caddy.Destructor. No config has the cluster any more.
func (s *state) Destruct() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.overrides {
		o.stop()
	}
	for e := range s.closing {
		s.spare(e)
	}
	return nil
}

// look returns the roster and the view that fit each other, and that the endpoints show.
func (s *state) look(now time.Time) (*roster, *health.View) {
	for {
		r, v := s.roster.Load(), s.health.View(now)
		if v.Members() == r.members && v.Version() == r.applied.Load() {
			return r, v
		}
		s.mu.Lock()
		s.apply(now)
		s.mu.Unlock()
	}
}

// apply makes the endpoints show what the view says. The caller holds mu.
func (s *state) apply(now time.Time) {
	r, v := s.roster.Load(), s.health.View(now)
	if v.Members() != r.members || v.Version() == r.applied.Load() {
		return
	}
	for i, e := range r.endpoints {
		e.live.SetShare(int(v.Effective(i) / max(r.weights[i], 1)))
		e.bar(v, i)
	}
	r.applied.Store(v.Version())
}

// bar lets everybody pick the endpoint, if the view offers it, or only requests that have failed elsewhere, if it is in
// reserve. Where it is another one's turn, that one comes first.
func (e *Endpoint) bar(v *health.View, i int) {
	bars := balance.Down
	switch {
	case v.Offers(i) && v.Yields(i):
		bars = balance.Yielding
	case v.Offers(i):
		bars = 0
	case v.Spares(i):
		bars = balance.Reserve
	}
	e.live.Bar(bars)
	e.live.Unbar((balance.Down | balance.Reserve | balance.Yielding) &^ bars)
}

// stirred wakes the keeper if there is something to tell.
func (s *state) stirred() {
	if s.health.EventsReady() {
		s.poke()
	}
}

// poke wakes the keeper.
func (s *state) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// ruler returns the cluster that rules; nil if none has started. The caller holds mu.
func (s *state) ruler() *Cluster {
	if len(s.running) == 0 {
		return nil
	}
	return s.running[len(s.running)-1]
}

// install makes the settings and members of a cluster count. If that isn't possible, nothing has changed. past is what to
// go back to, if it has ruled before; nil if it begins. The caller holds building.
func (s *state) install(c *Cluster, past *health.Past) error {
	p, err := s.plan(c, reweighed{})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if past == nil {
		c.past = s.health.Configure(&c.set.policy, now)
	} else {
		s.health.Return(&c.set.policy, past, now)
	}
	return s.carryOut(p, now)
}

// forgetFound drops the answers of sources that no cluster has. The caller holds mu.
func (s *state) forgetFound() {
	for identity := range s.found {
		if !slices.ContainsFunc(s.running, func(c *Cluster) bool { return c.finds(identity) }) {
			delete(s.found, identity)
		}
	}
}

// finds says whether a source is one of the cluster's.
func (c *Cluster) finds(identity string) bool {
	return slices.ContainsFunc(c.set.sources, func(src discovery.Source) bool { return src.Identity() == identity })
}

// plan is a roster to be, with what made it.
type plan struct {
	members []seatedMember
	roster  *roster
}

// reweighed is an endpoint that is about to have another weight by hand; 0: none. The zero value is no endpoint.
type reweighed struct {
	key    string
	weight uint32
}

// plan makes a roster of the members that a cluster has by now. Nothing changes with it. The caller holds building, so that
// what it was made of still holds when it is carried out, but not mu.
func (s *state) plan(c *Cluster, as reweighed) (*plan, error) {
	p, list := s.line(c, as)
	var err error
	if p.roster.picker, err = c.set.balancer.Prepare(list, s.roster.Load().picker); err != nil {
		return nil, fmt.Errorf("balance: %w", err)
	}
	return p, nil
}

// line returns a plan that has no picker yet, and what that is to be made of.
func (s *state) line(c *Cluster, as reweighed) (*plan, []balancers.Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &plan{s.members(c), new(roster)}
	list := make([]balancers.Endpoint, 0, len(p.members))
	for i := range p.members {
		e := s.endpoint(p.members[i].Address)
		weight := s.weight(&p.members[i], as)
		p.roster.endpoints = append(p.roster.endpoints, e)
		p.roster.weights = append(p.roster.weights, weight)
		p.roster.tiers = append(p.roster.tiers, p.members[i].tier)
		list = append(list, balancers.Endpoint{Key: e.text, Weight: int(weight), Tier: int(p.members[i].tier), Live: &e.live})
	}
	return p, list
}

// carryOut makes a plan count. The caller holds building and mu.
func (s *state) carryOut(p *plan, now time.Time) error {
	if err := s.health.SetMembers(healthMembers(p.members), now); err != nil {
		return fmt.Errorf("endpoints: %w", err)
	}
	r := p.roster
	for i, e := range r.endpoints {
		s.endpoints[e.text] = e
		e.health.Store(s.health.Endpoint(e.text))
		e.trusted.Store(p.members[i].trusted)
		e.naming.Store(p.members[i].naming)
		e.tier = p.members[i].tier
		e.unbar()
	}
	r.members = s.health.View(now).Members()
	s.roster.Store(r)
	s.forgetEndpoints()
	s.apply(now)
	s.poke()
	return nil
}

// seat makes a roster of the members that a cluster has by now, and makes it count. If that isn't possible, the roster
// stays what it was. The caller holds building.
func (s *state) seat(c *Cluster) error {
	p, err := s.plan(c, reweighed{})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.carryOut(p, time.Now())
}

// endpoint returns the endpoint of an address, new or known. The caller holds mu.
func (s *state) endpoint(at hostport.Address) *Endpoint {
	if e := s.endpoints[at.String()]; e != nil {
		return e
	}
	return newEndpoint(at)
}

// forgetEndpoints drops the endpoints that health has forgotten. The caller holds mu.
func (s *state) forgetEndpoints() {
	for key, e := range s.endpoints {
		if s.health.Endpoint(key) != nil {
			continue
		}
		delete(s.endpoints, key)
		s.spare(e)
	}
}

// weight returns the weight of a member, as it is about to be ordered by hand, is ordered, or configured. The caller holds
// mu.
func (s *state) weight(m *seatedMember, as reweighed) uint32 {
	var ordered uint32
	key := m.Address.String()
	if o := s.overrides[key]; o != nil {
		ordered = o.weight
	}
	if as.key == key {
		ordered = as.weight
	}
	return max(cmp.Or(ordered, m.weight), 1)
}
