// Package adminapi shows and ends the connections of the process through Caddy's admin endpoint, and shows its clusters
// and changes their endpoints.
package adminapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/modules/session"
)

func init() {
	caddy.RegisterModule(&API{})
}

// The paths of the API.
const (
	pathSessions = "/sluice/sessions"
	pathSession  = "/sluice/sessions/"
	pathHealthy  = "/sluice/healthy"
)

// API is the part of the admin endpoint below `/sluice/`. Sessions and what is known about clusters belong to the process
// and not to a config, so that one which was refused is never seen here.
type API struct{}

// CaddyModule returns the Caddy module information.
func (*API) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.sluice",
		New: func() caddy.Module { return new(API) },
	}
}

// Routes implements caddy.AdminRouter.
func (a *API) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: pathSessions, Handler: caddy.AdminHandlerFunc(a.sessions)},
		{Pattern: pathSession, Handler: caddy.AdminHandlerFunc(a.session)},
		{Pattern: pathClusters, Handler: caddy.AdminHandlerFunc(a.clusters)},
		{Pattern: pathCluster, Handler: caddy.AdminHandlerFunc(a.cluster)},
		{Pattern: pathHealthy, Handler: caddy.AdminHandlerFunc(a.healthy)},
		{Pattern: pathReady, Handler: caddy.AdminHandlerFunc(a.ready)},
	}
}

// sessions lists sessions.
func (*API) sessions(w http.ResponseWriter, r *http.Request) error {
	if err := allow(w, r, http.MethodGet); err != nil {
		return err
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return failure(http.StatusBadRequest, err)
	}
	q, err := parseQuery(values)
	if err != nil {
		return failure(http.StatusBadRequest, err)
	}
	return answer(w, q.page(session.All()))
}

// session shows one session, or ends it.
func (*API) session(w http.ResponseWriter, r *http.Request) error {
	if err := allow(w, r, http.MethodGet, http.MethodDelete); err != nil {
		return err
	}
	if len(r.URL.RawQuery) > 0 {
		return failure(http.StatusBadRequest, fmt.Errorf("%s takes no parameters", r.URL.Path))
	}
	id, err := parseID(strings.TrimPrefix(r.URL.Path, pathSession))
	if err != nil {
		return failure(http.StatusBadRequest, err)
	}
	sess := session.Find(id)
	if sess == nil {
		return failure(http.StatusNotFound, fmt.Errorf("there is no session %d", id))
	}
	if r.Method == http.MethodDelete {
		sess.Stop(session.Killed)
	}
	return answer(w, sess.Snapshot())
}

// healthy says that the process answers, and whether it is about to exit.
func (*API) healthy(w http.ResponseWriter, r *http.Request) error {
	if err := allow(w, r, http.MethodGet); err != nil {
		return err
	}
	status := "ok"
	if caddy.Exiting() {
		status = "draining"
	}
	return answer(w, map[string]string{"status": status})
}

// allow refuses a request with another method.
func allow(w http.ResponseWriter, r *http.Request, methods ...string) error {
	if slices.Contains(methods, r.Method) {
		return nil
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	return failure(http.StatusMethodNotAllowed, fmt.Errorf("method %s is not allowed", r.Method))
}

// failure is an error that Caddy answers with a status.
func failure(status int, err error) error { return caddy.APIError{HTTPStatus: status, Err: err} }

// answer writes a value as JSON.
func answer(w http.ResponseWriter, value any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(value)
}

// Interface guards
var _ caddy.AdminRouter = (*API)(nil)
