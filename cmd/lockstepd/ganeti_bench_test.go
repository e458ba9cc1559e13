package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/edge/noded/nodedtest"
)

// BenchmarkGanetiChange measures the time from the moment that Ganeti's process has replaced the file of its job until a waiting client
// has the change. The benchmark writes the file in the place of the process.
func BenchmarkGanetiChange(b *testing.B) {
	g := newGanetiQueue(b)
	c := g.dial()
	id := c.submit(delayOp())
	c.awaitOpStatus(id, 0, "running")
	path := g.path("lib", "queue", "job-"+strconv.FormatInt(id, 10))
	content, err := os.ReadFile(path)
	require.NoError(b, err)
	var job map[string]any
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	require.NoError(b, decoder.Decode(&job))
	opcode := job["ops"].([]any)[0].(map[string]any)
	serial := len(opcode["log"].([]any))
	var times []time.Duration
	for b.Loop() {
		opcode["log"] = append(opcode["log"].([]any), []any{serial + 1, []int{1, 2}, "message", "x"})
		content, err := json.Marshal(job)
		require.NoError(b, err)
		require.NoError(b, os.WriteFile(path+"x.new", content, 0o640))
		answered := make(chan error, 1)
		var arrived time.Time
		go func() {
			var change []json.RawMessage
			err := c.Call(context.Background(), "WaitForJobChange", []any{id, []string{"status"}, []string{"running"}, serial, 30}, &change)
			arrived = time.Now()
			answered <- err
		}()
		renamed := time.Now()
		require.NoError(b, os.Rename(path+"x.new", path))
		require.NoError(b, <-answered)
		times = append(times, arrived.Sub(renamed))
		serial++
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1e3, "ms/median")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1e3, "ms/p99")
	g.permit(id, 0, "")
	c.await(id)
}

// BenchmarkGanetiSubmit measures a submission by one client, with two candidates whose node daemons take 50 ms for each call. luxid makes two
// calls for each candidate, one after the other: the serial, then the job.
func BenchmarkGanetiSubmit(b *testing.B) {
	for _, acknowledge := range []string{"local", "majority", "all"} {
		b.Run(acknowledge, func(b *testing.B) {
			g := newGanetiCluster(b)
			g.promote(2)
			for _, n := range g.nodes {
				n.Put(nodedtest.SsconfPath("master_node"), "node0.example.com\n")
				n.Pause(50 * time.Millisecond)
			}
			g.start(append(selfAccounts(), "--acknowledge", acknowledge)...)
			c := g.dial()
			c.call("ReplaceFilter", nil, nil, 0, []any{[]any{"jobid", []any{">", "id", 0}}}, "PAUSE", []any{})
			g.submitHeld(c, 1)
			g.awaitQueue(1)
			g.awaitQueue(2)
			for b.Loop() {
				g.submitHeld(c, 1)
			}
			g.kill()
		})
	}
}
