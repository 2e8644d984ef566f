package netguard

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// addrs parses a list of addresses.
func addrs(t *testing.T, list ...string) []netip.Addr {
	t.Helper()
	parsed := make([]netip.Addr, 0, len(list))
	for _, s := range list {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, addr)
	}
	return parsed
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name string
		list []string
		// refused is the address that the error names; empty if there is none.
		refused string
		class   Class
	}{
		{"no_address", nil, "", Public},
		{"public", []string{"8.8.8.8", "2606:4700::1111"}, "", Public},
		{"private", []string{"10.0.0.1"}, "10.0.0.1", Private},
		{"T80_public_first", []string{"8.8.8.8", "10.0.0.1"}, "10.0.0.1", Private},
		{"T80_private_first", []string{"10.0.0.1", "8.8.8.8"}, "10.0.0.1", Private},
		{"first_of_several", []string{"8.8.8.8", "::1", "10.0.0.1"}, "::1", Loopback},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := Check("db.example.com", addrs(t, tc.list...))
			refused, ok := errors.AsType[*Refused](err)
			if ok != (tc.refused != "") || ok != (err != nil) {
				t.Fatalf("got %v, want refused %q", err, tc.refused)
			}
			if ok && (refused.Addr.String() != tc.refused || refused.Class != tc.class || refused.Name != "db.example.com") {
				t.Errorf("got %+v, want %s, %v", refused, tc.refused, tc.class)
			}
		})
	}
}

func TestRefusedMessage(t *testing.T) {
	for _, tc := range []struct{ name, addr, want string }{
		{"db.example.com", "10.0.0.1", `refusing "db.example.com" at 10.0.0.1: the address is private (allow_private would permit it)`},
		{"127.0.0.1", "127.0.0.1", `refusing 127.0.0.1: the address is loopback (allow_private would permit it)`},
		{"::ffff:127.0.0.1", "127.0.0.1", `refusing "::ffff:127.0.0.1" at 127.0.0.1: the address is loopback (allow_private would permit it)`},
		{"a\nb", "fe80::1%eth0", `refusing "a\nb" at fe80::1%eth0: the address is zoned (allow_private would permit it)`},
	} {
		if got := Check(tc.name, addrs(t, tc.addr)).Error(); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
}

func TestModes(t *testing.T) {
	for _, tc := range []struct {
		name             string
		mode             Mode
		literal, looksUp bool
	}{
		{"dns", DNS, false, true},
		{"strict", Strict, true, true},
		{"off", Off, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if mode, ok := ParseMode(tc.name); mode != tc.mode || !ok || mode.String() != tc.name {
				t.Errorf("got %v, %v, want %v", mode, ok, tc.mode)
			}
			text, err := json.Marshal(tc.mode)
			if string(text) != `"`+tc.name+`"` || err != nil {
				t.Errorf("got %s, %v", text, err)
			}
			var mode Mode
			if err := json.Unmarshal(text, &mode); err != nil || mode != tc.mode {
				t.Errorf("got %v, %v, want %v", mode, err, tc.mode)
			}
			if tc.mode.Checks(true) != tc.literal || tc.mode.Checks(false) != tc.looksUp {
				t.Errorf("got checks %v of a literal and %v of a name", tc.mode.Checks(true), tc.mode.Checks(false))
			}
		})
	}
}

func TestUnknownModes(t *testing.T) {
	for _, name := range []string{"", "DNS", "on", "unknown"} {
		if mode, ok := ParseMode(name); ok {
			t.Errorf("%q: got %v", name, mode)
		}
	}
	mode := Strict
	err := mode.UnmarshalText([]byte("on"))
	if err == nil || !strings.Contains(err.Error(), `"on"`) || !strings.Contains(err.Error(), "dns, strict, off") {
		t.Errorf("got %v, want an error with the value and the choice", err)
	}
	if mode != Strict {
		t.Errorf("got %v, want it unchanged", mode)
	}
	beyond := Mode(len(modeNames))
	if _, err := beyond.MarshalText(); err == nil || beyond.String() != "unknown" || !beyond.Checks(true) || !beyond.Checks(false) {
		t.Errorf("got %v, %v, %v, %v", err, beyond, beyond.Checks(true), beyond.Checks(false))
	}
}
