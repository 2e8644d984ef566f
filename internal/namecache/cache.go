// Package namecache keeps the addresses of names for a minute, for as many names as it has room for. It asks nobody and
// knows no clock: who has looked a name up puts the answer in, and says what time it is.
package namecache

import (
	"container/list"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// TTL is how long an answer is fresh. What the operator changes in DNS, and what an attacker does, shows after that.
	TTL = time.Minute
	// Stale is how long an answer is kept, for who can't ask at the moment.
	Stale = 5 * time.Minute
	// Entries is how many names there is room for. With the limits below they take 7 MB at most.
	Entries = 1024
	// maxAddrs is how many addresses of a name are kept: of a longer answer none, since who judges one has to see it whole.
	// A name server that serves thousands of endpoints gives each client a few of them.
	maxAddrs = 256
	// maxName is the length of a name, in bytes, with its last dot (RFC 1035 §2.3.4).
	maxName = 254
)

// Cache holds answers. The zero value is empty. It is safe for concurrent use.
type Cache struct {
	// mu guards names and order.
	mu    sync.Mutex
	names map[string]*list.Element
	// order holds an entry for each name, the one that was put in first in front.
	order list.List
}

// entry is the answer for a name. It is replaced, never changed.
type entry struct {
	name  string
	addrs []netip.Addr
	at    time.Time
}

// Get returns the addresses of a name. ok is false if there are none that may be used; they may be until the age of
// Stale. fresh says that they are younger than TTL. The caller must not change them. Names are compared as they are.
func (c *Cache) Get(name string, now time.Time) (addrs []netip.Addr, fresh, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.names[name]
	if element == nil {
		return nil, false, false
	}
	found := element.Value.(*entry)
	age := now.Sub(found.at)
	if age > Stale {
		c.remove(element)
		return nil, false, false
	}
	return found.addrs, age < TTL, true
}

// Put keeps the addresses that a name has at this moment, in place of those that it had. The name put in longest ago
// makes room. No addresses are no answer: they change nothing. A name with too many, and one that is too long to be one,
// is not kept.
func (c *Cache) Put(name string, addrs []netip.Addr, now time.Time) {
	if len(addrs) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.names[name]; element != nil {
		c.remove(element)
	}
	if len(addrs) > maxAddrs || len(name) > maxName {
		return
	}
	if c.order.Len() >= Entries {
		c.remove(c.order.Front())
	}
	if c.names == nil {
		c.names = make(map[string]*list.Element)
	}
	c.names[name] = c.order.PushBack(&entry{name: name, addrs: slices.Clone(addrs), at: now})
}

// remove takes a name out. The caller holds mu.
func (c *Cache) remove(element *list.Element) {
	delete(c.names, element.Value.(*entry).name)
	c.order.Remove(element)
}
