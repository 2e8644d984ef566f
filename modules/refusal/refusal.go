// Package refusal answers HTTP requests that aren't served for a reason that many may have at a time.
package refusal

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// ClientGone is the status that Caddy logs for a request whose client has left.
const ClientGone = 499

// Answer answers a request with a status. With error routes that is their part, and err is what they show. Without them the
// answer is written here: as an error it would become a line at Error for each request, just when there is too much to do,
// or when clients choose what is wrong.
func Answer(w http.ResponseWriter, r *http.Request, status int, err error) error {
	if HasErrorRoutes(r) {
		return caddyhttp.Error(status, err)
	}
	w.Header().Set("Content-Length", "0") // so that it is complete, whatever its handler still does
	w.WriteHeader(status)
	return nil
}

// HasErrorRoutes reports whether the server has routes for the answers to errors.
func HasErrorRoutes(r *http.Request) bool {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return ok && server.Errors != nil && len(server.Errors.Routes) > 0
}
