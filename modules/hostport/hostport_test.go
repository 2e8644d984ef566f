package hostport

import (
	"strings"
	"testing"
)

// TestParse checks what is read, and the form that all ways to write it have in common.
func TestParse(t *testing.T) {
	for _, tc := range []struct {
		text, normal string
		want         Address
	}{
		{"10.0.0.1:80", "10.0.0.1:80", Address{Host: "10.0.0.1", Port: 80}},
		{"tcp/10.0.0.1:80", "10.0.0.1:80", Address{Host: "10.0.0.1", Port: 80}},
		{"[::ffff:10.0.0.1]:80", "10.0.0.1:80", Address{Host: "::ffff:10.0.0.1", Port: 80}},
		{"[2001:DB8:0::1]:443", "[2001:db8::1]:443", Address{Host: "2001:DB8:0::1", Port: 443}},
		{"Web.Example:80", "web.example:80", Address{Host: "Web.Example", Port: 80}},
		{"web.example.:80", "web.example:80", Address{Host: "web.example.", Port: 80}},
		{"bücher.example:80", "xn--bcher-kva.example:80", Address{Host: "bücher.example", Port: 80}},
		{"localhost:65535", "localhost:65535", Address{Host: "localhost", Port: 65535}},
		{"unix//run/web.sock", "unix//run/web.sock", Address{Path: "/run/web.sock"}},
		{"unix//run/Web.sock|0222", "unix//run/Web.sock", Address{Path: "/run/Web.sock"}},
		{"unix/web.sock", "unix/web.sock", Address{Path: "web.sock"}},
	} {
		t.Run(tc.text, func(t *testing.T) {
			got, err := Parse(tc.text)
			if err != nil || got != tc.want {
				t.Fatalf("got %+v, %v, want %+v", got, err, tc.want)
			}
			if got.Normal().String() != tc.normal {
				t.Errorf("got %s, want %s", got.Normal(), tc.normal)
			}
			if again, err := Parse(got.Normal().String()); err != nil || again != got.Normal() {
				t.Errorf("got %+v, %v from what it writes, want %+v", again, err, got.Normal())
			}
		})
	}
}

// TestParseRefuses checks that what is no address of an upstream is refused.
func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", "is required"},
		{"10.0.0.1", "must be an address, host:port or unix/path"},
		{":80", "must be an address"},
		{"10.0.0.1:0", "must be an address, host:port or unix/path"},
		{"10.0.0.1:65536", `port "65536" must be a number from 1 to 65535`},
		{"10.0.0.1:http", `port "http" must be a number from 1 to 65535`},
		{"10.0.0.1:80-81", "must have one port, not a range"},
		{"udp/10.0.0.1:80", "must be host:port or unix/path, not udp"},
		{"unix/", "must be an address"},
		{"unix/|0200", "must be an address, host:port or unix/path"},
		{"*.example.com:80", "not a host name"},
		{".example.com:80", "not a host name"},
		{"a b.example.com:80", "a b.example.com:80"},
		{"10.0.0.0/8:80", "10.0.0.0/8:80"},
		{"http://web.example:80", "http://web.example:80"},
		{"[fe80::1%eth0]:80", "must not have a zone"},
		{"[2001:db8::1%1]:80", "must not have a zone"},
	} {
		if got, err := Parse(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: got %+v, %v, want an error with %q", tc.text, got, err, tc.want)
		}
	}
}
