package permit

import (
	"net/netip"
	"sync"
)

// Keyed counts permits for each key. A key without permits is not in the table, so the table is never larger than the
// number of permits held. The zero value is ready. It is safe for concurrent use and must not be copied.
type Keyed[K comparable] struct {
	// mu guards held. It is one lock for all keys: under it is one map access, and a connection takes it twice in
	// its life.
	mu   sync.Mutex
	held map[K]int64
}

// TryAcquire takes one permit of a key, if no more than limit are held afterwards, and reports whether it did. A limit
// of 0 or less is none: the permit is counted only.
func (k *Keyed[K]) TryAcquire(key K, limit int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	held := k.held[key]
	if limit > 0 && held >= limit {
		return false
	}
	k.set(key, held+1)
	return true
}

// Release gives one permit of a key back. The caller gives back what it took, once: a count that no permit stands
// behind stays in the table.
func (k *Keyed[K]) Release(key K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set(key, k.held[key]-1)
}

// set keeps a count in the table unless it is 0. The caller holds mu.
func (k *Keyed[K]) set(key K, held int64) {
	if held == 0 {
		delete(k.held, key)
		return
	}
	if k.held == nil {
		k.held = make(map[K]int64)
	}
	k.held[key] = held
}

// Load returns how many permits of a key are held.
func (k *Keyed[K]) Load(key K) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held[key]
}

// Len returns how many keys hold permits.
func (k *Keyed[K]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.held)
}

// SourcePrefix returns the key under which connections from an address are counted: an IPv4 address, also when it comes
// as IPv4-mapped IPv6, stands for itself; an IPv6 address for the network of its first bits6 bits (0 to 128), since one
// client may have a whole network. A zone is left out. With any other bits6 an IPv6 address stands for itself.
func SourcePrefix(addr netip.Addr, bits6 int) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() {
		return addr
	}
	network, err := addr.Prefix(bits6)
	if err != nil {
		return addr
	}
	return network.Addr()
}
