package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/edge/luxiclient"
)

// benchSizes are numbers of nodes; 0 is a daemon that belongs to no cluster.
var benchSizes = []int{0, 1, 3, 5}

func benchName(size int) string {
	if size == 0 {
		return "alone"
	}
	return fmt.Sprintf("nodes=%d", size)
}

// benchSocket starts a cluster of size nodes, and returns the master's socket. Unless run is
// true, submitted jobs stay queued.
func benchSocket(b *testing.B, size int, run bool) string {
	b.Helper()
	const unfinished = "2000000"
	var socket string
	if size == 0 {
		d := newDaemon(b)
		d.start("--max-unfinished", unfinished)
		socket = d.path("run", "socket", "ganeti-query")
	} else {
		socket = newCluster(b, size, "--max-unfinished", unfinished).master().socket()
	}
	if !run {
		require.NoError(b, benchClient(b, socket).Call(context.Background(), "ReplaceFilter",
			[]any{nil, 0, [][]any{{"jobid", []any{">", "id", 0}}}, "PAUSE", []any{}}, nil))
	}
	return socket
}

func benchClient(b *testing.B, socket string) *luxiclient.Client {
	b.Helper()
	client, err := luxiclient.Dial(context.Background(), socket, luxiclient.Options{AnswerTimeout: patience})
	require.NoError(b, err)
	b.Cleanup(func() { _ = client.Close() })
	return client
}

// BenchmarkClusterSubmit measures one acknowledged submission by one client.
func BenchmarkClusterSubmit(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(benchName(size), func(b *testing.B) {
			client := benchClient(b, benchSocket(b, size, false))
			for b.Loop() {
				require.NoError(b, client.Call(context.Background(), "SubmitJob", []any{[]op{command("true")}}, nil))
			}
		})
	}
}

// BenchmarkClusterSubmitters measures one of many acknowledged submissions, by 64 clients.
func BenchmarkClusterSubmitters(b *testing.B) {
	const clients = 64
	for _, size := range benchSizes {
		b.Run(benchName(size), func(b *testing.B) {
			socket := benchSocket(b, size, false)
			connected := make(chan *luxiclient.Client, clients)
			for range clients {
				connected <- benchClient(b, socket)
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			failed := make(chan error, clients)
			b.ResetTimer()
			for range clients {
				go func() {
					client := <-connected
					for left.Add(-1) >= 0 {
						if err := client.Call(context.Background(), "SubmitJob", []any{[]op{command("true")}}, nil); err != nil {
							failed <- err
							return
						}
					}
					failed <- nil
				}()
			}
			for range clients {
				require.NoError(b, <-failed)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkClusterJobs measures one of many jobs that do nothing, from the submission of all
// jobs to the end of the last job.
func BenchmarkClusterJobs(b *testing.B) {
	for _, size := range []int{0, 3} {
		b.Run(benchName(size), func(b *testing.B) {
			client := benchClient(b, benchSocket(b, size, true))
			list := make([][]op, b.N)
			for i := range list {
				list[i] = []op{{"OP_ID": "OP_TEST_DELAY", "duration": 1e-9}}
			}
			b.ResetTimer()
			var answers [][2]any
			require.NoError(b, client.Call(context.Background(), "SubmitManyJobs", []any{list}, &answers))
			for _, answer := range answers {
				for status := ""; !isFinal(status); {
					var change []any
					require.NoError(b, client.Call(context.Background(), "WaitForJobChange", []any{answer[1], []string{"status"}, []string{status}, nil, 20}, &change))
					status = change[0].([]any)[0].(string)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkClusterFailover measures the time from the kill of the master to the first
// submission that another node acknowledges.
func BenchmarkClusterFailover(b *testing.B) {
	c := newCluster(b, 3)
	l := c.startLoad(2, 1)
	l.awaitAcks(5)
	var total time.Duration
	for range b.N {
		master := c.master()
		killed := time.Now()
		master.crash()
		total += l.nextAck(killed)
		master.start()
		c.awaitUp(master)
	}
	l.end()
	b.ReportMetric(0, "ns/op") // the time of an iteration includes the restarts
	b.ReportMetric(total.Seconds()/float64(b.N), "s/failover")
}
