package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/edge/luxiclient"
	"lockstep/persistence"
)

var (
	clusterSnapshot = flag.Int("cluster.snapshot", 20000, "jobs that a new node takes over, in the benchmark of that")
	clusterCompared = flag.Bool("cluster.compared", true, "submit also while the nodes are compared")
)

// pacedPause is the time between two submissions of startPaced.
const pacedPause = 20 * time.Millisecond

// paced submits one job at a time at a constant pace, whatever the answers take, and watches the lease of the master.
type paced struct {
	c      *cluster
	lease  *persistence.Lease
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu     sync.Mutex
	took   []time.Duration // since take
	lapses int             // looks at the lease that found it expired
	failed error
}

// startPaced connects clients to the master. They submit until end is called.
func (c *cluster) startPaced(clients int) *paced {
	c.t.Helper()
	master := c.master()
	lease, err := persistence.OpenLease(master.path("run"))
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	p := &paced{c: c, lease: lease, cancel: cancel}
	due := make(chan time.Time, clients)
	for range clients {
		client, err := luxiclient.Dial(ctx, master.socket(), luxiclient.Options{AnswerTimeout: patience})
		require.NoError(c.t, err)
		p.all.Go(func() {
			defer client.Close()
			for begun := range due {
				p.note(client.Call(ctx, "SubmitJob", []any{[]op{command("true")}}, nil), begun)
			}
		})
	}
	p.all.Go(func() {
		defer close(due)
		for ticks := time.NewTicker(pacedPause); ; {
			select {
			case <-ctx.Done():
				ticks.Stop()
				return
			case at := <-ticks.C:
				due <- at
			}
		}
	})
	p.all.Go(func() { p.watchLease(ctx) })
	return p
}

// note records the answer to a submission that was due at a time.
func (p *paced) note(err error, due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.took = append(p.took, time.Since(due))
	case p.failed == nil && !errors.Is(err, context.Canceled):
		p.failed = err
	}
}

func (p *paced) watchLease(ctx context.Context) {
	for ctx.Err() == nil {
		if !p.lease.IsValid() {
			p.mu.Lock()
			p.lapses++
			p.mu.Unlock()
		}
		<-time.After(time.Millisecond)
	}
}

// take returns the times of the submissions since the last call, sorted.
func (p *paced) take() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := p.took
	p.took = nil
	slices.Sort(took)
	return took
}

// end ends the submissions. It returns how often the lease was found expired, and the first error of a submission.
func (p *paced) end() (lapses int, err error) {
	p.mu.Lock()
	lapses, err = p.lapses, p.failed
	p.mu.Unlock()
	p.cancel()
	p.all.Wait()
	return lapses, err
}

// BenchmarkClusterNewNode measures the time in which an empty node receives all jobs, from the
// start of its daemon until a comparison of all nodes finds no difference. Meanwhile clients submit 50 jobs a second, as they do for
// ten seconds before.
func BenchmarkClusterNewNode(b *testing.B) {
	c := newCluster(b, 3, "--max-unfinished", "2000000")
	c.user(0).pause()
	began := time.Now()
	c.submitInBatches(*clusterSnapshot, 1000)
	b.Logf("%d jobs submitted in %s", *clusterSnapshot, time.Since(began))
	var total time.Duration
	for range b.N {
		node := c.others(c.master())[0]
		c.wipe(node)
		c.awaitVotes(2)
		p := c.startPaced(16)
		<-time.After(10 * time.Second)
		before := p.take()
		began := time.Now()
		node.start()
		c.awaitBehind(node, 100)
		caughtUp := time.Since(began)
		meanwhile := p.take()
		if !*clusterCompared {
			p.cancel()
		}
		c.awaitEqual()
		took := time.Since(began)
		compared := p.take()
		lapses, err := p.end()
		require.NoError(b, err)
		total += took
		b.Logf("caught up after %s, equal after %s", caughtUp, took)
		logTimes(b, "submissions before", before)
		logTimes(b, "submissions until it had caught up", meanwhile)
		logTimes(b, "submissions while the nodes were compared", compared)
		for _, line := range []string{"it copies a snapshot", "snapshot received"} {
			b.Log(node.lineOf(line))
		}
		b.Logf("the lease was expired at %d looks", lapses)
		b.ReportMetric(float64(median(meanwhile))/float64(median(before)), "slower")
		require.NoError(b, os.RemoveAll(node.path("raft.gone")))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(total.Seconds()/float64(b.N), "s/node")
	b.ReportMetric(float64(*clusterSnapshot*b.N)/total.Seconds(), "files/s")
}

// lineOf returns the last line of the daemon's log with a text; "": none.
func (m *member) lineOf(text string) (last string) {
	for line := range strings.Lines(m.logged()) {
		if strings.Contains(line, text) {
			last = line
		}
	}
	return last
}

func median(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }

// logTimes logs the distribution of sorted times.
func logTimes(t testing.TB, what string, sorted []time.Duration) {
	n := len(sorted)
	if n == 0 {
		return
	}
	t.Logf("%s: %d, median %s, 95 of 100 in %s, longest %s", what, n, median(sorted), sorted[n*95/100], sorted[n-1])
}
