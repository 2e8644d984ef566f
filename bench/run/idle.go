package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-sluice/sluice/bench/internal/load"
	"github.com/caddy-sluice/sluice/bench/internal/proc"
	"github.com/caddy-sluice/sluice/bench/internal/stats"
)

const (
	idleConns = 2000
	// idleWarm connections come and go first, so that what a process allocates once isn't charged to the others.
	idleWarm = 50
	// idleReply is what the backend sends on each before it goes idle.
	idleReply = 64
)

// The bars of idle, per connection: resident KiB, and descriptors with room for a stray one in two thousand.
const (
	idleKiBLimit        = 16
	idleDescriptorLimit = 2.01
)

// idleProxies are compared, each in a fresh process in every round: memory that a process has once is memory that it keeps.
var idleProxies = []struct {
	name  string
	start func(l *lab, ctx context.Context, name string, names []string) (proxy, error)
}{
	{"sluice", startSluice}, {"sluice, all filters", (*lab).runFiltered}, {"caddy-l4", (*lab).runStock}, {"haproxy", (*lab).runHAProxy},
}

// idle holds connections that do nothing.
func idle(ctx context.Context, l *lab) ([]section, error) {
	results := make([][]load.IdleResult, len(idleProxies))
	for round := range l.rounds {
		for k := range idleProxies {
			i := (k + round) % len(idleProxies)
			result, err := l.idleOnce(ctx, i)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", idleProxies[i].name, err)
			}
			results[i] = append(results[i], result)
		}
	}
	return []section{idleSection(results)}, nil
}

// idleOnce starts a proxy, measures it and stops it.
func (l *lab) idleOnce(ctx context.Context, i int) (load.IdleResult, error) {
	list := names(1)
	p, err := idleProxies[i].start(l, ctx, idleProxies[i].name, list)
	if err != nil {
		return load.IdleResult{}, err
	}
	result, err := load.MeasureIdle(ctx, p.target(list[0]), load.IdleOptions{
		Conns: idleConns, Warm: idleWarm, Reply: idleReply, Settle: p.settle,
	})
	if err != nil {
		return load.IdleResult{}, err
	}
	return result, l.stopProxies(p)
}

func idleSection(results [][]load.IdleResult) section {
	s := section{
		title:  fmt.Sprintf("idle, %d connections", idleConns),
		header: []string{"proxy", "RSS KiB/conn", "min", "max", "descriptors/conn", "kernel slab KiB/conn", "base RSS MiB"},
	}
	for i, rounds := range results {
		rss := column(rounds, func(r load.IdleResult) float64 { return r.RSS / 1024 })
		descriptors := column(rounds, func(r load.IdleResult) float64 { return r.Descriptors })
		slab := column(rounds, func(r load.IdleResult) float64 { return r.Slab / 1024 })
		base := column(rounds, func(r load.IdleResult) float64 { return float64(r.Base.RSS) / (1 << 20) })
		s.rows = append(s.rows, []string{
			idleProxies[i].name, decimals(rss.Median), decimals(rss.Min), decimals(rss.Max),
			decimals(descriptors.Median), decimals(slab.Median), decimals(base.Median),
		})
		if name := idleProxies[i].name; strings.HasPrefix(name, "sluice") {
			s.bars = append(s.bars, bar{name + ": KiB RSS per connection", rss.Median, idleKiBLimit},
				bar{name + ": descriptors per connection", descriptors.Median, idleDescriptorLimit})
		}
	}
	return s
}

// column summarizes one figure over the rounds.
func column(rounds []load.IdleResult, figure func(load.IdleResult) float64) stats.Summary {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = figure(r)
	}
	return stats.Summarize(values)
}

const (
	// steadyFor is how long the RSS must not change for a process to count as settled, settleTimeout how long that may take.
	steadyFor     = 2 * time.Second
	settleTimeout = 20 * time.Second
	// steadyBytes is a change that doesn't count.
	steadyBytes = 64 << 10
)

// settle forces garbage collections in a Caddy and waits until its RSS is steady. Two, because what a sync.Pool holds
// survives the first. What is free goes back to the system by the runtime's own scavenger: there is no way to force that
// from outside, and none in production either.
func (p proxy) settle(ctx context.Context) error {
	for range 2 {
		if err := p.collect(ctx); err != nil {
			return err
		}
	}
	var last int64
	since := time.Now()
	for deadline := since.Add(settleTimeout); time.Since(since) < steadyFor && time.Now().Before(deadline); {
		memory, err := proc.ReadMemory([]int{p.pid()})
		if err != nil {
			return err
		}
		if change := memory.RSS - last; change > steadyBytes || change < -steadyBytes {
			last, since = memory.RSS, time.Now()
		}
		if err := pause(ctx, pollInterval*10); err != nil {
			return err
		}
	}
	return nil
}

// collect has a Caddy collect its garbage, which a heap profile with gc=1 does.
func (p proxy) collect(ctx context.Context) error {
	if p.admin == "" {
		return nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+"/debug/pprof/heap?gc=1", nil)
	if err != nil {
		return err
	}
	request.Close = true // no connection of ours among the descriptors
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("forcing a collection: status %s", response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
