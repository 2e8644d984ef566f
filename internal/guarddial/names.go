package guarddial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/caddy-sluice/sluice/internal/namecache"
)

// lookupTimeout bounds a lookup, whatever time those who wait for it have. It is what connecting takes at most by
// default, resolving included.
const lookupTimeout = 10 * time.Second

// Names finds the addresses of names for a Dialer, as its Lookup, and keeps them for a minute, for 1024 names. However
// many ask for a name at a time, it is looked up once. Failures are not kept. The zero value is ready. It is safe for
// concurrent use.
type Names struct {
	// Resolver finds the addresses. nil: net.DefaultResolver.
	Resolver *net.Resolver

	// lookup asks it. nil: the function of that name.
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	cache  namecache.Cache
	// mu guards flights, and the number of those who wait for each.
	mu      sync.Mutex
	flights map[string]*flight
}

// NamesBy returns Names that ask a function, which gives at least one address or an error.
func NamesBy(lookup func(ctx context.Context, host string) ([]netip.Addr, error)) *Names {
	return &Names{lookup: lookup}
}

// flight is a lookup that is under way. addrs and err are there once done is closed.
type flight struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiting int
	addrs   []netip.Addr
	err     error
}

// Lookup returns the addresses of a name, at least one, none of them IPv4-mapped. The caller must not change them. If
// ctx ends first, the error is that of ctx; others that wait for the same name go on. When there is no file descriptor
// left to ask with, an answer up to five minutes old is returned.
func (n *Names) Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	host = strings.ToLower(host)
	known, f := n.join(ctx, host)
	if f == nil {
		return known, nil
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		n.leave(host, f)
		return nil, ctx.Err()
	}
	if f.err == nil || !outOfFiles(f.err) {
		return f.addrs, f.err
	}
	if addrs, _, ok := n.cache.Get(host, time.Now()); ok {
		return addrs, nil
	}
	return nil, fmt.Errorf("%w: %w", syscall.EMFILE, f.err) // as an error that says so: the name isn't to blame
}

// join returns the addresses of a name that are fresh, or else the lookup, which it begins if there is none.
func (n *Names) join(ctx context.Context, host string) (known []netip.Addr, f *flight) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if addrs, fresh, ok := n.cache.Get(host, time.Now()); ok && fresh {
		return addrs, nil
	}
	f = n.flights[host]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		ctx, f.cancel = context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		if n.flights == nil {
			n.flights = make(map[string]*flight)
		}
		n.flights[host] = f
		go n.fly(ctx, host, f)
	}
	f.waiting++
	return nil, f
}

// leave says that one caller waits no longer. The last one to leave ends the lookup: a name server that doesn't answer
// is not asked for anybody who is gone.
func (n *Names) leave(host string, f *flight) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		n.forget(host, f)
	}
}

// fly looks a name up. It is the goroutine of a flight, and ends at the latest with lookupTimeout, or when nobody waits
// for it any more.
func (n *Names) fly(ctx context.Context, host string, f *flight) {
	defer f.cancel()
	find := n.lookup
	if find == nil {
		find = func(ctx context.Context, host string) ([]netip.Addr, error) { return lookup(ctx, n.Resolver, host) }
	}
	f.addrs, f.err = find(ctx, host)
	if f.err == nil {
		n.cache.Put(host, f.addrs, time.Now())
	}
	// Who comes after this finds the answer in the cache.
	n.mu.Lock()
	n.forget(host, f)
	n.mu.Unlock()
	close(f.done)
}

// forget takes a flight out of the list. The caller holds mu. Another one for the same name may have begun since.
func (n *Names) forget(host string, f *flight) {
	if n.flights[host] == f {
		delete(n.flights, host)
	}
}

// outOfFiles says whether a lookup failed because the process or the system has no file descriptor left. The resolver
// turns errors into text.
func outOfFiles(err error) bool {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return true
	}
	failed, ok := errors.AsType[*net.DNSError](err)
	return ok && (strings.Contains(failed.Err, syscall.EMFILE.Error()) || strings.Contains(failed.Err, syscall.ENFILE.Error()))
}
