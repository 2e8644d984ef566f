// Package clusterproxy passes HTTP requests to a cluster.
package clusterproxy
