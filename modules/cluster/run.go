package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
)

// firstLookup is how long the start of a config waits for the first answers of discovery, so that the first requests
// find endpoints. A name server that takes longer must not keep a config from starting.
const firstLookup = 2 * time.Second

// StartAll starts clusters. Before, it waits for what their discovery finds at first, all of them at the same time: the
// config before serves until then. If one can't be started, those that were are stopped.
func StartAll(clusters []*Cluster) error {
	first := lookFirst(clusters)
	for i, c := range clusters {
		if err := c.start(first[i]); err != nil {
			StopAll(clusters[:i])
			return fmt.Errorf("clusters.%s.%w", c.name, err)
		}
	}
	for _, c := range clusters {
		c.state.resume(c)
		c.state.begin()
	}
	return nil
}

// maxAwait is how long a request waits for the start of a config. The apps of a config start one after the other, in any
// order: a server may take requests while the first lookups of discovery go on.
const maxAwait = firstLookup + 3*time.Second

// begin lets in the requests that wait for the first start.
func (s *state) begin() {
	if !s.hasBegun.Swap(true) {
		close(s.begun)
	}
}

// await waits for the first start of a config with the cluster.
func (s *state) await() {
	if s.hasBegun.Load() {
		return
	}
	timer := time.NewTimer(maxAwait)
	defer timer.Stop()
	select {
	case <-s.begun:
	case <-timer.C:
	}
}

// StopAll stops clusters: their checks, lookups and events. What goes on at their endpoints goes on.
func StopAll(clusters []*Cluster) {
	for _, c := range clusters {
		c.stop()
	}
}

// start makes the cluster the one that rules, with what its sources have found first. The one before pauses: it goes on if
// this one stops first.
func (c *Cluster) start(first findings) error {
	s := c.state
	s.building.Lock()
	defer s.building.Unlock()
	if err := s.installFirst(c, first); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ruler := s.ruler(); ruler != nil {
		ruler.pause()
	} else {
		c.past = nil
	}
	s.running = append(s.running, c)
	return nil
}

// installFirst installs a cluster with what its sources have found first. If that can't be used, it installs the cluster
// without: a name server must not keep a config from starting. The caller holds building.
func (s *state) installFirst(c *Cluster, first findings) error {
	taken := s.takeFirst(first)
	err := s.install(c, nil)
	if err == nil || len(taken) == 0 {
		return err
	}
	s.mu.Lock()
	for _, identity := range taken {
		delete(s.found, identity)
	}
	s.mu.Unlock()
	return s.install(c, nil)
}

// takeFirst takes the findings of sources of which nothing is known yet, and returns which they are.
func (s *state) takeFirst(first findings) (taken []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for identity, found := range first {
		if _, known := s.found[identity]; !known {
			s.found[identity] = found
			taken = append(taken, identity)
		}
	}
	return taken
}

// stop takes the cluster off the list and waits for its goroutines.
func (c *Cluster) stop() {
	c.abdicate()
	c.running.Wait()
}

// abdicate takes the cluster off the list. If it ruled, the one before rules again.
func (c *Cluster) abdicate() {
	s := c.state
	s.building.Lock()
	defer s.building.Unlock()
	s.mu.Lock()
	ruled, place := s.ruler() == c, slices.Index(s.running, c)
	if place >= 0 && !ruled {
		s.running[place+1].past = c.past // it would go back to the one before this one
	}
	s.running = slices.DeleteFunc(s.running, func(other *Cluster) bool { return other == c })
	c.pause()
	s.forgetFound()
	ruler := s.ruler()
	s.mu.Unlock()
	if !ruled || ruler == nil {
		return
	}
	if err := s.install(ruler, c.past); err != nil {
		c.logger.Error("going back to the endpoints of the config before", zap.Error(err))
	}
	s.resume(ruler)
}

// resume starts the goroutines of a cluster if it rules.
func (s *state) resume(c *Cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ruler() == c {
		c.resume()
	}
}

// pause ends the goroutines, and doesn't wait for them. The caller holds the state's mu.
func (c *Cluster) pause() {
	if c.cancel != nil {
		c.cancel()
		c.cancel = nil
	}
}

// resume starts the goroutines. The caller holds the state's mu.
func (c *Cluster) resume() {
	if c.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	before, kept := c.state.kept, make(chan struct{})
	c.state.kept = kept
	c.running.Go(func() {
		defer close(kept)
		if before != nil {
			<-before // one keeper at a time: a word to wake one must not go to the other
		}
		c.keep(ctx)
	})
	if c.set.checker != nil {
		// The checks of a run that was paused may go on for a moment, and take words that were meant for them only.
		reseated := make(chan struct{}, 1)
		c.reseated = reseated
		c.running.Go(func() { c.check(ctx, reseated) })
	}
	for _, source := range c.set.sources {
		c.running.Go(func() { c.discover(ctx, source) })
	}
}
