package snitable

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// BenchmarkLookup asks tables of several sizes, half exact names and half wildcards. The names asked for lie at random
// places of the table: 1,000 of them, as if the rest were asleep, or with "cold" all of them, so that each lookup
// waits for memory that no cache holds.
func BenchmarkLookup(b *testing.B) {
	for _, size := range []int{10, 1000, 100_000} {
		table := benchTable(b, size)
		for _, kind := range []struct{ name, format string }{
			{"exact", "www.site%d.example.com"},
			{"wildcard", "host.tenant%d.example.net"},
			{"miss", "a.b%d.example.org"},
		} {
			names := benchNames(size/2, kind.format)
			b.Run(fmt.Sprintf("%s/%d", kind.name, size), func(b *testing.B) {
				benchLookup(b, table, names[:min(len(names), 1000)])
			})
			if len(names) > 1000 {
				b.Run(fmt.Sprintf("%s_cold/%d", kind.name, size), func(b *testing.B) { benchLookup(b, table, names) })
			}
		}
		deep := [][]byte{[]byte(strings.Repeat("a.", 126) + "a")}
		b.Run(fmt.Sprintf("deep_miss/%d", size), func(b *testing.B) { benchLookup(b, table, deep) })
	}
}

func benchLookup(b *testing.B, table *Table, names [][]byte) {
	offer := offers("h2 http/1.1")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i == len(names) {
			i = 0
		}
		table.Lookup(names[i], offer)
	}
}

// benchTable has size patterns, and one more wildcard that makes each name be searched for by one suffix more.
func benchTable(b *testing.B, size int) *Table {
	b.Helper()
	routes := patternsOf("*.example.info")
	for i := range size / 2 {
		routes = append(routes,
			Route{Names: []string{fmt.Sprintf("www.site%d.example.com", i)}},
			Route{Names: []string{fmt.Sprintf("*.tenant%d.example.net", i)}, ALPN: []string{"h2"}})
	}
	return mustNew(b, routes)
}

// benchNames returns n names in random order.
func benchNames(n int, format string) [][]byte {
	names := make([][]byte, n)
	for i, j := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		names[i] = fmt.Appendf(nil, format, j)
	}
	return names
}

// BenchmarkNew builds a table of 100,000 names.
func BenchmarkNew(b *testing.B) {
	routes := make([]Route, 100_000)
	for i := range routes {
		routes[i].Names = []string{fmt.Sprintf("www.site%d.example.com", i)}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New(routes); err != nil {
			b.Fatal(err)
		}
	}
}
