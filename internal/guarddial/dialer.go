// Package guarddial opens TCP connections to addresses that the guard permits, and to no others.
//
// A name is resolved here, all its addresses are judged, and the addresses that were judged are the ones that are
// dialled: a name server that answers something else the next time it is asked gains nothing. The address that the
// socket is about to connect to is judged once more. It is a dialer for TCP: it knows of no forward proxy, and proxy
// variables of the environment mean nothing to it.
package guarddial

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/internal/sockopt"
)

const (
	// maxAttempts is how many addresses of a name are tried. All of them are judged. With the usual limit of ten
	// seconds there is not even time for as many that don't answer.
	maxAttempts = 16
	// minAttempt is the least time that an address gets, as long as there is that much: the kernel sends a lost SYN
	// again after one second (RFC 6298 §2).
	minAttempt = 2 * time.Second
)

// Dialer opens connections. The zero value resolves as the process does and guards what came from a name. It is safe for
// concurrent use.
type Dialer struct {
	// Resolver finds the addresses of names. nil: net.DefaultResolver.
	Resolver *net.Resolver
	// Lookup finds them instead of Resolver, if it isn't nil. Its answer is not changed. It may come from a cache, such as
	// Names: it is judged each time.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Mode says which addresses are judged.
	Mode netguard.Mode
	// KeepAlive is set on each connection.
	KeepAlive sockopt.KeepAlive

	// dial connects to one address. nil: it is the dialer's own method. Tests count and redirect with it.
	dial func(ctx context.Context, dialer *net.Dialer, address string) (net.Conn, error)
}

// ResolveError says that a name has no addresses, or that they could not be found out in time.
type ResolveError struct {
	// Host is the name.
	Host string
	// Err is the resolver's error, most often a *net.DNSError. Through it shows that the context ended.
	Err error
}

// Error names the host and the reason.
func (e *ResolveError) Error() string { return fmt.Sprintf("resolving %q: %v", e.Host, e.Err) }

// Unwrap returns the resolver's error.
func (e *ResolveError) Unwrap() error { return e.Err }

// Dial connects to a port of a host: a name, or an IP literal, in brackets or not. trusted means that the operator wrote
// the host. An IP literal is then his choice, and is judged in strict mode only; one that a client had a part in is
// judged like an answer of the name server.
//
// The addresses of a name are tried in the resolver's order until one connects, at most 16 of them. Each gets an equal
// share of the time that ctx leaves, but at least two seconds if there are as many.
//
// The error is a *ResolveError, or a *netguard.Refused, with which nothing was sent to any of the addresses; any other
// means that none of the addresses could be connected to, and wraps the error of the last one tried.
func (d *Dialer) Dial(ctx context.Context, host string, port uint16, trusted bool) (net.Conn, error) {
	addrs, judged, err := d.permitted(ctx, host, trusted)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	if judged {
		dialer.ControlContext = judge(host)
	}
	conn, err := d.first(ctx, &dialer, addrs, port)
	if err != nil {
		return nil, fmt.Errorf("connecting to %q: %w", host, err)
	}
	return conn, nil
}

// Resolve returns the addresses that Dial would connect to, for a caller who has a dial function of his own: at least
// one, none of them IPv4-mapped. The guard permits all of them, else the error is a *netguard.Refused. If there are none
// it is a *ResolveError. Who dials these addresses, and not the name, needs no other check. See Try.
func (d *Dialer) Resolve(ctx context.Context, host string, trusted bool) ([]netip.Addr, error) {
	addrs, _, err := d.permitted(ctx, host, trusted)
	return addrs, err
}

// permitted returns the addresses of a host, and whether they were judged.
func (d *Dialer) permitted(ctx context.Context, host string, trusted bool) (addrs []netip.Addr, judged bool, err error) {
	addrs, literal, err := d.resolve(ctx, host)
	if err != nil {
		return nil, false, &ResolveError{Host: host, Err: err}
	}
	if !d.Mode.Checks(literal && trusted) {
		return addrs, false, nil
	}
	if err := netguard.Check(host, addrs); err != nil {
		return nil, false, err
	}
	return addrs, true, nil
}

// resolve returns the addresses of a host, at least one, and whether the host is an IP literal.
func (d *Dialer) resolve(ctx context.Context, host string) (addrs []netip.Addr, literal bool, err error) {
	if addr, err := netip.ParseAddr(unbracket(host)); err == nil {
		return []netip.Addr{addr.Unmap()}, true, nil
	}
	if d.Lookup == nil {
		addrs, err = lookup(ctx, d.Resolver, host)
		return addrs, false, err
	}
	found, err := d.Lookup(ctx, host)
	if err != nil {
		return nil, false, err
	}
	addrs, err = plain(host, slices.Clone(found))
	return addrs, false, err
}

// lookup asks a resolver for the addresses of a name. nil: net.DefaultResolver.
func lookup(ctx context.Context, resolver *net.Resolver, host string) ([]netip.Addr, error) {
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	addrs, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	return plain(host, addrs)
}

// plain turns IPv4-mapped addresses into IPv4, in place, and an empty list into an error.
func plain(host string, addrs []netip.Addr) ([]netip.Addr, error) {
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, nil
}

// unbracket returns what is between brackets, if the host is.
func unbracket(host string) string {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			return inner
		}
	}
	return host
}

// judge returns the check of the address that a socket is about to connect to.
func judge(host string) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		target, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("judging the address: %w", err)
		}
		return netguard.Check(host, []netip.Addr{target.Addr()})
	}
}

// first tries the addresses one after the other and returns the first connection.
func (d *Dialer) first(ctx context.Context, dialer *net.Dialer, addrs []netip.Addr, port uint16) (net.Conn, error) {
	return Try(ctx, addrs, func(ctx context.Context, addr netip.Addr) (net.Conn, error) {
		return d.attempt(ctx, dialer, netip.AddrPortFrom(addr, port))
	})
}

// Try connects to addresses, at least one, as Dial does: one after the other, at most 16, each with its share of the time
// that ctx leaves. It returns the first connection, or the error of the last attempt.
func Try(ctx context.Context, addrs []netip.Addr, connect func(context.Context, netip.Addr) (net.Conn, error)) (net.Conn, error) {
	addrs = addrs[:min(len(addrs), maxAttempts)]
	var failed error
	for i, addr := range addrs {
		own, cancel := withShare(ctx, len(addrs)-i)
		conn, err := connect(own, addr)
		cancel()
		if err == nil {
			return conn, nil
		}
		failed = err
		if Over(ctx) {
			break
		}
	}
	return nil, failed
}

// attempt connects to one address.
func (d *Dialer) attempt(ctx context.Context, dialer *net.Dialer, target netip.AddrPort) (net.Conn, error) {
	dial := d.dial
	if dial == nil {
		dial = dialTCP
	}
	conn, err := dial(ctx, dialer, target.String())
	if err != nil {
		return nil, err
	}
	if err := d.KeepAlive.Apply(conn); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("setting keepalive: %w", err)
	}
	return conn, nil
}

// dialTCP connects to one address.
func dialTCP(ctx context.Context, dialer *net.Dialer, address string) (net.Conn, error) {
	return dialer.DialContext(ctx, "tcp", address)
}

// withShare gives the next of so many addresses its share of the time that ctx leaves. One that gets all of it has ctx
// itself, which is then seen to be at its end when the attempt is.
func withShare(ctx context.Context, left int) (context.Context, context.CancelFunc) {
	end, limited := ctx.Deadline()
	remaining := time.Until(end)
	if own := Share(remaining, left); limited && own < remaining {
		return context.WithTimeout(ctx, own)
	}
	return ctx, func() {}
}

// Share returns how much of the remaining time the next of so many attempts gets: as much as each of the others, but two
// seconds if there are as many.
func Share(remaining time.Duration, left int) time.Duration {
	return max(remaining/time.Duration(left), min(minAttempt, remaining))
}

// Over says whether ctx has ended, or is about to because its time is over. A socket keeps the deadline by a timer of its
// own, so that it may fail before the context knows.
func Over(ctx context.Context) bool {
	end, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(end)
}
