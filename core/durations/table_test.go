package durations_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/durations"
	"lockstep/core/job"
)

func TestKinds(t *testing.T) {
	long := strings.Repeat("ä", 80)
	for input, want := range map[string]string{
		`{"OP_ID": "OP_INSTANCE_CREATE", "kind": "x"}`:                     "OP_INSTANCE_CREATE",
		`{"OP_ID": "OP_RUN_COMMAND", "argv": ["/usr/bin/rsync", "-a"]}`:    "OP_RUN_COMMAND rsync",
		`{"OP_ID": "OP_RUN_COMMAND", "argv": ["rsync"], "kind": "backup"}`: "OP_RUN_COMMAND rsync backup",
		`{"OP_ID": "OP_RUN_COMMAND", "argv": 1, "kind": null}`:             "OP_RUN_COMMAND",
		`{"OP_ID": "OP_RUN_COMMAND", "argv": ["` + long + `"]}`:            "OP_RUN_COMMAND " + strings.Repeat("ä", 42),
		`[]`: "",
	} {
		require.Equal(t, want, durations.KindOf(json.RawMessage(input)))
	}
}

// The newest 32 durations count, and one outlier does not change the median.
func TestQuantilesAreThoseOfTheNewestDurations(t *testing.T) {
	var table durations.Table
	require.Equal(t, durations.Range{Median: time.Minute, High: time.Minute}, table.Expect("a"))
	for i := range 32 {
		table.Record("a", time.Duration(i+1)*time.Hour, true)
	}
	require.Equal(t, durations.Range{Median: 16 * time.Hour, Low: 4 * time.Hour, High: 29 * time.Hour, Known: true}, table.Expect("a"))
	for range 31 {
		table.Record("a", time.Second, true)
	}
	table.Record("a", 1000*time.Hour, true)
	require.Equal(t, durations.Range{Median: time.Second, Low: time.Second, High: time.Second, Known: true}, table.Expect("a"))
	require.Equal(t, time.Second, table.Expect("unknown").Median, "the median of all")
	require.False(t, table.Expect("unknown").Known)
}

func TestFailuresCountOnlyWithoutSuccesses(t *testing.T) {
	var table durations.Table
	table.Record("a", time.Second, false)
	require.Equal(t, time.Second, table.Expect("a").Median)
	table.Record("a", time.Hour, true)
	table.Record("a", time.Second, false)
	require.Equal(t, time.Hour, table.Expect("a").Median)
}

func TestOnlyExecutionCounts(t *testing.T) {
	at := func(seconds int64) job.Timestamp { return job.Timestamp{Sec: seconds} }
	op := json.RawMessage(`{"OP_ID": "OP_X"}`)
	j := &job.Job{ID: 1, Ops: []job.Op{
		{Input: op, Status: job.Success, Start: at(10), Exec: at(100), End: at(107)},
		{Input: op, Status: job.Canceled, End: at(9000)}}}
	var table durations.Table
	table.RecordJob(j)
	require.Equal(t, durations.Range{Median: 7 * time.Second, Low: 7 * time.Second, High: 7 * time.Second, Known: true}, table.Expect("OP_X"))
}

// There are 1,000 kinds at most; the kind with the oldest newest duration makes room. The file is the table.
func TestTheTableIsBoundedAndItsFileIsTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table durations.Table
		for i := range rapid.IntRange(0, 1_200).Draw(t, "records") {
			table.Record(fmt.Sprintf("k%d", i*7%1_100), time.Duration(i)*time.Second, i%3 > 0)
		}
		require.LessOrEqual(t, table.Len(), 1_000)
		again, err := durations.Decode(table.Encode())
		require.NoError(t, err)
		require.Equal(t, string(table.Encode()), string(again.Encode()))
		for _, kind := range []string{"k0", "k7", "k500", "none"} {
			require.Equal(t, table.Expect(kind), again.Expect(kind))
		}
	})
}

func TestFilesThatAreNoTable(t *testing.T) {
	for _, content := range []string{`{`, `{"all": [-1]}`, `{"kinds": [{"kind": "a"}]}`, `{"kinds": [{"kind": "a", "succeeded_ms": [1]}, {"kind": "a", "failed_ms": [1]}]}`,
		`{"kinds": [{"kind": "a", "succeeded_ms": [40000000000000]}]}`, `{"all": [` + strings.Repeat("1,", 32) + `1]}`} {
		_, err := durations.Decode([]byte(content))
		require.Error(t, err, content)
	}
}
