package adminapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/modules/cluster"
)

// The paths about clusters.
const (
	pathClusters  = "/sluice/clusters"
	pathCluster   = "/sluice/clusters/"
	pathReady     = "/sluice/ready"
	pathEndpoints = "/endpoints/"
)

// clusters lists the clusters of the config that has started.
func (*API) clusters(w http.ResponseWriter, r *http.Request) error {
	if err := plain(w, r, http.MethodGet); err != nil {
		return err
	}
	return answer(w, map[string]any{"clusters": cluster.Statuses()})
}

// cluster shows one cluster or its endpoints, or changes an endpoint of it.
func (a *API) cluster(w http.ResponseWriter, r *http.Request) error {
	path := strings.TrimPrefix(r.URL.Path, pathCluster)
	if name, address, _ := strings.Cut(path, pathEndpoints); address != "" {
		return a.endpoint(w, r, name, address)
	}
	name, endpointsOnly := strings.CutSuffix(strings.TrimSuffix(path, "/"), strings.TrimSuffix(pathEndpoints, "/"))
	if err := plain(w, r, http.MethodGet); err != nil {
		return err
	}
	status, ok := cluster.StatusOf(name)
	if !ok {
		return failure(http.StatusNotFound, fmt.Errorf("%w: %q", cluster.ErrNoCluster, name))
	}
	if endpointsOnly {
		return answer(w, map[string]any{"endpoints": status.Endpoints})
	}
	return answer(w, status)
}

// endpoint orders something for an endpoint, or takes it back, and shows the endpoint.
func (*API) endpoint(w http.ResponseWriter, r *http.Request, name, address string) (err error) {
	if err := plain(w, r, http.MethodGet, http.MethodPatch, http.MethodDelete); err != nil {
		return err
	}
	switch r.Method {
	case http.MethodPatch:
		var change cluster.Change
		if change, err = readChange(r.Body); err == nil {
			err = cluster.Override(name, address, change)
		}
	case http.MethodDelete:
		err = cluster.Restore(name, address)
	}
	if err != nil {
		return failure(statusOf(err), fmt.Errorf("cluster %q, endpoint %q: %w", name, address, err))
	}
	status, _ := cluster.StatusOf(name)
	for i := range status.Endpoints {
		if status.Endpoints[i].Address == address {
			return answer(w, status.Endpoints[i])
		}
	}
	return failure(http.StatusNotFound, fmt.Errorf("cluster %q has no endpoint %q", name, address))
}

// statusOf returns the status for an error of an order.
func statusOf(err error) int {
	for _, missing := range []error{cluster.ErrNoCluster, cluster.ErrNoEndpoint, cluster.ErrNoOverride} {
		if errors.Is(err, missing) {
			return http.StatusNotFound
		}
	}
	return http.StatusBadRequest
}

// readiness is the answer to whether the process can serve.
type readiness struct {
	// Status is `ok`; `degraded` if a cluster has no endpoint that is available, `draining` if the process is to exit.
	Status   string             `json:"status"`
	Clusters []clusterReadiness `json:"clusters"`
}

// clusterReadiness is one cluster.
type clusterReadiness struct {
	Name    string `json:"name"`
	Healthy int    `json:"healthy"`
	Total   int    `json:"total"`
}

// ready says whether each cluster, or each of those asked for, has an endpoint that is available, and that the process
// isn't about to exit.
func (*API) ready(w http.ResponseWriter, r *http.Request) error {
	if err := allow(w, r, http.MethodGet, http.MethodHead); err != nil {
		return err
	}
	list, err := asked(r.URL.RawQuery)
	if err != nil {
		return err
	}
	is := readiness{Status: "ok", Clusters: []clusterReadiness{}}
	for _, c := range list {
		is.Clusters = append(is.Clusters, clusterReadiness{c.Name, c.Healthy, c.Total})
		if c.Healthy == 0 {
			is.Status = "degraded"
		}
	}
	if caddy.Exiting() {
		is.Status = "draining"
	}
	w.Header().Set("Content-Type", "application/json")
	if is.Status != "ok" {
		w.Header().Set("Retry-After", fmt.Sprint(int(readyAgain.Seconds())))
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	return json.NewEncoder(w).Encode(is)
}

// asked returns the clusters that a query asks for: all, or those that it names in `cluster`.
func asked(query string) ([]cluster.Status, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, failure(http.StatusBadRequest, err)
	}
	for name := range values {
		if name != "cluster" {
			return nil, failure(http.StatusBadRequest, fmt.Errorf("parameter %s: is unknown: there is cluster", name))
		}
	}
	all, names := cluster.Statuses(), values["cluster"]
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c cluster.Status) bool { return c.Name == name }) {
			return nil, failure(http.StatusNotFound, fmt.Errorf("%w: %q", cluster.ErrNoCluster, name))
		}
	}
	return slices.DeleteFunc(all, func(c cluster.Status) bool { return !slices.Contains(names, c.Name) }), nil
}

// readyAgain is when it makes sense to ask again: checks are some seconds apart.
const readyAgain = 5 * time.Second

// plain refuses other methods, and parameters.
func plain(w http.ResponseWriter, r *http.Request, methods ...string) error {
	if err := allow(w, r, methods...); err != nil {
		return err
	}
	if r.URL.RawQuery != "" {
		return failure(http.StatusBadRequest, fmt.Errorf("%s takes no parameters", r.URL.Path))
	}
	return nil
}
