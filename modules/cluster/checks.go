package cluster

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/healthchecks"
)

// checks are the active checks of a cluster, as long as they go on.
type checks struct {
	*Cluster
	schedule *health.Schedule
	done     chan checked
	underWay sync.WaitGroup
}

// checked is a check that was made.
type checked struct {
	probe    *health.Probe
	endpoint *Endpoint
	result   checkResult
}

// check checks the endpoints until ctx ends, and waits for the checks that are under way then. Their results don't count.
// It begins when those of the config before have ended.
// A word in reseated says that there are other endpoints.
func (c *Cluster) check(ctx context.Context, reseated <-chan struct{}) {
	select {
	case c.state.checking <- struct{}{}:
		defer func() { <-c.state.checking }()
	case <-ctx.Done():
		return
	}
	k := &checks{
		Cluster: c, schedule: health.NewSchedule(c.set.interval, health.DefaultParallelChecks),
		done: make(chan checked, health.DefaultParallelChecks),
	}
	defer k.underWay.Wait()
	k.schedule.Resume(c.state.due(c.set.check))
	k.reseat()
	k.run(ctx, reseated)
}

// run makes the checks that are due, and takes their results, until ctx ends.
func (k *checks) run(ctx context.Context, reseated <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Stop()
		if again := k.begin(ctx); !again.IsZero() {
			timer.Reset(time.Until(again))
		}
		select {
		case <-ctx.Done():
			return
		case <-reseated:
			k.reseat()
		case d := <-k.done:
			if ctx.Err() != nil {
				return // it may have been cut short, and is to be made at once by the next config
			}
			k.count(&d)
		case <-timer.C:
		}
	}
}

// begin begins the checks that are due, and says when the next one is.
func (k *checks) begin(ctx context.Context) time.Time {
	for {
		probe, again := k.schedule.Next(time.Now())
		if probe == nil {
			return again
		}
		e := k.state.known(probe.Key())
		// If the check is cut short by a reload, it is made again, after those that wait for longer.
		k.leave(e, time.Now())
		k.underWay.Go(func() {
			d := checked{probe, e, checkResult{at: time.Now()}}
			d.result.err = k.ask(ctx, e)
			d.result.took = time.Since(d.result.at)
			k.done <- d // has room for each that is under way
		})
	}
}

// ask makes one check.
func (k *checks) ask(ctx context.Context, e *Endpoint) (err error) {
	if e == nil {
		return healthchecks.ErrNotMade
	}
	defer func() {
		if p := recover(); p != nil {
			k.logger.Error("recovered from a panic in a health check", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			err = fmt.Errorf("%w: panic: %v", healthchecks.ErrNotMade, p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, k.set.timeout)
	defer cancel()
	return k.set.checker.Check(ctx, &healthchecks.Target{
		Host: e.at.Host, Port: e.at.Port, Path: e.at.Path, TLS: k.set.tls, ProxyProtocol: k.set.proxyProtocol,
		Dial: func(ctx context.Context, host string, port uint16) (net.Conn, error) {
			return k.dial(ctx, e, host, port)
		},
	})
}

// count takes the result of a check.
func (k *checks) count(d *checked) {
	if !k.schedule.Done(d.probe, time.Now()) || d.endpoint == nil {
		return
	}
	k.leave(d.endpoint, k.schedule.Due(d.endpoint.text))
	if healthchecks.NotMade(d.result.err) {
		k.logger.Debug("health check could not be made", zap.String("endpoint", d.endpoint.text), zap.Error(d.result.err))
		return
	}
	ok := d.result.err == nil
	d.endpoint.lastCheck.Store(&d.result)
	if ok {
		d.endpoint.passed.Add(1)
	} else {
		d.endpoint.failed.Add(1)
		k.logger.Debug("health check failed", zap.String("endpoint", d.endpoint.text), zap.Error(d.result.err))
	}
	k.state.health.Check(d.endpoint.health.Load(), ok, time.Now())
	k.state.stirred()
}

// reseat takes the endpoints that there are by now.
func (k *checks) reseat() {
	k.schedule.Set(k.state.keys(), time.Now())
	for _, e := range k.state.roster.Load().endpoints {
		if at := k.schedule.Due(e.text); !at.IsZero() {
			k.leave(e, at)
		}
	}
}

// leave notes when an endpoint is to be checked next: reloads that come more often than checks must not begin anew each
// time.
func (k *checks) leave(e *Endpoint, at time.Time) {
	if e != nil {
		e.due.Store(&due{k.set.check, at})
	}
}

// due is when an endpoint is to be checked.
type due struct {
	// check stands for the kind of check and its interval.
	check uint64
	at    time.Time
}

// due returns when endpoints are to be checked, as another config with the same check has left them.
func (s *state) due(check uint64) map[string]time.Time {
	all := make(map[string]time.Time)
	for _, e := range s.roster.Load().endpoints {
		if d := e.due.Load(); d != nil && d.check == check {
			all[e.text] = d.at
		}
	}
	return all
}

// forgetDue drops what is known of checks to come: a config without them rules.
func (s *state) forgetDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.endpoints {
		e.due.Store(nil)
	}
}

// keys returns the keys of the endpoints on the roster.
func (s *state) keys() []string {
	var keys []string
	for _, e := range s.roster.Load().endpoints {
		keys = append(keys, e.text)
	}
	return keys
}

// known returns the endpoint of a key; nil if there is none.
func (s *state) known(key string) *Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endpoints[key]
}
