package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/paths"
	"lockstep/core/usage"
)

// The client sums up jobs of the queue and of the archive; a job of either is there once.
func TestWhatJobsHaveUsed(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	submit := func(name string, o op) int64 {
		var ids []int64
		c.call("LockstepSubmitJobs", &ids, []any{map[string]any{"ops": []op{o}, "name": name}})
		return ids[0]
	}
	busy := command("sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	var archived bool
	first := submit("nightly", busy)
	require.Equal(t, "success", c.await(first).Status)
	c.call("ArchiveJob", &archived, first)
	require.True(t, archived)
	require.Equal(t, "success", c.await(submit("nightly", busy)).Status)
	require.Equal(t, "error", c.await(submit("broken", command("false"))).Status)
	running := c.submit(command("sleep", "999"))
	c.awaitStatus(running, "running")

	var report struct {
		Complete bool
		Groups   []usage.Group
		Others   *usage.Group
	}
	ask := func(args ...string) {
		t.Helper()
		out, code := d.client(append([]string{"usage", "--json"}, args...)...)
		require.Zero(t, code, out)
		require.NoError(t, json.Unmarshal([]byte(out), &report))
		require.True(t, report.Complete)
	}
	ask("--since", "1d")
	require.Len(t, report.Groups, 3)
	nightly, none, broken := report.Groups[0], report.Groups[1], report.Groups[2]
	require.Equal(t, []any{"nightly", 2, 0, 2}, []any{nightly.Name, nightly.Jobs, nightly.Failures, nightly.Measured})
	require.Positive(t, nightly.CPU)
	require.Positive(t, nightly.Memory.Median)
	require.GreaterOrEqual(t, nightly.Run.Max, nightly.Run.Median)
	require.Equal(t, []any{"", 1, 0, 0}, []any{none.Name, none.Jobs, none.Failures, none.Measured})
	require.NotNil(t, none.Wait, "it has begun")
	require.Nil(t, none.Run, "it has not ended")
	require.Equal(t, []any{"broken", 1, 1, 1}, []any{broken.Name, broken.Jobs, broken.Failures, broken.Measured})

	ask("--by", "opcode", "--limit", "1")
	require.Len(t, report.Groups, 1)
	require.Equal(t, []any{"OP_RUN_COMMAND", 4, 1}, []any{report.Groups[0].Name, report.Groups[0].Jobs, report.Groups[0].Failures})
	require.Nil(t, report.Others)
}

// BenchmarkUsage is `lockstep usage` with 100,000 archived jobs, which are copies of a command that has ended.
func BenchmarkUsage(b *testing.B) {
	const jobs, perDir = 100_000, 10_000
	d := newDaemon(b)
	d.start()
	c := d.dial()
	var ids []int64
	c.call("LockstepSubmitJobs", &ids, []any{map[string]any{"name": "nightly-00",
		"ops": []op{command("sh", "-c", "for i in 1 2 3 4 5; do echo line $i of what the backup has printed; done")}}})
	require.Equal(b, "success", c.await(ids[0]).Status)
	require.Zero(b, d.stop())
	content, err := os.ReadFile(d.path("lib", paths.JobPath(ids[0])))
	require.NoError(b, err)
	rec, err := os.ReadFile(d.path("lib", paths.RecordPath(ids[0])))
	require.NoError(b, err)
	last := ids[0] + jobs
	for id := ids[0] + 1; id <= last; id++ {
		file := d.path("lib", paths.ArchivePath(id))
		if id == ids[0]+1 || id%perDir == 0 {
			require.NoError(b, os.MkdirAll(filepath.Dir(file), 0o755))
		}
		copied := bytes.Replace(content, fmt.Appendf(nil, `"id": %d,`, ids[0]), fmt.Appendf(nil, `"id": %d,`, id), 1)
		require.NoError(b, os.WriteFile(file, copied, 0o600))
		named := bytes.Replace(rec, []byte("nightly-00"), fmt.Appendf(nil, "nightly-%02d", id%100), 1)
		require.NoError(b, os.WriteFile(d.path("lib", paths.ArchivedRecordPath(id)), named, 0o600))
	}
	require.NoError(b, os.WriteFile(d.path("lib", paths.SerialPath), fmt.Appendf(nil, "%d\n", last), 0o600))
	d.start()
	d.dial()
	shortest, client := time.Hour, time.Duration(0)
	for b.Loop() {
		began := time.Now()
		cmd := d.clientCommand("usage", "--limit", "3")
		out, err := cmd.Output()
		require.NoError(b, err)
		require.Contains(b, string(out), " 1001  0       nightly-00")
		shortest = min(shortest, time.Since(began))
		client += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	daemon := d.cmd
	require.Zero(b, d.stop())
	b.ReportMetric(shortest.Seconds(), "s/shortest")
	b.ReportMetric(client.Seconds()/float64(b.N), "cpu-s/client")
	b.ReportMetric((daemon.ProcessState.UserTime()+daemon.ProcessState.SystemTime()).Seconds()/float64(b.N), "cpu-s/daemon")
}
