package reserved

import (
	"maps"
	"net/http"
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	names, err := Parse([]string{"X-Sluice-*", "x_user"})
	if err != nil {
		t.Fatal(err)
	}
	header := make(http.Header)
	for _, name := range []string{"X-Sluice-", "X-Sluice-A", "x_sluice.b", "X-SLUICE-C", "X-User", "x.user"} {
		header[name] = []string{"1"}
		if !names.Has(name) {
			t.Errorf("%s: got free, want reserved", name)
		}
	}
	if !names.In(header) {
		t.Error("got none in a header that has some")
	}
	free := []string{"", "X-", "X-Sluice", "X-Sluices-A", "X-User-", "X-Users", "Y-User"}
	for _, name := range free {
		header[name] = []string{"1"}
		if names.Has(name) {
			t.Errorf("%s: got reserved, want free", name)
		}
	}
	names.RemoveFrom(header)
	if got, want := slices.Sorted(maps.Keys(header)), slices.Sorted(slices.Values(free)); !slices.Equal(got, want) {
		t.Errorf("got %q left, want %q", got, want)
	}
	if names.In(header) || Names(nil).In(header) {
		t.Error("got some in a header that has none")
	}
}

func TestRefusedNames(t *testing.T) {
	for _, name := range []string{"", "*", "a*b", "a*b*", "a b", "a:", "ä", "a**"} {
		if _, err := Parse([]string{"X-A", name}); err == nil {
			t.Errorf("%q: got no error", name)
		}
	}
}

func TestSame(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"X-User", "x_user", true},
		{"X.User", "X-USER", true},
		{"X-User", "X-Users", false},
		{"X-User", "XUser", false},
		{"", "", true},
		{"X-User", "X-Usex", false},
	} {
		if got := Same(tc.a, tc.b); got != tc.want {
			t.Errorf("%q and %q: got %v, want %v", tc.a, tc.b, got, tc.want)
		}
	}
}
