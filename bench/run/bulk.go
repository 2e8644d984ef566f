package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-sluice/sluice/bench/internal/load"
)

const (
	// bulkBytes is moved in one run: enough to take most of a second even where splicing is cheapest.
	bulkBytes = 800e6
	// runLimit ends a run that hangs.
	runLimit = time.Minute
)

// The bars of bulk: CPU time per byte relative to the peers'. One stream has more fixed cost in it.
const (
	bulkStockLimit       = 0.45
	bulkStockSingleLimit = 0.55
	bulkHAProxyLimit     = 0.5
)

// bulk moves much data over few connections, both ways.
func bulk(ctx context.Context, l *lab) (sections []section, err error) {
	list := names(1)
	sluice, err1 := l.runSluice(ctx, "sluice", list, nil)
	stock, err2 := l.runStock(ctx, "caddy-l4", list)
	haproxy, err3 := l.runHAProxy(ctx, "haproxy", list)
	defer func() { err = errors.Join(err, l.stopProxies(sluice, stock, haproxy)) }()
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	for _, kind := range []load.Kind{load.Down, load.Up} {
		for _, streams := range []int{1, 8} {
			jobs := bulkJobs(kind, streams, list[0], sluice, stock, haproxy)
			samples, err := load.Interleave(ctx, jobs, l.rounds)
			if err := errors.Join(err, check(jobs, samples)); err != nil {
				return sections, err
			}
			s := newSection(fmt.Sprintf("bulk %s, streams: %d", kind, streams), perGigabyte, jobs, samples)
			limit := bulkStockLimit
			if streams == 1 {
				limit = bulkStockSingleLimit
			}
			s.bars = []bar{
				cpuBar("CPU per byte / caddy-l4", samples[0], samples[1], limit),
				cpuBar("CPU per byte / HAProxy", samples[0], samples[2], bulkHAProxyLimit),
			}
			sections = append(sections, s)
		}
	}
	return sections, nil
}

// bulkJobs is the same bulk work for several proxies.
func bulkJobs(kind load.Kind, streams int, name string, proxies ...proxy) []load.Job {
	o := load.Options{
		Kind: kind, Conns: streams, Bytes: bulkBytes, Limit: runLimit, Hello: load.HelloOptions{ALPN: load.DefaultALPN},
	}
	jobs := make([]load.Job, len(proxies))
	for i, p := range proxies {
		jobs[i] = load.Job{Target: p.target(name), Options: o}
	}
	return jobs
}
