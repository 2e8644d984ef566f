package clusterproxy

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-sluice/sluice/internal/prom"
)

// unknownClusters counts requests that named a cluster which isn't there. Clients have a part in the name, so it is no
// label.
var unknownClusters = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "caddy_sluice_cluster_proxy_unknown_clusters_total",
	Help: "Requests that named a cluster by placeholders which doesn't exist, or isn't for requests.",
})

// register adds the metrics to the registry of a config.
func register(reg prometheus.Registerer) error { return prom.Register(reg, unknownClusters) }
