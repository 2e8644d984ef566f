package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/caddy-sluice/sluice/bench/internal/load"
)

// nobodyID is the user and group of unprivileged proxies.
const nobodyID = 65534

// proxy is a proxy under test.
type proxy struct {
	*process
	addr string
	// admin is the address of a Caddy's admin endpoint; empty for others.
	admin string
}

// target makes the proxy a target of load, with a ClientHello for name.
func (p proxy) target(name string) load.Target {
	return load.Target{Name: p.name, Addr: p.addr, ServerName: name, PID: p.pid()}
}

// unprivileged returns the command, run as nobody. If the benchmark isn't root, its own user is no more privileged and will do.
func unprivileged(command []string) []string {
	if os.Geteuid() != 0 {
		return command
	}
	id := strconv.Itoa(nobodyID)
	return append([]string{"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--"}, command...)
}

// wrapper changes a command, or is nil.
type wrapper func([]string) []string

func (w wrapper) wrap(command []string) []string {
	if w == nil {
		return command
	}
	return w(command)
}

// caddy starts a Caddy whose layer-4 server has these routes.
func (l *lab) caddy(ctx context.Context, name, binary string, routes []layer4Route, as wrapper) (proxy, error) {
	addr, err := l.ports.take()
	if err != nil {
		return proxy{}, err
	}
	admin, err := l.ports.take()
	if err != nil {
		return proxy{}, err
	}
	config, err := caddyConfig(addr, admin, routes)
	if err != nil {
		return proxy{}, err
	}
	path, err := l.write(name, ".json", config)
	if err != nil {
		return proxy{}, err
	}
	if err := l.makeHome(name); err != nil {
		return proxy{}, err
	}
	p, err := l.launch(ctx, name, addr, as.wrap([]string{binary, "run", "--config", path}))
	return proxy{p, addr, admin}, err
}

// makeHome creates a Caddy's data folder, writable for nobody.
func (l *lab) makeHome(name string) error {
	home := l.path(name, homeExtension)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(home, nobodyID, nobodyID)
}

// runSluice starts Sluice's Caddy with one route per name.
func (l *lab) runSluice(ctx context.Context, name string, names []string, as wrapper) (proxy, error) {
	return l.caddy(ctx, name, l.sluice, sluiceRoutes(names, l.backend), as)
}

// runStock starts a stock caddy-l4 with one route per name.
func (l *lab) runStock(ctx context.Context, name string, names []string) (proxy, error) {
	return l.caddy(ctx, name, l.stock, stockRoutes(names, l.backend), nil)
}

// runHAProxy starts HAProxy in its default configuration, with the names in a map.
func (l *lab) runHAProxy(ctx context.Context, name string, names []string) (proxy, error) {
	addr, err := l.ports.take()
	if err != nil {
		return proxy{}, err
	}
	table, err := l.write(name, ".map", haproxyMap(names))
	if err != nil {
		return proxy{}, err
	}
	path, err := l.write(name, ".cfg", haproxyConfig(addr, l.backend, table))
	if err != nil {
		return proxy{}, err
	}
	p, err := l.launch(ctx, name, addr, []string{l.haproxy, "-db", "-f", path})
	return proxy{p, addr, ""}, err
}

// runCopy starts the copying yardstick.
func (l *lab) runCopy(ctx context.Context, name string, as wrapper) (proxy, error) {
	addr, err := l.ports.take()
	if err != nil {
		return proxy{}, err
	}
	command := []string{l.copyproxy, "-listen", addr, "-upstream", l.backend}
	p, err := l.launch(ctx, name, addr, as.wrap(command))
	return proxy{p, addr, ""}, err
}

// stopProxies stops proxies that a scenario has started; those that never started are nil.
func (l *lab) stopProxies(proxies ...proxy) error {
	var running []*process
	for _, p := range proxies {
		if p.process != nil {
			running = append(running, p.process)
		}
	}
	return l.stop(running...)
}

// pause waits between two looks at something, or returns early with the context's error.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// names returns n server names, of which the last is the one that clients ask for.
func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("h%05d.example.test", i)
	}
	return list
}
