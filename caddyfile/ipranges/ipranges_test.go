package ipranges

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Setenv("SLUICE_TEST_RANGE", "192.0.2.0/24")
	for _, tc := range []struct {
		name string
		list []string
		want []string
	}{
		{"none", nil, nil},
		{"range", []string{"10.0.0.0/8"}, []string{"10.0.0.0/8"}},
		{"address", []string{"10.0.0.1"}, []string{"10.0.0.1/32"}},
		{"ipv6", []string{"2001:db8::/32", "::1"}, []string{"2001:db8::/32", "::1/128"}},
		{"host_bits", []string{"10.1.2.3/8", "2001:db8::1/32"}, []string{"10.0.0.0/8", "2001:db8::/32"}},
		{"everything", []string{"0.0.0.0/0", "::/0"}, []string{"0.0.0.0/0", "::/0"}},
		{"order_and_doubles", []string{"10.0.0.2", "10.0.0.1", "10.0.0.2"}, []string{"10.0.0.2/32", "10.0.0.1/32", "10.0.0.2/32"}},
		{"private_ranges", []string{"private_ranges"}, []string{
			"192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1/128",
		}},
		{"placeholder", []string{"{env.SLUICE_TEST_RANGE}", "10.0.0.1"}, []string{"192.0.2.0/24", "10.0.0.1/32"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Parse(tc.list)
			if err != nil {
				t.Fatal(err)
			}
			var want []netip.Prefix
			for _, prefix := range tc.want {
				want = append(want, netip.MustParsePrefix(prefix))
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// TestParseErrors checks that the error quotes what was written.
func TestParseErrors(t *testing.T) {
	for _, bad := range []string{
		"", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0", "2001:db8::/129", "example.com", "10.0.0.1:443", "private",
		"10.0.0.0/8/8", "{env.SLUICE_TEST_NONESUCH}", "{no.such}",
	} {
		got, err := Parse([]string{"10.0.0.1", bad})
		if err == nil || !strings.HasPrefix(err.Error(), `"`+bad+`": `) || got != nil {
			t.Errorf("%q: got %v, %v, want an error that quotes it", bad, got, err)
		}
	}
}
