package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// table answers from a table.
func table(names map[string][]netip.Addr) Answer {
	return func(name string, _ dnsmessage.Type) []netip.Addr { return names[name] }
}

func TestServe(t *testing.T) {
	four, mapped := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.2")
	many := []netip.Addr{netip.MustParseAddr("192.0.2.3"), netip.MustParseAddr("192.0.2.4"), netip.MustParseAddr("2001:db8::1")}
	resolver := Serve(t, table(map[string][]netip.Addr{
		"four.example.test": {four}, "mapped.example.test": {mapped}, "many.example.test": many, "empty.example.test": {},
	}))
	for name, want := range map[string][]netip.Addr{
		"four.example.test": {four}, "FOUR.example.test.": {four}, "mapped.example.test": {mapped.Unmap()}, "many.example.test": many,
	} {
		got, err := resolver.LookupNetIP(t.Context(), "ip", name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i := range got {
			got[i] = got[i].Unmap()
		}
		slices.SortFunc(got, netip.Addr.Compare)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{"empty.example.test", "none.example.test"} {
		got, err := resolver.LookupNetIP(t.Context(), "ip", name)
		if failed, ok := errors.AsType[*net.DNSError](err); !ok || !failed.IsNotFound {
			t.Errorf("%s: got %v, %v, want a name that is not found", name, got, err)
		}
	}
}

func TestHang(t *testing.T) {
	resolver := Serve(t, func(string, dnsmessage.Type) []netip.Addr {
		<-t.Context().Done()
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if got, err := resolver.LookupNetIP(ctx, "ip", "name.example.test"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v, want %v", got, err, context.DeadlineExceeded)
	}
}
