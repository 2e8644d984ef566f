package sluiceapp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/caddyfile/args"
	"github.com/caddy-sluice/sluice/modules/cluster"
)

// Cluster returns the cluster of a name. It is for modules of the same config, when they are provisioned and later.
func (a *App) Cluster(name string) (*cluster.Cluster, error) {
	for _, c := range a.clusters {
		if c.Name() == name {
			return c, nil
		}
	}
	if len(a.clusters) == 0 {
		return nil, fmt.Errorf("cluster %q is not known: the sluice app has no clusters", name)
	}
	return nil, fmt.Errorf("cluster %q is not known; must be one of %s", name, strings.Join(a.clusterNames(), ", "))
}

// clusterNames returns the names of the clusters, sorted.
func (a *App) clusterNames() []string {
	names := make([]string, 0, len(a.clusters))
	for _, c := range a.clusters {
		names = append(names, c.Name())
	}
	return names
}

// provisionClusters prepares the clusters, by their names, so that of two errors it is always the same that is seen.
func (a *App) provisionClusters(ctx caddy.Context) error {
	for _, name := range slices.Sorted(maps.Keys(a.Clusters)) {
		if err := cluster.CheckName(name); err != nil {
			return fmt.Errorf("clusters: %w", err)
		}
		config := a.Clusters[name]
		if config == nil {
			return fmt.Errorf("clusters.%s: is empty", name)
		}
		c, err := cluster.New(ctx, name, config, a.Guard, a.logger)
		if err != nil {
			return fmt.Errorf("clusters.%s.%w", name, err)
		}
		a.clusters = append(a.clusters, c)
	}
	return nil
}

// cleanupClusters gives back what provisionClusters took.
func (a *App) cleanupClusters() error {
	var errs []error
	for _, c := range a.clusters {
		errs = append(errs, c.Cleanup())
	}
	// The list stays: requests that have begun with the config may still look for a cluster by its name.
	return errors.Join(errs...)
}

// unmarshalCluster reads the cluster at which d stands.
func (a *App) unmarshalCluster(d *caddyfile.Dispenser) error {
	name, err := args.One(d)
	if err != nil {
		return err
	}
	if err := cluster.CheckName(name); err != nil {
		return d.WrapErr(err)
	}
	if a.Clusters[name] != nil {
		return d.Errf("cluster %s is given twice", name)
	}
	config := new(cluster.Config)
	if err := config.UnmarshalBlock(d); err != nil {
		return err
	}
	if a.Clusters == nil {
		a.Clusters = make(map[string]*cluster.Config)
	}
	a.Clusters[name] = config
	return nil
}
