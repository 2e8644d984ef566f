package namecache

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// start is when the tests begin.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// addrs returns that many addresses, of which the first ends in the number.
func addrs(first byte, n int) []netip.Addr {
	list := make([]netip.Addr, n)
	for i := range list {
		list[i] = netip.AddrFrom4([4]byte{192, byte(i >> 8), byte(i), first})
	}
	return list
}

func TestAge(t *testing.T) {
	for _, tc := range []struct {
		age       time.Duration
		fresh, ok bool
	}{
		{-time.Second, true, true},
		{0, true, true},
		{time.Minute - 1, true, true},
		{time.Minute, false, true},
		{5 * time.Minute, false, true},
		{5*time.Minute + 1, false, false},
	} {
		t.Run(tc.age.String(), func(t *testing.T) {
			var c Cache
			c.Put("a.test", addrs(1, 2), start)
			got, fresh, ok := c.Get("a.test", start.Add(tc.age))
			if fresh != tc.fresh || ok != tc.ok || ok != slices.Equal(got, addrs(1, 2)) {
				t.Errorf("got %v, %v, %v, want %v, %v", got, fresh, ok, tc.fresh, tc.ok)
			}
		})
	}
}

func TestPut(t *testing.T) {
	for _, tc := range []struct {
		name  string
		host  string
		addrs []netip.Addr
		want  []netip.Addr
	}{
		{"replaces", "a.test", addrs(2, 1), addrs(2, 1)},
		{"another_name", "b.test", addrs(2, 1), addrs(1, 1)},
		{"another_case", "A.test", addrs(2, 1), addrs(1, 1)},
		{"none", "a.test", nil, addrs(1, 1)},
		{"as_many_as_are_kept", "a.test", addrs(2, maxAddrs), addrs(2, maxAddrs)},
		{"too_many", "a.test", addrs(2, maxAddrs+1), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c Cache
			c.Put("a.test", addrs(1, 1), start)
			c.Put(tc.host, tc.addrs, start)
			got, _, ok := c.Get("a.test", start)
			if !slices.Equal(got, tc.want) || ok != (tc.want != nil) {
				t.Errorf("got %v, %v, want %v", got, ok, tc.want)
			}
		})
	}
}

func TestLengthOfNames(t *testing.T) {
	var c Cache
	for _, n := range []int{maxName, maxName + 1} {
		name := strings.Repeat("a", n)
		c.Put(name, addrs(1, 1), start)
		if _, _, ok := c.Get(name, start); ok != (n <= maxName) {
			t.Errorf("%d bytes: got %v", n, ok)
		}
	}
}

// TestPutKeepsACopy checks that what the caller does with his addresses afterwards changes nothing.
func TestPutKeepsACopy(t *testing.T) {
	var c Cache
	own := addrs(1, 1)
	c.Put("a.test", own, start)
	own[0] = netip.IPv6Loopback()
	if got, _, _ := c.Get("a.test", start); !slices.Equal(got, addrs(1, 1)) {
		t.Errorf("got %v, want %v", got, addrs(1, 1))
	}
}

func TestEviction(t *testing.T) {
	var c Cache
	for i := range Entries {
		c.Put(strconv.Itoa(i), addrs(1, 1), start)
	}
	c.Put("0", addrs(2, 1), start) // is the youngest now
	c.Put("new", addrs(3, 1), start)
	for name, want := range map[string]bool{"0": true, "1": false, "2": true, "new": true} {
		if _, _, ok := c.Get(name, start); ok != want {
			t.Errorf("%s: got %v, want %v", name, ok, want)
		}
	}
	if len(c.names) != Entries || c.order.Len() != Entries {
		t.Errorf("got %d names in the map and %d in the list, want %d", len(c.names), c.order.Len(), Entries)
	}
}

// TestOldOnesGo checks that an answer too old to be used is not kept once it was asked for.
func TestOldOnesGo(t *testing.T) {
	var c Cache
	c.Put("a.test", addrs(1, 1), start)
	c.Get("a.test", start.Add(time.Hour))
	if len(c.names) != 0 || c.order.Len() != 0 {
		t.Errorf("got %d names in the map and %d in the list, want none", len(c.names), c.order.Len())
	}
}

// TestGetDoesNotAllocate checks what a hit costs.
func TestGetDoesNotAllocate(t *testing.T) {
	var c Cache
	c.Put("a.test", addrs(1, 4), start)
	if got := testing.AllocsPerRun(100, func() { c.Get("a.test", start) }); got != 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}

// TestConcurrentUse has no more to check than the race detector does, and that each name keeps its own addresses.
func TestConcurrentUse(t *testing.T) {
	var c Cache
	var users sync.WaitGroup
	for i := range byte(4) {
		users.Go(func() {
			name := strconv.Itoa(int(i))
			for range 1000 {
				c.Put(name, addrs(i, 1), start)
				if got, _, ok := c.Get(name, start); !ok || got[0] != addrs(i, 1)[0] {
					t.Errorf("%s: got %v, %v", name, got, ok)
				}
				c.Get("0", start)
			}
		})
	}
	users.Wait()
}

// model is the cache as simply as it can be said: the last answer for every name that was ever put in.
type model map[string]modelEntry

// modelEntry is an answer, with how many were put in before it.
type modelEntry struct {
	addrs  []netip.Addr
	at     time.Time
	serial int
}

// FuzzCache runs a sequence of steps, each of four bytes, against the model. What the cache returns is what the model
// returns, or, for all but the youngest 1024 names, nothing; and it never holds more than that.
func FuzzCache(f *testing.F) {
	f.Add([]byte{0, 1, 1, 0, 1, 1, 0, 30, 0, 1, 0, 0, 1, 1, 0, 90, 1, 1, 0, 0})
	var many []byte
	for i := range uint16(Entries + 10) {
		many = append(many, 0, byte(i), byte(i>>8), 0)
	}
	f.Add(append(many, 1, 0, 0, 0, 1, 20, 0, 0))
	f.Fuzz(func(t *testing.T, steps []byte) {
		var c Cache
		m := make(model)
		now := start
		for serial := 0; len(steps) >= 4; serial, steps = serial+1, steps[4:] {
			name := strconv.Itoa(int(binary.LittleEndian.Uint16(steps[1:])) % (2 * Entries))
			now = now.Add(time.Duration(steps[3]) * time.Second)
			if steps[0]%2 == 0 {
				c.Put(name, addrs(steps[0], 1), now)
				m[name] = modelEntry{addrs(steps[0], 1), now, serial}
			}
			m.compare(t, &c, name, now)
		}
	})
}

// compare checks the answer for a name.
func (m model) compare(t *testing.T, c *Cache, name string, now time.Time) {
	t.Helper()
	got, fresh, ok := c.Get(name, now)
	want, known := m[name]
	age := now.Sub(want.at)
	if ok && (!known || age > Stale || fresh != (age < TTL) || !slices.Equal(got, want.addrs)) {
		t.Fatalf("%s: got %v, %v after %v, want %v", name, got, fresh, age, want.addrs)
	}
	if !ok && known && age <= Stale && m.younger(want) < Entries {
		t.Fatalf("%s: got nothing after %v, want %v", name, age, want.addrs)
	}
	if len(c.names) != c.order.Len() || len(c.names) > Entries {
		t.Fatalf("got %d names in the map and %d in the list", len(c.names), c.order.Len())
	}
}

// younger counts the names that were put in after an answer.
func (m model) younger(than modelEntry) (n int) {
	for _, e := range m {
		if e.serial > than.serial {
			n++
		}
	}
	return n
}
