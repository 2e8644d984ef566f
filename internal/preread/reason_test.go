package preread

import (
	"slices"
	"testing"
)

func TestReasonNames(t *testing.T) {
	want := []string{
		"not_tls", "malformed_record", "malformed_handshake", "fragmented", "too_large", "no_sni", "ech_outer_absent",
		"sni_unmatched", "alpn_unmatched", "proxy_header_invalid", "front_closed",
	}
	var got []string
	for r := range Reasons() {
		got = append(got, r.String())
		if back, ok := ParseReason(r.String()); !ok || back != r {
			t.Errorf("parsing %q: got %v, %v, want %v, true", r, back, ok, r)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if distinct := slices.Compact(slices.Sorted(slices.Values(got))); len(distinct) != len(got) {
		t.Errorf("got %d distinct names of %d", len(distinct), len(got))
	}
}

func TestParseReasonRefuses(t *testing.T) {
	for _, name := range []string{"", "none", "invalid", "NotTLS", "not_tls ", "fronted"} {
		if got, ok := ParseReason(name); ok || got != None {
			t.Errorf("%q: got %v, %v, want none, false", name, got, ok)
		}
	}
	if got := Reason(200).String(); got != "invalid" {
		t.Errorf("got %q, want invalid", got)
	}
	if got := None.String(); got != "none" {
		t.Errorf("got %q, want none", got)
	}
}

func TestReasonsStopsEarly(t *testing.T) {
	for r := range Reasons() {
		if r != NotTLS {
			t.Fatalf("got %v, want %v", r, NotTLS)
		}
		break
	}
}
