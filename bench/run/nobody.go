package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddy-sluice/sluice/bench/internal/load"
)

// nobodyLimit is the bar of nobody: how much more than plain copying the worst case may cost.
const nobodyLimit = 1.2

// nobodyCases are mixes of busy and idle connections. A user without privileges may have 64 pipes of 1 MiB
// (/proc/sys/fs/pipe-user-pages-soft); beyond, pipes come out so small that splicing costs more than copying. Each busy
// stream wants a pipe, and so does each idle one in proxies that take it early.
var nobodyCases = []struct{ busy, idle int }{{150, 0}, {1, 200}, {150, 200}}

// nobody moves much data through a proxy whose user may not have all the pipes that splicing would like, and compares with
// plain copying.
func nobody(ctx context.Context, l *lab) (sections []section, err error) {
	list := names(1)
	sluice, err1 := l.runSluice(ctx, "sluice as nobody", list, unprivileged)
	copying, err2 := l.runCopy(ctx, "64 KiB copy", unprivileged)
	defer func() { err = errors.Join(err, l.stopProxies(sluice, copying)) }()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	for _, c := range nobodyCases {
		made, err := l.nobodyCase(ctx, list[0], c.busy, c.idle, []proxy{sluice, copying})
		sections = append(sections, made...)
		if err != nil {
			return sections, err
		}
	}
	return sections, nil
}

// nobodyCase measures one mix, both ways, with the idle connections held all along. proxies are ours and the yardstick.
func (l *lab) nobodyCase(ctx context.Context, name string, busy, idle int, proxies []proxy) (sections []section, err error) {
	for _, p := range proxies {
		held, err := load.Hold(ctx, p.target(name), idle, idleReply)
		if err != nil {
			return nil, err
		}
		defer held.Close()
	}
	for _, kind := range []load.Kind{load.Down, load.Up} {
		jobs := bulkJobs(kind, busy, name, proxies...)
		samples, err := load.Interleave(ctx, jobs, l.rounds)
		if err := errors.Join(err, check(jobs, samples)); err != nil {
			return sections, err
		}
		s := newSection(fmt.Sprintf("nobody %s, streams: %d busy, %d idle", kind, busy, idle), perGigabyte, jobs, samples)
		s.bars = []bar{cpuBar("CPU per byte / 64 KiB copy", samples[0], samples[1], nobodyLimit)}
		sections = append(sections, s)
	}
	return sections, nil
}
