package health

import "sync/atomic"

// Conn is one connection to an endpoint. It is filled by Cluster.Dial; the caller provides the memory. It must not be
// copied. Its methods are safe for concurrent use; a call that doesn't fit its state does nothing.
//
//	Dial → dialing ─Connected→ serving ⇄ idle (Idle, Reused)
//	         └────────Close───────┴───────┴──→ closed
type Conn struct {
	c     *Cluster
	e     *Endpoint
	state atomic.Uint32
}

// The states of a connection. Dialing ones are counted as pending too, idle and closed ones aren't counted.
const (
	connClosed uint32 = iota
	connDialing
	connServing
	connIdle
)

// Dial counts a new connection to an endpoint, which is to be made now, unless there would be too many. It isn't for a
// connection that comes out of a pool.
func (c *Cluster) Dial(k *Conn, e *Endpoint) Refusal {
	if why := c.dial(e); why != Granted {
		c.stats.dialsRefused.Add(1)
		return why
	}
	*k = Conn{c: c, e: e}
	k.state.Store(connDialing)
	return Granted
}

// dial counts at the endpoint first: then the cluster's count never holds what is refused.
func (c *Cluster) dial(e *Endpoint) Refusal {
	own, all := e.limits.Load(), &c.cfg.Load().Limits
	if at := e.conns.tryAdd(1, own.Connections, own.Pending); at != noHalf {
		return refusal(at, EndpointConnections, EndpointPending)
	}
	at := c.conns.tryAdd(1, all.Connections, all.Pending)
	if at != noHalf {
		e.conns.add(-1, -1)
	}
	return refusal(at, ClusterConnections, ClusterPending)
}

// Connected says that the connection was made.
func (k *Conn) Connected() { k.change(connDialing, connServing, 0, -1) }

// Idle says that the connection went into a pool.
func (k *Conn) Idle() { k.change(connServing, connIdle, -1, 0) }

// Reused says that the connection came out of the pool. No limit stands in its way.
func (k *Conn) Reused() {
	// It is counted first: Close may come between, and must not take away what isn't there yet.
	k.add(1, 0)
	if !k.state.CompareAndSwap(connIdle, connServing) {
		k.add(-1, 0)
	}
}

// change goes from one state to another, if it is in the first, and takes from the counts what it no longer is.
func (k *Conn) change(from, to uint32, conns, pending int64) {
	if k.state.CompareAndSwap(from, to) {
		k.add(conns, pending)
	}
}

// Close says that the connection was closed, or couldn't be made.
func (k *Conn) Close() {
	switch k.state.Swap(connClosed) {
	case connDialing:
		k.add(-1, -1)
	case connServing:
		k.add(-1, 0)
	}
}

func (k *Conn) add(conns, pending int64) {
	k.e.conns.add(conns, pending)
	k.c.conns.add(conns, pending)
}
