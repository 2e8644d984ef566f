package discovery

import (
	"cmp"
	"context"
	"math"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// maxEndpoints is how many endpoints one source may give. The largest DNS message (64 KiB, RFC 1035 §4.2.2) has room
	// for four times as many addresses; 1000 is what the costs of choosing are measured with.
	maxEndpoints = 1000
	// maxLookup bounds a lookup, whatever time the caller has.
	maxLookup = 10 * time.Second
	// minTTL is the least time after which the same question is asked again: an answer with a time to live of 0 must not
	// become a loop.
	minTTL = time.Second
	// retryAfter is how soon one looks again after a failure, if refresh is longer: what was found before may be wrong by
	// now, but a name server in trouble is not to be asked much more than one in health.
	retryAfter = 5 * time.Second
	// noTTL is the time to live of answers that have none: more than any refresh.
	noTTL = time.Duration(math.MaxInt64)
)

// finder looks for endpoints of one kind.
type finder interface {
	// find returns what there is, in any order, and for how long it holds. known is what was found last.
	find(ctx context.Context, known []Endpoint) (found []Endpoint, ttl time.Duration, err error)
	identity() string
	// label is for logs.
	label() string
}

// source makes a Source of what finds the endpoints.
type source struct {
	finder  finder
	refresh time.Duration
	logger  *zap.Logger
	// tooMany says that the last answer had more endpoints than are used.
	tooMany atomic.Bool
}

// Identity returns what is looked for, as JSON.
func (s *source) Identity() string { return s.finder.identity() }

// String returns what is looked for, for logs.
func (s *source) String() string { return s.finder.label() }

// Subject returns what is looked for, wherever that is.
func (s *source) Subject() string {
	if module, ok := s.finder.(*upstreamsFinder); ok {
		return module.id // only the module knows which of its settings say where to ask
	}
	return s.finder.label()
}

// Names returns what looks up the names that were found; nil if that is up to the system.
func (s *source) Names() func(context.Context, string) ([]netip.Addr, error) {
	if f, ok := s.finder.(*srvFinder); ok && f.names != nil {
		return f.names.Lookup
	}
	return nil
}

// Lookup looks once.
func (s *source) Lookup(ctx context.Context, known []Endpoint) ([]Endpoint, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, maxLookup)
	defer cancel()
	found, ttl, err := s.finder.find(ctx, known)
	if err != nil {
		return nil, min(s.refresh, retryAfter), err
	}
	found = tidy(found)
	if over := len(found) > maxEndpoints; over != s.tooMany.Swap(over) && over {
		s.logger.Warn("more endpoints found than are used", zap.Stringer("source", s),
			zap.Int("found", len(found)), zap.Int("used", maxEndpoints))
	}
	return found[:min(len(found), maxEndpoints)], min(s.refresh, max(ttl, minTTL)), nil
}

// tidy sorts the endpoints by priority, host and port, and leaves of those with the same host and port the one with the
// lowest priority, and with the largest weight among these.
func tidy(found []Endpoint) []Endpoint {
	slices.SortFunc(found, func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port),
			cmp.Compare(b.Weight, a.Weight))
	})
	type address struct {
		host string
		port uint16
	}
	seen := make(map[address]bool, len(found))
	return slices.DeleteFunc(found, func(e Endpoint) bool {
		at := address{e.Host, e.Port}
		double := seen[at]
		seen[at] = true
		return double
	})
}

// Interface guards
var _ DNS = (*source)(nil)
