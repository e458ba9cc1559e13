package main

import (
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkBusyActors measures the longest time that an actor of each kind works at one go, in milliseconds: under a submission of 20,000
// jobs at once, then one of 60 MB, then a rule of which the verdicts of all jobs change, a rule that pauses them again, and lists of all jobs.
// Other programs on the machine prolong it: it is time, not use of a processor.
func BenchmarkBusyActors(b *testing.B) {
	const many = 20_000
	submission := func(n, size int) (jobs [][]op) {
		for range n {
			jobs = append(jobs, []op{{"OP_ID": "OP_TEST_DELAY", "duration": 1, "comment": strings.Repeat("a", size)}})
		}
		return jobs
	}
	for b.Loop() {
		d := newDaemon(b).startRemote()
		c := d.dial()
		before := d.busy()
		report := func(step string) {
			after := d.busy()
			for _, kind := range slices.Sorted(maps.Keys(after)) {
				if took := after[kind]; took > before[kind] && took >= 0.005 {
					b.Logf("%-28s %-14s %6.1f ms", step, kind, took*1000)
				}
			}
			before = after
		}
		var uuid string
		c.call("ReplaceFilter", &uuid, nil, 0, []any{[]any{"jobid", []any{">", "id", "watermark"}}}, "PAUSE", []any{})
		c.call("SubmitManyJobs", nil, submission(many, 10))
		report("20,000 jobs")
		c.call("SubmitManyJobs", nil, submission(6_000, 10_000))
		report("60 MB")
		c.call("ReplaceFilter", nil, uuid, 0, []any{[]any{"jobid", []any{"=", "id", 1}}, []any{"opcode", []any{"=", "OP_ID", "OP_TEST_DELAY"}}}, "PAUSE", []any{})
		report("a rule for one job")
		c.call("ReplaceFilter", nil, uuid, 0, []any{[]any{"jobid", []any{">", "id", 0}}, []any{"opcode", []any{"=~", "comment", "^a*$"}}}, "PAUSE", []any{})
		report("a rule for all jobs")
		c.call("QueryJobs", nil, nil, []string{"id", "status"})
		c.call("LockstepListJobs", nil, map[string]any{})
		report("lists of all jobs")
		_ = c.Close()
	}
}

// busy is the longest time that an actor of each kind has worked at one go, in seconds, since the start.
func (r *remote) busy() map[string]float64 {
	request, err := http.NewRequest(http.MethodGet, r.url+"/metrics", nil)
	require.NoError(r.t, err)
	response, err := r.client.Do(request)
	require.NoError(r.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	found := map[string]float64{}
	for _, m := range regexp.MustCompile(`lockstep_actor_busy_seconds_max\{kind="([^"]+)"\} (\S+)`).FindAllStringSubmatch(string(text), -1) {
		seconds, err := strconv.ParseFloat(m[2], 64)
		require.NoError(r.t, err)
		found[m[1]] = seconds
	}
	require.NotEmpty(r.t, found)
	return found
}
