package validaterequest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/modules/reserved"
)

// TestReservedNamesStay checks that what passes a request on is told which names are reserved in it, by all handlers
// (H50).
func TestReservedNamesStay(t *testing.T) {
	one, other := load(t, `{}`), load(t, `{"reserved_headers":["X-User"]}`)
	none := load(t, `{"reserved_headers":[]}`)
	for _, tc := range []struct {
		name     string
		handlers []*Handler
		reserved []string
		free     []string
	}{
		{"one", []*Handler{one}, []string{"X-Sluice-A"}, []string{"X-User"}},
		{"two", []*Handler{one, other}, []string{"X-Sluice-A", "X-User"}, []string{"X-Users"}},
		{"the_same_twice", []*Handler{one, none, one}, []string{"X-Sluice-A"}, []string{"X-User"}},
		{"none", []*Handler{none}, nil, []string{"X-Sluice-A"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := caddyhttp.PrepareRequest(ordinary(), caddy.NewReplacer(), nil, new(caddyhttp.Server))
			for _, h := range tc.handlers {
				if err := h.ServeHTTP(httptest.NewRecorder(), r, caddyhttp.HandlerFunc(answering)); err != nil {
					t.Fatal(err)
				}
			}
			var names reserved.Names
			if told, ok := caddyhttp.GetVar(r.Context(), reserved.Var).(*reserved.Names); ok {
				names = *told
			}
			for _, name := range tc.reserved {
				if !names.Has(name) {
					t.Errorf("%s: got free, want reserved", name)
				}
			}
			for _, name := range tc.free {
				if names.In(http.Header{name: {"1"}}) {
					t.Errorf("%s: got reserved, want free", name)
				}
			}
			if len(names) > 2 {
				t.Errorf("got %d names, want each once", len(names))
			}
		})
	}
}
