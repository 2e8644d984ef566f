package cluster

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/hostport"
)

// kinds is how many kinds of outcomes there are.
const kinds = int(health.Aborted) + 1

// Endpoint is an endpoint of a cluster. It is the same for all configs that have the cluster.
type Endpoint struct {
	at   hostport.Address
	text string
	live balancers.Live
	// health is set before the endpoint is on a roster.
	health atomic.Pointer[health.Endpoint]
	// trusted says that the operator wrote the address.
	trusted atomic.Bool
	// naming is nil for a name that is looked up as it stands.
	naming atomic.Pointer[naming]
	// tier is the one that it has, or had as a member. The state's mu guards it.
	tier uint8
	// upstream is the endpoint as Caddy's reverse proxy knows it.
	upstream reverseproxy.Upstream

	// outcomes counts what became of attempts, passed and failed the checks.
	outcomes       [kinds]atomic.Uint64
	passed, failed atomic.Uint64
	// lastCheck is the last check that was made, lastFailure the last failure of an attempt.
	lastCheck   atomic.Pointer[checkResult]
	lastFailure atomic.Pointer[failure]
	// due is when the next check is to be made; nil if none is to be.
	due     atomic.Pointer[due]
	holders holders
}

// checkResult is what a check has found.
type checkResult struct {
	at   time.Time
	took time.Duration
	err  error
}

func newEndpoint(at hostport.Address) *Endpoint {
	e := &Endpoint{at: at, text: at.String()}
	e.upstream = reverseproxy.Upstream{Dial: e.text, Host: new(reverseproxy.Host)}
	return e
}

// Address returns the address as it stands in configs, logs and metrics: `host:port` or `unix/path`.
func (e *Endpoint) Address() string { return e.text }

// Host returns the name or the IP address, without brackets; empty for a unix socket.
func (e *Endpoint) Host() string { return e.at.Host }

// Port returns the port; 0 for a unix socket.
func (e *Endpoint) Port() uint16 { return e.at.Port }

// Path returns the path of the unix socket; empty for TCP.
func (e *Endpoint) Path() string { return e.at.Path }

// Trusted says that the operator wrote the address.
func (e *Endpoint) Trusted() bool { return e.trusted.Load() }

// Upstream returns the endpoint as Caddy's reverse proxy knows it. It is always the same one, and isn't changed.
func (e *Endpoint) Upstream() *reverseproxy.Upstream { return &e.upstream }

// Cause says why what goes on at an endpoint is to end.
type Cause uint8

const (
	// Unhealthy means that the endpoint has become unhealthy.
	Unhealthy Cause = iota
	// Drained means that it was taken out by hand.
	Drained
)

// holders are the leases that want to be told when what goes on at an endpoint is to end. The zero value is ready.
type holders struct {
	mu    sync.Mutex
	first *Lease
	// drained says that the endpoint was emptied by hand: whoever comes late is told at once.
	drained bool
}

// add puts a lease on the list. f is what it wants to be told by.
func (h *holders) add(l *Lease, f func(Cause)) {
	h.mu.Lock()
	late := h.drained
	if !late && l.onStop == nil {
		l.next = h.first
		if h.first != nil {
			h.first.prev = l
		}
		h.first = l
	}
	l.onStop = f
	h.mu.Unlock()
	if late {
		f(Drained)
	}
}

// remove takes a lease off the list. After it, nobody is told.
func (h *holders) remove(l *Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.onStop = nil
	switch {
	case l.prev != nil:
		l.prev.next = l.next
	case h.first == l:
		h.first = l.next
	}
	if l.next != nil {
		l.next.prev = l.prev
	}
	l.prev, l.next = nil, nil
}

// stop returns what those want to be told by who have to be.
func (h *holders) stop(why Cause) (told []func(Cause)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drained = h.drained || why == Drained
	for l := h.first; l != nil; l = l.next {
		told = append(told, l.onStop)
	}
	return told
}

// reopen says that the endpoint is no longer empty by hand.
func (h *holders) reopen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drained = false
}
