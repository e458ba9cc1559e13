package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/persistence"
)

// BenchmarkSubmit is one acknowledged submission, by one client.
func BenchmarkSubmit(b *testing.B) {
	d := newDaemon(b)
	d.start()
	c := d.dial()
	open := d.full(c) // what is measured stays queued
	for b.Loop() {
		c.submit(command("true"))
	}
	b.StopTimer()
	d.kill()
	open()
}

// BenchmarkSubmitMany is one submission of a thousand jobs.
func BenchmarkSubmitMany(b *testing.B) {
	d := newDaemon(b)
	d.start()
	c := d.dial()
	open := d.full(c)
	list := make([][]op, 1000)
	for i := range list {
		list[i] = []op{command("true")}
	}
	for b.Loop() {
		c.call("SubmitManyJobs", nil, list)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N*len(list))/b.Elapsed().Seconds(), "jobs/s")
	d.kill()
	open()
}

// BenchmarkJob is one job of one opcode that does nothing, from its submission
// until a client hears of its end.
func BenchmarkJob(b *testing.B) {
	d := newDaemon(b)
	d.start()
	c := d.dial()
	for b.Loop() {
		c.await(c.submit(op{"OP_ID": "OP_TEST_DELAY", "duration": 1e-9}))
	}
}

// BenchmarkJobs is one of many such jobs, submitted together.
func BenchmarkJobs(b *testing.B) {
	d := newDaemon(b)
	d.start()
	c := d.dial()
	list := make([][]op, b.N)
	for i := range list {
		list[i] = []op{{"OP_ID": "OP_TEST_DELAY", "duration": 1e-9}}
	}
	b.ResetTimer()
	var answers [][2]any
	c.call("SubmitManyJobs", &answers, list)
	for _, answer := range answers {
		c.await(int64(answer[1].(float64)))
	}
}

// BenchmarkDeath is from the kill of a job process until a client hears that
// its job has failed.
func BenchmarkDeath(b *testing.B) {
	d := newDaemon(b)
	d.start()
	c := d.dial()
	for b.Loop() {
		b.StopTimer()
		id := c.submit(command("sleep", "300"))
		c.until(id, "running")
		pid := d.processOf(id)
		b.StartTimer()
		require.NoError(b, syscall.Kill(pid, syscall.SIGKILL))
		c.await(id)
	}
}

// BenchmarkLine is from a command's line of output until a waiting client has
// it; the command writes a line when the last one was seen.
func BenchmarkLine(b *testing.B) {
	d := newDaemon(b)
	d.start()
	c := d.dial()
	pipe := d.path("pipe")
	require.NoError(b, syscall.Mkfifo(pipe, 0o600))
	id := c.submit(command("sh", "-c", "while read line; do echo $line; done < "+pipe))
	file, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	require.NoError(b, err)
	c.until(id, "running")
	serial := 0
	for b.Loop() {
		_, err := file.WriteString("x\n")
		require.NoError(b, err)
		var change [2]json.RawMessage
		require.NoError(b, c.Call(context.Background(), "WaitForJobChange", []any{id, []string{"id"}, []int64{id}, serial, 30}, &change))
		var entries [][]any
		require.NoError(b, json.Unmarshal(change[1], &entries))
		serial = int(entries[len(entries)-1][0].(float64))
	}
	require.NoError(b, file.Close())
	c.await(id)
}

// BenchmarkBareLoop is what the machine takes for the processes and files of one
// job, without a queue: to start the same program, and to write its file three
// times, durably.
func BenchmarkBareLoop(b *testing.B) {
	d := newDaemon(b)
	d.start()
	require.Equal(b, 0, d.stop())
	files, err := persistence.OpenFiles(d.path("lib"))
	require.NoError(b, err)
	content := make([]byte, 700)
	for b.Loop() {
		for range 3 { // submission, livelock's name, end
			require.NoError(b, files.Replace("bench", "queue/job-1", content))
			require.NoError(b, files.SyncDir("bench", "queue"))
		}
		_ = exec.Command(filepath.Join(programs, "lockstep-job")).Run() // usage: exit status 2
	}
}
