package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/caddy-sluice/sluice/internal/health"
)

// Status is what is known about a cluster.
type Status struct {
	Name string `json:"name"`
	// Stance is `normal`, `fail_open`, `refusing` or `empty`.
	Stance string `json:"stance"`
	// ServingTier is the Tier of the endpoints that serve; nil if none does. Those of others get only trials, and what has
	// failed at all of these.
	ServingTier *uint8 `json:"serving_tier,omitempty"`
	// Total counts the endpoints, Healthy those that are available.
	Total   int `json:"total"`
	Healthy int `json:"healthy"`
	// Requests, Retries, Connections and Pending are under way; Ejected are ejected.
	Requests    int64            `json:"requests"`
	Retries     int64            `json:"retries"`
	Connections int64            `json:"connections"`
	Pending     int64            `json:"pending"`
	Ejected     int              `json:"ejected"`
	Endpoints   []EndpointStatus `json:"endpoints"`
}

// EndpointStatus is what is known about an endpoint.
type EndpointStatus struct {
	Address string `json:"address"`
	// State is `healthy`, `slow_start`, `unhealthy_active`, `unhealthy_passive`, `ejected`, `drained` or `disabled`;
	// Available says whether it is one of the first two. Cause is what was seen last that speaks against it.
	State     string    `json:"state"`
	Available bool      `json:"available"`
	Cause     string    `json:"cause,omitempty"`
	Since     time.Time `json:"since"`
	// Member is false for an endpoint that is no longer one, but of which something is still known.
	Member bool `json:"member"`
	// Tier is 0 for endpoints that serve first, at most 254, and 255 for a Backup. The next tier serves when there are too
	// few of those before. What has failed at all of those goes on to it, too.
	Tier   uint8 `json:"tier"`
	Backup bool  `json:"backup"`
	// Weight is the weight configured or ordered, EffectiveWeight the one that counts now, in a slow start.
	Weight          uint32  `json:"weight"`
	EffectiveWeight float64 `json:"effective_weight"`
	// Successes and Failures are the streaks of its health, ConsecutiveFailures the one that leads to an ejection.
	Successes           int        `json:"successes"`
	Failures            int        `json:"failures"`
	ConsecutiveFailures int        `json:"consecutive_failures"`
	EjectedUntil        *time.Time `json:"ejected_until,omitempty"`
	// Active, Retries, Connections and Pending are under way.
	Active      int64           `json:"active"`
	Retries     int64           `json:"retries"`
	Connections int64           `json:"connections"`
	Pending     int64           `json:"pending"`
	LastCheck   *CheckStatus    `json:"last_check,omitempty"`
	Override    *OverrideStatus `json:"override,omitempty"`
}

// CheckStatus is the last active check.
type CheckStatus struct {
	At time.Time `json:"at"`
	// Duration is how long it took, in seconds.
	Duration float64 `json:"duration"`
	Passed   bool    `json:"passed"`
	Error    string  `json:"error,omitempty"`
}

// OverrideStatus is what was ordered by hand.
type OverrideStatus struct {
	Weight   uint32     `json:"weight,omitempty"`
	State    string     `json:"state,omitempty"`
	Since    time.Time  `json:"since"`
	Deadline *time.Time `json:"deadline,omitempty"`
}

// Statuses returns what is known about the clusters of the config that has started, by name.
func Statuses() []Status {
	all := []Status{}
	for _, s := range inUse() {
		all = append(all, s.status())
	}
	return all
}

// StatusOf returns what is known about a cluster, if it is in use.
func StatusOf(name string) (Status, bool) {
	s := find(name)
	if s == nil {
		return Status{}, false
	}
	return s.status(), true
}

// inUse returns the states of clusters that have started, by name.
func inUse() []*state {
	var all []*state
	states.Range(func(_, value any) bool {
		s := value.(*state)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.running) > 0 {
			all = append(all, s)
		}
		return true
	})
	slices.SortFunc(all, func(a, b *state) int { return cmp.Compare(a.name, b.name) })
	return all
}

// find returns the state of a cluster that has started; nil if there is none.
func find(name string) *state {
	for _, s := range inUse() {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (s *state) status() Status {
	now := time.Now()
	roster, view := s.look(now)
	stats := s.health.Stats()
	st := Status{
		Name: s.name, Stance: view.Stance().String(), Total: view.Len(), Healthy: view.Available(),
		Requests: stats.RequestsActive, Retries: stats.RetriesActive, Connections: stats.ConnectionsActive,
		Pending: stats.PendingActive, Ejected: stats.EjectedNow, Endpoints: []EndpointStatus{},
	}
	if tier, serves, _ := roster.serving(view); serves {
		st.ServingTier = &tier
	}
	known := s.health.Statuses(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range known {
		if e := s.endpoints[known[i].Key]; e != nil {
			st.Endpoints = append(st.Endpoints, e.status(&known[i], s.overrides[known[i].Key]))
		}
	}
	return st
}

// status returns what is known about an endpoint. The caller holds the state's mu.
func (e *Endpoint) status(h *health.Status, o *override) EndpointStatus {
	s := EndpointStatus{
		Address: e.text, State: h.Reason.String(), Available: h.Reason.Available(), Cause: e.cause(h.Reason), Since: h.Since,
		Member: h.Member, Tier: e.tier, Backup: e.tier == backupTier, Weight: h.Weight, EffectiveWeight: float64(h.Effective) / health.WeightScale,
		Successes: h.Successes, Failures: h.Failures, ConsecutiveFailures: h.Consecutive,
		Active: h.Attempts, Retries: h.Retries, Connections: h.Connections, Pending: h.Pending,
		EjectedUntil: when(h.EjectedUntil),
	}
	if last := e.lastCheck.Load(); last != nil {
		s.LastCheck = &CheckStatus{At: last.at, Duration: last.took.Seconds(), Passed: last.err == nil}
		if last.err != nil {
			s.LastCheck.Error = last.err.Error()
		}
	}
	if o != nil {
		s.Override = &OverrideStatus{Weight: o.weight, State: o.state, Since: o.since, Deadline: when(o.deadline)}
	}
	return s
}

// when returns a time, or nil if it is none.
func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
