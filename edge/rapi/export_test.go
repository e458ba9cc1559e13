package rapi

import (
	"slices"
	"time"
)

// SetAfter replaces the timers of followers of output.
func (s *Server) SetAfter(after func(time.Duration) <-chan time.Time) { s.after = after }

// Resources are the methods, paths and names of all operations.
func Resources() []string { return operationsOf(resources) }

// ClusterResources are those of a Ganeti cluster.
func ClusterResources() []string { return operationsOf(clusterResources()) }

func operationsOf(resources []resource) []string {
	var all []string
	for _, r := range resources {
		for method, o := range r.operations {
			all = append(all, method+" "+r.path+" "+o.name)
		}
	}
	slices.Sort(all)
	return all
}
