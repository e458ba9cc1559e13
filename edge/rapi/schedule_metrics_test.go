package rapi_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The metrics say when each schedule has last succeeded, what it has missed, and whether it works.
func TestScheduleMetrics(t *testing.T) {
	b := newTestServer(t)
	require.NotContains(t, b.do("GET", "/metrics", "", "").body, "lockstep_schedule")
	b.luxi.answers["LockstepSchedules"] = func([]any) (string, error) {
		return `{"schedules":[{"name":"nightly","state":"active","missed":2,"last_success_ts":[1767323055,500000]},
			{"name":"new","state":"paused","missed":0,"last_success_ts":null}]}`, nil
	}
	text := b.do("GET", "/metrics", "", "").body
	for _, line := range []string{`lockstep_schedule_last_success_timestamp_seconds{schedule="nightly"} 1.7673230555e+09`,
		`lockstep_schedule_missed_total{schedule="nightly"} 2`, `lockstep_schedule_missed_total{schedule="new"} 0`,
		`lockstep_schedule_active{schedule="nightly"} 1`, `lockstep_schedule_active{schedule="new"} 0`} {
		require.Contains(t, text, line)
	}
	require.NotContains(t, text, `timestamp_seconds{schedule="new"}`)
}
