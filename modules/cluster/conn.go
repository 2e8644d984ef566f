package cluster

import "github.com/caddy-sluice/sluice/internal/health"

// Conn counts one connection to an endpoint, from Cluster.Count until it is closed. The caller provides the memory, which
// must not be copied. Its methods are safe for concurrent use; a call that doesn't fit what it is does nothing.
type Conn struct {
	counted health.Conn
	// endpoint is nil before the first Count.
	endpoint *Endpoint
}

// Connected says that the connection was made.
func (k *Conn) Connected() {
	k.counted.Connected()
	k.unbar()
}

// Idle says that the connection serves nobody, so that it isn't counted.
func (k *Conn) Idle() {
	k.counted.Idle()
	k.unbar()
}

// Reused says that it serves somebody again. No limit stands in its way.
func (k *Conn) Reused() { k.counted.Reused() }

// Close says that the connection was closed, or couldn't be made.
func (k *Conn) Close() {
	k.counted.Close()
	k.unbar()
}

// unbar lets picks in again.
func (k *Conn) unbar() {
	if k.endpoint != nil {
		k.endpoint.unbar()
	}
}
