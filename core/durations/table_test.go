package durations_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/durations"
	"lockstep/core/job"
)

func TestKinds(t *testing.T) {
	const command = `{"OP_ID": "OP_RUN_COMMAND", "argv": `
	long := strings.Repeat("ä", 80)
	for _, test := range []struct{ input, name, own, program string }{
		{`{"OP_ID": "OP_INSTANCE_CREATE", "kind": "x"}`, "n", "OP_INSTANCE_CREATE", "OP_INSTANCE_CREATE"},
		{command + `["/usr/bin/rsync", "-a", "--del", "/srv/", "b:"]}`, "", "OP_RUN_COMMAND rsync word:/srv/", "OP_RUN_COMMAND rsync"},
		{command + `["rsync", "/srv/"], "kind": "backup"}`, "nightly", "OP_RUN_COMMAND rsync backup", "OP_RUN_COMMAND rsync"},
		{command + `["rsync", "/srv/"]}`, "backup-2026-11-27", "OP_RUN_COMMAND rsync name:backup---", "OP_RUN_COMMAND rsync"},
		{command + `["sleep", "600"]}`, "2026", "OP_RUN_COMMAND sleep word:600", "OP_RUN_COMMAND sleep"},
		{command + `["sh", "-c", "  pg_dump -Fc x"]}`, "", "OP_RUN_COMMAND sh word:pg_dump", "OP_RUN_COMMAND sh"},
		{command + `["/bin/bash", "-o", "pipefail", "-euc", "tar c /", "arg"]}`, "", "OP_RUN_COMMAND bash word:tar", "OP_RUN_COMMAND bash"},
		{command + `["bash", "-e", "script.sh", "-c"]}`, "", "OP_RUN_COMMAND bash word:script.sh", "OP_RUN_COMMAND bash"},
		{command + `["python3", "-c", "import x"]}`, "", "OP_RUN_COMMAND python3 word:import x", "OP_RUN_COMMAND python3"},
		{command + `["true"]}`, "", "OP_RUN_COMMAND true", "OP_RUN_COMMAND true"},
		{command + `["ls", "-l", ""]}`, "", "OP_RUN_COMMAND ls", "OP_RUN_COMMAND ls"},
		{command + `["sh", "-c"]}`, "", "OP_RUN_COMMAND sh", "OP_RUN_COMMAND sh"},
		{command + `1, "kind": null}`, "n", "OP_RUN_COMMAND", "OP_RUN_COMMAND"},
		{command + `["` + long + `"]}`, "n", "OP_RUN_COMMAND " + strings.Repeat("ä", 42), "OP_RUN_COMMAND " + strings.Repeat("ä", 42)},
		{`[]`, "n", "", ""},
	} {
		require.Equal(t, durations.Kind{Own: test.own, Program: test.program}, durations.KindOf(json.RawMessage(test.input), test.name), test.input)
	}
}

// A kind counts as its program until three of its opcodes have ended, and its program learns from all of its kinds.
func TestAKindCountsAsItsProgramUntilItHasThreeEnds(t *testing.T) {
	short, long := durations.Kind{Own: "sh short", Program: "sh"}, durations.Kind{Own: "sh long", Program: "sh"}
	var table durations.Table
	for range 5 {
		table.Record(short, time.Second, true)
	}
	require.Equal(t, time.Second, table.Expect(long).Median)
	require.True(t, table.Expect(long).Known)
	for range 2 {
		table.Record(long, time.Hour, true)
		require.Equal(t, time.Second, table.Expect(long).Median, "the median of the program")
	}
	table.Record(long, time.Hour, false)
	require.Equal(t, time.Hour, table.Expect(long).Median)
	require.Equal(t, time.Second, table.Expect(short).Median)
	require.Equal(t, time.Second, table.Expect(durations.Kind{Own: "sh other", Program: "sh"}).Median)
}

// A file of the version that knew only programs and labels means the same.
func TestAFileWithoutOwnKindsIsGood(t *testing.T) {
	table, err := durations.Decode([]byte(`{"all": [1000], "kinds": [{"kind": "OP_RUN_COMMAND rsync", "succeeded_ms": [60000]},
 {"kind": "OP_RUN_COMMAND rsync backup", "succeeded_ms": [5000, 5000, 5000]}, {"kind": "OP_RUN_COMMAND tar daily", "succeeded_ms": [7000]}]}`))
	require.NoError(t, err)
	median := func(name, input string) time.Duration {
		expected := table.Expect(durations.KindOf(json.RawMessage(`{"OP_ID": "OP_RUN_COMMAND", `+input+`}`), name))
		require.True(t, expected.Known)
		return expected.Median
	}
	require.Equal(t, time.Minute, median("nightly", `"argv": ["rsync", "x"]`))
	require.Equal(t, 5*time.Second, median("", `"argv": ["rsync", "x"], "kind": "backup"`))
	require.Equal(t, 7*time.Second, median("", `"argv": ["tar"], "kind": "daily"`), "nothing else is known of its program")
}

// The newest 32 durations count, and one outlier does not change the median.
func TestQuantilesAreThoseOfTheNewestDurations(t *testing.T) {
	var table durations.Table
	require.Equal(t, durations.Range{Median: time.Minute, High: time.Minute}, table.Expect(only("a")))
	for i := range 32 {
		table.Record(only("a"), time.Duration(i+1)*time.Hour, true)
	}
	require.Equal(t, durations.Range{Median: 16 * time.Hour, Low: 4 * time.Hour, High: 29 * time.Hour, Known: true}, table.Expect(only("a")))
	for range 31 {
		table.Record(only("a"), time.Second, true)
	}
	table.Record(only("a"), 1000*time.Hour, true)
	require.Equal(t, durations.Range{Median: time.Second, Low: time.Second, High: time.Second, Known: true}, table.Expect(only("a")))
	require.Equal(t, time.Second, table.Expect(only("unknown")).Median, "the median of all")
	require.False(t, table.Expect(only("unknown")).Known)
}

func TestFailuresCountOnlyWithoutSuccesses(t *testing.T) {
	var table durations.Table
	table.Record(only("a"), time.Second, false)
	require.Equal(t, time.Second, table.Expect(only("a")).Median)
	table.Record(only("a"), time.Hour, true)
	table.Record(only("a"), time.Second, false)
	require.Equal(t, time.Hour, table.Expect(only("a")).Median)
}

func TestOnlyExecutionCounts(t *testing.T) {
	at := func(seconds int64) job.Timestamp { return job.Timestamp{Sec: seconds} }
	op := json.RawMessage(`{"OP_ID": "OP_X"}`)
	j := &job.Job{ID: 1, Ops: []job.Op{
		{Input: op, Status: job.Success, Start: at(10), Exec: at(100), End: at(107)},
		{Input: op, Status: job.Canceled, End: at(9000)}}}
	var table durations.Table
	table.RecordJob(j, "nightly")
	require.Equal(t, durations.Range{Median: 7 * time.Second, Low: 7 * time.Second, High: 7 * time.Second, Known: true}, table.Expect(only("OP_X")))
}

// There are 1,000 kinds at most, and those that have had a duration last are there: the kind unused for longest makes room. The file is
// the table.
func TestTheTableIsBoundedAndItsFileIsTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table durations.Table
		var used []string // the one unused for longest first
		use := func(name string) {
			used = slices.DeleteFunc(used, func(other string) bool { return other == name })
			used = append(used, name)
			used = used[max(len(used)-1_000, 0):]
		}
		programs := rapid.IntRange(1, 1_300).Draw(t, "programs")
		for i := range rapid.IntRange(0, 1_500).Draw(t, "records") {
			k := durations.Kind{Program: fmt.Sprintf("k%d", i*7%programs)}
			k.Own = k.Program
			if i%5 > 1 {
				k.Own += fmt.Sprintf(" %d", i%9)
				use(k.Own)
			}
			use(k.Program)
			table.Record(k, time.Duration(i)*time.Second, i%3 > 0)
		}
		require.Equal(t, len(used), table.Len())
		for _, name := range used {
			require.True(t, table.Expect(only(name)).Known, name)
		}
		again, err := durations.Decode(table.Encode())
		require.NoError(t, err)
		require.Equal(t, string(table.Encode()), string(again.Encode()))
		for _, kind := range []string{"k0", "k7", "k500", "none"} {
			require.Equal(t, table.Expect(only(kind)), again.Expect(only(kind)))
		}
	})
}

// only is a kind that is its own program.
func only(name string) durations.Kind { return durations.Kind{Own: name, Program: name} }

func TestFilesThatAreNoTable(t *testing.T) {
	for _, content := range []string{`{`, `{"all": [-1]}`, `{"kinds": [{"kind": "a"}]}`, `{"kinds": [{"kind": "a", "succeeded_ms": [1]}, {"kind": "a", "failed_ms": [1]}]}`,
		`{"kinds": [{"kind": "a", "succeeded_ms": [40000000000000]}]}`, `{"all": [` + strings.Repeat("1,", 32) + `1]}`} {
		_, err := durations.Decode([]byte(content))
		require.Error(t, err, content)
	}
}
