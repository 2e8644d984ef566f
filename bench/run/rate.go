package main

import (
	"context"
	"errors"

	"github.com/caddy-sluice/sluice/bench/internal/load"
)

const (
	// rateConns is how many connections are open at a time, rateReply how many bytes each gets.
	rateConns = 16
	rateReply = 64
	// rateCount is how many connections one run opens. Stock caddy-l4 gets fewer where it needs milliseconds for each.
	rateCount     = 4000
	rateCountSlow = 400
)

// The bars of rate: CPU time per new connection.
const (
	rateFewLimit   = 0.75
	rateManyLimit  = 0.07
	rateScaleLimit = 1.15
)

// rateCase is one proxy with so many names, of which the clients ask for the last.
type rateCase struct {
	name  string
	names int
	count int64
	start func(l *lab, ctx context.Context, name string, names []string) (proxy, error)
}

var rateCases = []rateCase{
	{"sluice 10", 10, rateCount, startSluice},
	{"caddy-l4 10", 10, rateCount, (*lab).runStock},
	{"sluice 1000", 1000, rateCount, startSluice},
	{"caddy-l4 1000", 1000, rateCountSlow, (*lab).runStock},
	{"sluice 10000", 10000, rateCount, startSluice},
	{"haproxy 10", 10, rateCount, (*lab).runHAProxy},
	{"haproxy 10000", 10000, rateCount, (*lab).runHAProxy},
}

func startSluice(l *lab, ctx context.Context, name string, names []string) (proxy, error) {
	return l.runSluice(ctx, name, names, nil)
}

// rateOptions is the work of opening and closing so many connections.
func rateOptions(count int64) load.Options {
	return load.Options{
		Kind: load.Rate, Conns: rateConns, Count: count, Reply: rateReply, Limit: runLimit,
		Hello: load.HelloOptions{ALPN: load.DefaultALPN},
	}
}

// rate opens and closes connections as fast as it can, against few and many names.
func rate(ctx context.Context, l *lab) (sections []section, err error) {
	var proxies []proxy
	defer func() { err = errors.Join(err, l.stopProxies(proxies...)) }()
	jobs := make([]load.Job, len(rateCases))
	for i, c := range rateCases {
		list := names(c.names)
		p, err := c.start(l, ctx, c.name, list)
		if err != nil {
			return nil, err
		}
		proxies = append(proxies, p)
		jobs[i] = load.Job{Target: p.target(list[c.names-1]), Options: rateOptions(c.count)}
	}
	samples, err := load.Interleave(ctx, jobs, l.rounds)
	if err := errors.Join(err, check(jobs, samples)); err != nil {
		return nil, err
	}
	s := newSection("rate, new connections by number of names", perConnection, jobs, samples)
	s.bars = []bar{
		cpuBar("CPU per connection / caddy-l4, 10 names", samples[0], samples[1], rateFewLimit),
		cpuBar("CPU per connection / caddy-l4, 1,000 names", samples[2], samples[3], rateManyLimit),
		cpuBar("CPU per connection, 10,000 names / 10 names", samples[4], samples[0], rateScaleLimit),
	}
	return []section{s}, nil
}
