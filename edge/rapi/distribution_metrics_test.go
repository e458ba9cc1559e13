package rapi_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// In Ganeti mode the metrics say what each node has. An error is no label.
func TestDistributionMetrics(t *testing.T) {
	b := newTestServer(t)
	require.NotContains(t, b.do("GET", "/metrics", "", "").body, "lockstep_node_config")
	b.luxi.answers["LockstepDistribution"] = func([]any) (string, error) {
		return `{"serial_no":44,"nodes":[{"uuid":"b","name":"n2","address":"10.0.0.2","role":"candidate",
			"config":{"serial_no":41,"behind":3,"failures":2,"error":"refused","retry_ts":[1767323055,500000]},"ssconf":null,
			"queue":{"behind":7,"since_ts":[1767323055,0],"failures":2,"error":"refused","median_s":0.25,"worst_s":3}}]}`, nil
	}
	text := b.do("GET", "/metrics", "", "").body
	for _, line := range []string{`lockstep_config_serial 44`, `lockstep_node_config_serial{file="config",node="n2"} 41`,
		`lockstep_node_config_behind{file="config",node="n2"} 3`, `lockstep_node_config_failures{file="config",node="n2"} 2`,
		`lockstep_node_config_retry_timestamp_seconds{file="config",node="n2"} 1.7673230555e+09`,
		`lockstep_node_queue_behind{node="n2"} 7`, `lockstep_node_queue_copy_median_seconds{node="n2"} 0.25`,
		`lockstep_node_queue_copy_worst_seconds{node="n2"} 3`, `lockstep_node_queue_failures{node="n2"} 2`, `lockstep_node_queue_lag_seconds{node="n2"}`} {
		require.Contains(t, text, line)
	}
	require.NotContains(t, text, "refused")
	require.NotContains(t, text, `file="ssconf"`)
}

// The metrics count the tries that have ended.
func TestEndedTriesAreCounted(t *testing.T) {
	b := newTestServer(t)
	require.Contains(t, b.do("GET", "/metrics", "", "").body, "lockstep_tries_ended_total 0\n")
	b.feed.TriesEnded(1)
	b.feed.TriesEnded(2)
	require.Contains(t, b.do("GET", "/metrics", "", "").body, "lockstep_tries_ended_total 3\n")
}
