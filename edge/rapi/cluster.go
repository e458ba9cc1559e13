package rapi

import (
	"context"
	"net/http"
	"time"
)

// apiVersion is the version of Ganeti's RAPI.
const apiVersion = 2

func (s *Server) version(*call) (any, error) { return apiVersion, nil }

// features are the features of Ganeti's RAPI that its client checks.
func (s *Server) features(*call) (any, error) {
	return []string{"node-migrate-reqv1", "instance-create-reqv1", "node-evac-res1", "instance-reinstall-reqv1"}, nil
}

// info returns the cluster, with two keys also by their former names.
func (s *Server) info(c *call) (any, error) {
	cluster := map[string]raw{}
	if err := s.luxiInto(c, &cluster, "QueryClusterInfo"); err != nil {
		return nil, err
	}
	for alias, name := range map[string]string{"vg_name": "volume_group_name", "drbd_helper": "drbd_usermode_helper"} {
		if value, known := cluster[name]; known {
			cluster[alias] = value
		}
	}
	return cluster, nil
}

func (s *Server) locks(c *call) (any, error) { return s.luxi(c, Large, "LockstepLocks") }
func (s *Server) status(c *call) (any, error) {
	return withTimes(s.luxi(c, Short, "LockstepStatus"))
}
func (s *Server) settings(c *call) (any, error) { return s.luxi(c, Short, "LockstepGetSettings") }

// healthz answers as long as the process runs.
func (s *Server) healthz(*call) (any, error) { return map[string]bool{"up": true}, nil }

// readyTimeout is how long the queue may take to answer before the daemon counts as not ready.
const readyTimeout = 5 * time.Second

// readyz asks the queue a question that it answers from memory. If it does not within readyTimeout, the answer is code 503.
func (s *Server) readyz(c *call) (any, error) {
	ctx, cancel := context.WithTimeout(c.Context(), readyTimeout)
	defer cancel()
	if _, err := s.config.Luxi.Call(ctx, Short, "QueryJobs", []int64{}, []string{"id"}); err != nil {
		return nil, newFailure(http.StatusServiceUnavailable, "The queue does not answer")
	}
	return map[string]bool{"ready": true}, nil
}

// withStop returns a context for an answer that takes long. It ends with the request, when the server stops, and within a heartbeat when
// the user may no longer make the request.
func (s *Server) withStop(c *call) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(c.Context())
	go func() {
		defer cancel()
		beat := time.NewTicker(s.config.Heartbeat)
		defer beat.Stop()
		for s.gate.isStillAllowed(c) {
			select {
			case <-beat.C:
			case <-s.stopping:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

func (s *Server) openAPI(*call) (any, error) { return raw(s.openapi), nil }
