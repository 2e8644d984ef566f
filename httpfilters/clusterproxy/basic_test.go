package clusterproxy

import (
	"net/http"
	"testing"
)

// TestRequests checks what passes through when nothing fails.
func TestRequests(t *testing.T) {
	b := newBackend(t, echo)
	s := newSite(t, web([]string{b.address}, nil), nil)
	for _, tc := range []struct{ method, body string }{
		{http.MethodGet, ""}, {http.MethodPost, "hello"}, {http.MethodDelete, ""}, {http.MethodPut, "x"},
	} {
		r := s.do(t, tc.method, tc.body)
		r.want(t, http.StatusOK)
		if want := tc.method + " " + tc.body; r.body != want {
			t.Errorf("got %q, want %q", r.body, want)
		}
	}
	s.idle(t)
}
