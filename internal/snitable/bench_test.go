package snitable

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// BenchmarkLookup asks tables of several sizes, half exact names and half wildcards on bases of two and three labels,
// for names spread over the whole table.
func BenchmarkLookup(b *testing.B) {
	offer := offerOf("h2", "http/1.1")
	for _, size := range []int{10, 1000, 100_000} {
		table := benchTable(b, size)
		for _, kind := range []struct{ name, format string }{
			{"exact", "www.site%d.example.com"},
			{"wildcard", "host.tenant%d.example.net"},
			{"miss", "a.b%d.example.org"},
		} {
			names := benchNames(size/2, kind.format)
			b.Run(fmt.Sprintf("%s/%d", kind.name, size), func(b *testing.B) {
				benchLookup(b, table, names, offer)
			})
		}
		deep := [][]byte{[]byte(strings.Repeat("a.", 126) + "a")}
		b.Run(fmt.Sprintf("deep_miss/%d", size), func(b *testing.B) { benchLookup(b, table, deep, offer) })
	}
}

func benchLookup(b *testing.B, table *Table, names [][]byte, offer []byte) {
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		table.Lookup(names[i%len(names)], offer)
	}
}

func benchTable(b *testing.B, size int) *Table {
	b.Helper()
	routes := make([]Route, 0, size)
	for i := range size / 2 {
		routes = append(routes,
			Route{Names: []string{fmt.Sprintf("www.site%d.example.com", i)}},
			Route{Names: []string{fmt.Sprintf("*.tenant%d.example.net", i)}, ALPN: []string{"h2"}})
	}
	routes[1].Names = append(routes[1].Names, "*.example.info")
	return mustNew(b, routes)
}

// benchNames returns names in random order, at most 100,000.
func benchNames(n int, format string) [][]byte {
	names := make([][]byte, n)
	for i, j := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		names[i] = fmt.Appendf(nil, format, j)
	}
	return names
}

// BenchmarkNew builds the large table.
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
