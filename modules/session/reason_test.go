package session

import (
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/internal/preread"
)

// TestCloseReasonNames checks that each reason has a name of its own, which fits into a metric's label.
func TestCloseReasonNames(t *testing.T) {
	seen := make(map[string]CloseReason)
	for r := range closeReasons {
		name := r.String()
		if (name == "") != (r == Open) {
			t.Errorf("reason %d: got name %q", r, name)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("reasons %d and %d: got one name %q, want two", other, r, name)
		}
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("reason %d: got name %q, want lower-case letters and underscores", r, name)
		}
		seen[name] = r
	}
}

// TestForPreread checks that each of the preread's reasons is a close reason of its own.
func TestForPreread(t *testing.T) {
	seen := make(map[CloseReason]bool)
	for r := range preread.Reasons() {
		got := ForPreread(r)
		if want := "preread_" + r.String(); got.String() != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got < prereadFirst || got >= closeReasons || seen[got] {
			t.Errorf("%v: got %d, which is not in the range or taken", r, got)
		}
		seen[got] = true
	}
	if got, want := len(seen), int(closeReasons-prereadFirst); got != want {
		t.Errorf("got %d reasons, want %d", got, want)
	}
}
