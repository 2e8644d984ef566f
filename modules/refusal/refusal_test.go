package refusal

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestAnswer: error routes get an error, and without them the answer is written.
func TestAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		server *caddyhttp.Server
		routes bool
	}{
		"none":  {new(caddyhttp.Server), false},
		"empty": {&caddyhttp.Server{Errors: new(caddyhttp.HTTPErrorConfig)}, false},
		"some":  {&caddyhttp.Server{Errors: &caddyhttp.HTTPErrorConfig{Routes: caddyhttp.RouteList{{}}}}, true},
	} {
		w := httptest.NewRecorder()
		r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, "/", nil), caddy.NewReplacer(), w, tc.server)
		why := errors.New("no room")
		err := Answer(w, r, http.StatusServiceUnavailable, why)
		written := w.Code == http.StatusServiceUnavailable
		if tc.routes != errors.Is(err, why) || tc.routes == written || (err != nil) != tc.routes {
			t.Errorf("%s: got %v, status written %v", name, err, written)
		}
	}
}
