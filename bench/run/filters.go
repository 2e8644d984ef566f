package main

import (
	"context"
	"errors"

	"github.com/caddy-sluice/sluice/bench/internal/load"
)

// filtersLimit is the bar of filters: CPU time relative to the same proxy without them.
const filtersLimit = 1.15

// filteredRoutes is sluiceRoutes with every TCP filter in front, and every timer and limit of forward set.
func filteredRoutes(names []string, upstream string) []layer4Route {
	routes := sluiceRoutes(names, upstream)
	router := routes[0].Handle[0]
	for _, route := range router["routes"].([]object) {
		route["handle"] = []object{{
			"handler": "forward", "upstream": upstream, "idle_timeout": "10m", "session_timeout": "8h",
			"max_duration": "24h", "half_close_timeout": "1m", "max_connections_per_ip": 100000, "user_timeout": "1m",
		}}
	}
	routes[0].Handle = []object{
		{"handler": "access_log"},
		{"handler": "preread", "proxy_protocol": object{"from": []string{"192.0.2.1"}}},
		{"handler": "admission", "max_connections": 100000, "max_connections_per_ip": 100000},
		{"handler": "ip_acl", "allow": []string{"127.0.0.0/8"}, "deny": []string{"192.0.2.0/24"}},
		router,
	}
	return routes
}

// runFiltered starts Sluice's Caddy with one route per name and all filters on.
func (l *lab) runFiltered(ctx context.Context, name string, names []string) (proxy, error) {
	return l.caddy(ctx, name, l.sluice, filteredRoutes(names, l.backend), nil)
}

// filters compares Sluice with all of its TCP filters to Sluice without.
func filters(ctx context.Context, l *lab) (sections []section, err error) {
	list := names(1)
	with, err1 := l.runFiltered(ctx, "filters", list)
	without, err2 := l.runSluice(ctx, "sluice", list, nil)
	defer func() { err = errors.Join(err, l.stopProxies(with, without)) }()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	byKind := []struct {
		title, bar string
		column     cost
		jobs       []load.Job
	}{
		{"filters, bulk down", "CPU per byte, with filters / without", perGigabyte, bulkJobs(load.Down, 8, list[0], with, without)},
		{"filters, bulk up", "CPU per byte up, with filters / without", perGigabyte, bulkJobs(load.Up, 8, list[0], with, without)},
		{"filters, new connections", "CPU per connection, with filters / without", perConnection, rateJobs(list[0], with, without)},
	}
	for _, k := range byKind {
		samples, err := load.Interleave(ctx, k.jobs, l.rounds)
		if err := errors.Join(err, check(k.jobs, samples)); err != nil {
			return sections, err
		}
		s := newSection(k.title, k.column, k.jobs, samples)
		s.bars = []bar{cpuBar(k.bar, samples[0], samples[1], filtersLimit)}
		sections = append(sections, s)
	}
	return sections, nil
}

// rateJobs is the same work of new connections for several proxies.
func rateJobs(name string, proxies ...proxy) []load.Job {
	jobs := make([]load.Job, len(proxies))
	for i, p := range proxies {
		jobs[i] = load.Job{Target: p.target(name), Options: rateOptions(rateCount)}
	}
	return jobs
}
