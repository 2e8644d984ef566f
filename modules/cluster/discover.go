package cluster

import (
	"context"
	"fmt"
	"slices"
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

// lookFirst looks for the endpoints of a source if nothing is known of it yet. What it finds counts at once.
func (c *Cluster) lookFirst(ctx context.Context, source discovery.Source) {
	c.state.mu.Lock()
	_, known := c.state.found[source.Identity()]
	c.state.mu.Unlock()
	if known {
		return
	}
	// The first lookup of discover tells if this goes on failing.
	found, _, err := source.Lookup(ctx)
	_ = c.take(source, found, err)
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
	return source.Lookup(ctx)
}

// tellLookup tells that lookups have begun to fail, or that they work again.
func (c *Cluster) tellLookup(source discovery.Source, err error) {
	if err != nil {
		c.logger.Warn("finding endpoints fails: those that were found last stay", zap.String("source", source.Identity()), zap.Error(err))
		return
	}
	c.logger.Info("finding endpoints works again", zap.String("source", source.Identity()))
}

// take makes an answer count, if it is another one than the last. The error is that of the lookup, or says why the answer
// can't be used.
func (c *Cluster) take(source discovery.Source, found []discovery.Endpoint, err error) error {
	s := c.state
	if err != nil {
		s.lookupFailures.Add(1)
		return err
	}
	s.lookups.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.found[source.Identity()]
	if s.ruler() != c || known && slices.Equal(old, found) {
		return nil
	}
	s.found[source.Identity()] = found
	if err := s.seat(c, time.Now()); err != nil {
		if s.found[source.Identity()] = old; !known {
			delete(s.found, source.Identity())
		}
		return fmt.Errorf("the endpoints found can't be used: %w", err)
	}
	c.logger.Info("endpoints have changed", zap.String("source", source.Identity()), zap.Int("found", len(found)),
		zap.Int("endpoints", len(s.roster.Load().endpoints)))
	select {
	case c.reseated <- struct{}{}:
	default:
	}
	return nil
}
