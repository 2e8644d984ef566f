package pipeline

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// withErrorRoutes returns a server that has routes for the answers to errors.
func withErrorRoutes() *caddyhttp.Server {
	return &caddyhttp.Server{Errors: &caddyhttp.HTTPErrorConfig{Routes: make(caddyhttp.RouteList, 1)}}
}

// answerOf has a handler serve a request in front of another one, and returns the header of what is to be answered, and the
// error.
func answerOf(h *Handler, next caddyhttp.HandlerFunc) (http.Header, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Server", "Caddy")
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("body"))
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, withErrorRoutes())
	err := h.ServeHTTP(w, r, next)
	return w.Header(), err
}

// TestHeadersOfErrors: what a handler puts into the header before it returns an error is for the answer, unless it was a
// response that filters have refused.
func TestHeadersOfErrors(t *testing.T) {
	nothing := onResponse(func(*Exchange) error { return nil })
	fails := func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Www-Authenticate", "Basic")
		return caddyhttp.Error(http.StatusUnauthorized, errors.New("who are you"))
	}
	header, err := answerOf(newHandler(t, entry{name: "a", response: nothing}), fails)
	if statusOf(err) != http.StatusUnauthorized || header.Get("Www-Authenticate") != "Basic" || header.Get("Server") != "Caddy" {
		t.Errorf("got %v, %v", header, err)
	}
	refuses := onResponse(func(*Exchange) error { return Reject(http.StatusBadGateway, errors.New("no")) })
	answers := func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Length", "2")
		_, err := w.Write([]byte("ok"))
		return err
	}
	header, err = answerOf(newHandler(t, entry{name: "a", response: refuses}), answers)
	if statusOf(err) != http.StatusBadGateway || header.Get("Content-Length") != "" || header.Get("Server") != "Caddy" {
		t.Errorf("got %v, %v", header, err)
	}
}

// TestErrorNamesFilter: an error says whose it is, in each hook.
func TestErrorNamesFilter(t *testing.T) {
	boom := errors.New("boom")
	for name, e := range map[string]entry{
		"request":      {request: onRequest(func(*Exchange) error { return boom })},
		"request body": {requestBody: onRequestBody{Wish{Access: ReadOnly, Mode: Buffer}, func(*Exchange, *Chunk) (Action, error) { return Continue, boom }}},
		"response":     {response: onResponse(func(*Exchange) error { return boom })},
	} {
		t.Run(name, func(t *testing.T) {
			e.name = "mine"
			_, err := answerOf(newHandler(t, e), func(w http.ResponseWriter, _ *http.Request) error {
				w.WriteHeader(http.StatusOK)
				return nil
			})
			if !errors.Is(err, boom) || !strings.Contains(err.Error(), "filter mine: boom") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestErrorOfCaddys: error routes see an error of Caddy's own, whatever is around it.
func TestErrorOfCaddys(t *testing.T) {
	around := func(http.ResponseWriter, *http.Request) error {
		return fmt.Errorf("around it: %w", caddyhttp.Error(http.StatusTeapot, errors.New("tea")))
	}
	_, err := answerOf(newHandler(t, headerFilters()...), around)
	if handled, ok := err.(caddyhttp.HandlerError); !ok || handled.StatusCode != http.StatusTeapot {
		t.Errorf("got %T, %v", err, err)
	}
}
