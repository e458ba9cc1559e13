package throughput

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func small(t *testing.T, o TraceOptions) *Trace {
	file, err := os.Open("testdata/small.swf")
	require.NoError(t, err)
	defer file.Close()
	trace, err := ReadTrace(file, o)
	require.NoError(t, err)
	return trace
}

// locked counts the nodes that each job locks.
func locked(t require.TestingT, trace *Trace) []int {
	var counts []int
	for i := range trace.Len() {
		ops := trace.Job(i)
		require.Len(t, ops, 1)
		text := string(ops[0].Input)
		if strings.Contains(text, "[lockset]") {
			counts = append(counts, trace.Nodes)
		} else {
			counts = append(counts, strings.Count(text, "node/n"))
		}
	}
	return counts
}

func TestATraceBecomesWork(t *testing.T) {
	trace := small(t, TraceOptions{Seed: 1})
	require.Equal(t, LineCounts{Jobs: 6, Failed: 1, Cancelled: 1, Chained: 1, NeverRan: 1, Partial: 2, Unknown: 1, Unchained: 1}, trace.Lines)
	require.Equal(t, 4, trace.Nodes)
	require.Equal(t, []int{4, 2, 1, 1, 1, 1}, locked(t, trace), "two processors a node, rounded up")
	require.Equal(t, []int{8, 3, 2, 2, 2, 1}, locked(t, small(t, TraceOptions{Nodes: 8})))
	require.Equal(t, trace.Job(1), small(t, TraceOptions{Seed: 1}).Job(1))
	require.Equal(t, 10*time.Second, trace.Job(0)[0].Duration)
	require.Equal(t, 3, small(t, TraceOptions{Jobs: 3}).Len())
}

func TestATraceIsReplayed(t *testing.T) {
	r := judged(t, small(t, TraceOptions{Seed: 1}), Options{Slots: 4, Settings: settings(t, true)})
	// Job 1 holds all nodes until second 10. Job 4 comes 100 seconds after the end of job
	// 2, which ends at second 15 if it is the first on its nodes.
	require.GreaterOrEqual(t, r.Outcome.Makespan, 120.0)
	require.LessOrEqual(t, r.Outcome.Makespan, 140.0)
}

func TestJobsComeInTheOrderOfTheirTimes(t *testing.T) {
	line := "%d %d 0 1 1 -1 -1 1 -1 -1 1 1 1 1 1 1 %d -1\n"
	trace, err := ReadTrace(strings.NewReader("; MaxProcs: 2\n"+fmt.Sprintf(line, 1, 50, -1)+fmt.Sprintf(line, 2, 10, 1)+fmt.Sprintf(line, 3, 20, -1)), TraceOptions{})
	require.NoError(t, err)
	require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second, 50 * time.Second}, []time.Duration{trace.At(0), trace.At(1), trace.At(2)})
	preceding, _ := trace.After(0)
	require.Equal(t, 2, preceding, "job 1 of the file, though it comes later")
	r := judged(t, trace, Options{Slots: 2, Settings: settings(t, true)})
	require.Equal(t, 32.0, r.Outcome.Makespan, "from 20 to 52")
}

func TestTracesThatCannotBeUsed(t *testing.T) {
	line := "1 0 0 1 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1\n"
	for text, wants := range map[string]string{
		line:                     "neither MaxNodes nor MaxProcs: say how many --nodes",
		"; MaxProcs: 4\n":        "no job in it that has run",
		"; MaxProcs: 4\n1 2 3\n": "line 2: 3 fields, want 18",
	} {
		_, err := ReadTrace(strings.NewReader(text), TraceOptions{})
		require.ErrorContains(t, err, wants)
	}
	_, err := ReadTrace(strings.NewReader(line), TraceOptions{Nodes: NodesMax + 1})
	require.ErrorContains(t, err, "want 1 to 10000")
	trace, err := ReadTrace(strings.NewReader("; MaxProcs: 160000\n"+line), TraceOptions{})
	require.NoError(t, err)
	require.Equal(t, NodesMax, trace.Nodes)
}

// For any trace, a job locks at least one node and at most all, each once, and all jobs
// end.
func TestAnyTraceCanBeReplayed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		fmt.Fprintf(&b, "; MaxProcs: %d\n", rapid.IntRange(1, 100).Draw(t, "procs"))
		number := rapid.IntRange(-1, 30)
		jobs := rapid.IntRange(1, 30).Draw(t, "jobs")
		for range jobs {
			fmt.Fprintf(&b, "%d %d 0 %d %d -1 -1 %d -1 -1 %d 1 1 1 1 1 %d %d\n", number.Draw(t, "number"), number.Draw(t, "submit"), number.Draw(t, "run"),
				number.Draw(t, "allocated"), number.Draw(t, "requested"), rapid.IntRange(-1, 5).Draw(t, "status"), number.Draw(t, "preceding"), number.Draw(t, "think"))
		}
		trace, err := ReadTrace(strings.NewReader(b.String()), TraceOptions{Nodes: rapid.IntRange(1, 20).Draw(t, "nodes")})
		if err != nil {
			require.ErrorContains(t, err, "no job")
			return
		}
		for _, n := range locked(t, trace) {
			require.True(t, n >= 1 && n <= trace.Nodes)
		}
		c := trace.Lines
		require.Equal(t, jobs, c.Jobs+c.NeverRan+c.Partial+c.Unknown)
		judged(t, trace, Options{Slots: rapid.IntRange(1, 20).Draw(t, "slots"), Settings: settings(t, true)})
	})
}
