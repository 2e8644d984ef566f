package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/modules/discovery"
)

const (
	// minRefresh is the least time between two lookups, whatever a source says.
	minRefresh = time.Second
	// maxLookup is how long one lookup may take: a resolver asks two servers for two names in that time.
	maxLookup = 10 * time.Second
)

// findings are the answers of sources, by identity.
type findings map[string][]discovery.Endpoint

// lookFirst looks for the endpoints of sources of which nothing is known yet, all at the same time, and returns what was
// found for each cluster. That takes firstLookup at most, while what was there before goes on.
func lookFirst(clusters []*Cluster) []findings {
	ctx, cancel := context.WithTimeout(context.Background(), firstLookup)
	defer cancel()
	first := make([]findings, len(clusters))
	var waiting sync.WaitGroup
	for i, c := range clusters {
		waiting.Go(func() { first[i] = c.lookFirst(ctx) })
	}
	waiting.Wait()
	return first
}

// lookFirst looks for the endpoints of the cluster's sources of which nothing is known yet. Where that fails, the answer
// for the same thing from elsewhere stands in. The first lookup of discover tells if it goes on failing.
func (c *Cluster) lookFirst(ctx context.Context) findings {
	var mu sync.Mutex
	// mu guards first.
	first := make(findings)
	var waiting sync.WaitGroup
	for _, source := range c.set.sources {
		known, settled := c.known(source)
		if settled {
			continue
		}
		waiting.Go(func() {
			found, _, err := source.Lookup(ctx, known)
			c.state.countLookup(err)
			if err != nil {
				found = known
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil || known != nil {
				first[source.Identity()] = found
			}
		})
	}
	waiting.Wait()
	return first
}

// known returns the last answer of a source. If there is none, that is the answer of a source which rules now and looks
// for the same thing elsewhere, if there is one; it isn't settled then.
func (c *Cluster) known(source discovery.Source) (found []discovery.Endpoint, settled bool) {
	s := c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, settled = s.found[source.Identity()]; settled {
		return found, true
	}
	if ruler := s.ruler(); ruler != nil {
		for _, before := range ruler.set.sources {
			if found = s.found[before.Identity()]; found != nil && subject(before) == subject(source) {
				return found, false
			}
		}
	}
	return nil, false
}

// subject returns what a source looks for, wherever it looks.
func subject(source discovery.Source) string {
	if s, ok := source.(discovery.DNS); ok {
		return s.Subject()
	}
	return source.Identity()
}

// namingOf returns how the names that a source finds are looked up; nil if by the system.
func namingOf(source discovery.Source) *naming {
	if s, ok := source.(discovery.DNS); ok {
		if names := s.Names(); names != nil {
			return &naming{names: names}
		}
	}
	return nil
}

// countLookup counts a lookup that has ended.
func (s *state) countLookup(err error) {
	if err != nil {
		s.lookupFailures.Add(1)
		return
	}
	s.lookups.Add(1)
}

// discover looks for endpoints until ctx ends. What was found last holds until something else is.
func (c *Cluster) discover(ctx context.Context, source discovery.Source) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		found, again, err := c.lookup(ctx, source)
		if ctx.Err() != nil {
			return
		}
		err = c.take(source, found, err)
		if failed := err != nil; failed != failing {
			failing = failed
			c.tellLookup(source, err)
		}
		timer.Reset(max(again, minRefresh))
	}
}

// lookup asks the source once.
func (c *Cluster) lookup(ctx context.Context, source discovery.Source) ([]discovery.Endpoint, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, maxLookup)
	defer cancel()
	known, _ := c.known(source)
	return source.Lookup(ctx, known)
}

// tellLookup tells that lookups have begun to fail, or that they work again.
func (c *Cluster) tellLookup(source discovery.Source, err error) {
	if err != nil {
		message := "finding endpoints fails: there are none from before"
		if found, _ := c.known(source); len(found) > 0 {
			message = "finding endpoints fails: those that were found last stay"
		}
		c.logger.Warn(message, zap.Stringer("source", source), zap.Error(err))
		return
	}
	c.logger.Info("finding endpoints works again", zap.Stringer("source", source))
}

// take makes an answer count, if it is another one than the last. The error is that of the lookup, or says why the answer
// can't be used.
func (c *Cluster) take(source discovery.Source, found []discovery.Endpoint, err error) error {
	s := c.state
	if s.countLookup(err); err != nil {
		return err
	}
	s.building.Lock()
	defer s.building.Unlock()
	takeBack, news := s.exchange(c, source.Identity(), found)
	if !news {
		return nil
	}
	if err := s.seat(c); err != nil {
		takeBack()
		return fmt.Errorf("the endpoints found can't be used: %w", err)
	}
	c.logger.Info("endpoints have changed", zap.Stringer("source", source), zap.Int("found", len(found)),
		zap.Int("endpoints", len(s.roster.Load().endpoints)))
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case c.reseated <- struct{}{}:
	default:
	}
	return nil
}

// exchange replaces the answer of a source, if it is news and the cluster rules. takeBack undoes it. The caller holds
// building.
func (s *state) exchange(c *Cluster, identity string, found []discovery.Endpoint) (takeBack func(), news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.found[identity]
	if s.ruler() != c || known && slices.Equal(old, found) {
		return nil, false
	}
	s.found[identity] = found
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.found[identity] = old; !known {
			delete(s.found, identity)
		}
	}, true
}
