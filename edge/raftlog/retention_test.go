package raftlog_test

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/replicator"
	"lockstep/edge/raftlog"
	"lockstep/edge/raftlog/logconformance"
	"lockstep/messages"
	"lockstep/sim/longtest"
)

var entriesMissed = flag.Int("raftlog.entries", 4000, "entries that a candidate misses, in the test of the size of the log")

// counter acknowledges entries and snapshots, and keeps none.
type counter struct {
	log       *raftlog.Log
	committed atomic.Int64
	restored  atomic.Bool
	added     atomic.Uint64 // number of the last change that has succeeded
	free      chan struct{} // gets a value for each entry; nil: none
}

func (k *counter) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *messages.LogCommitted:
		k.log.Applied(m.Entries[len(m.Entries)-1].Index, []byte("state"))
		k.committed.Add(int64(len(m.Entries)))
		for range m.Entries {
			k.release()
		}
	case *messages.LogRefused:
		k.release()
	case *messages.LogSnapshotReceived:
		k.log.Restored(m.Part)
		k.restored.Store(m.Last)
	case *messages.LogChangeResult:
		k.added.Store(m.Number)
	}
}

// release lets write propose another entry.
func (k *counter) release() {
	select {
	case k.free <- struct{}{}:
	default:
	}
}

func (c *cluster) startCounter(name string, o logconformance.Options) *counter {
	running := c.Start(name, o)
	k := &counter{log: c.nodes[name].log, free: make(chan struct{}, inFlight)}
	k.log.Attach(running.Spawn(k), 1)
	return k
}

// inFlight is how many proposals are on their way at a time.
const inFlight = 64

// startThree starts three voters, of which the first leads.
func (c *cluster) startThree() map[string]*counter {
	nodes := map[string]*counter{"n1": c.startCounter("n1", logconformance.Options{Founder: true, Files: noFiles})}
	first := nodes["n1"]
	c.Until("it leads", first.log.Leads)
	for i, name := range []string{"n2", "n3"} {
		nodes[name] = c.startCounter(name, logconformance.Options{Files: noFiles})
		number := uint64(i + 1)
		first.log.Change(number, replicator.Change{What: messages.ChangeNodes_ADD_VOTER, Name: name, Address: c.Address(name)})
		c.Until("it is added", func() bool { return first.added.Load() == number })
	}
	return nodes
}

// write proposes entries of 1.5 kB until this number more is committed. It calls look now and then.
func (k *counter) write(entries int, look func()) {
	for range len(k.free) {
		<-k.free
	}
	for range inFlight {
		k.release()
	}
	end := k.committed.Load() + int64(entries)
	for i := 1; k.committed.Load() < end; i++ {
		<-k.free
		k.log.Propose(1, make([]byte, 1500))
		if i%1000 == 0 {
			look()
		}
	}
}

// logSize is the size of the files of a node's log, in bytes.
func (c *cluster) logSize(name string) (size int64) {
	files, err := filepath.Glob(filepath.Join(c.dir, name, "raft", "wal", "*.wal"))
	require.NoError(c, err)
	for _, file := range files {
		if info, err := os.Stat(file); err == nil { // it may be removed meanwhile
			size += info.Size()
		}
	}
	return size
}

// While a candidate is down, the others keep no more of the log than otherwise. It comes back by a snapshot.
func TestTheLogIsBoundedWhileACandidateIsDown(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	c := newCluster(t)
	c.timing = raftlog.Timing{Heartbeat: 3 * time.Second}
	c.keeps = raftlog.Retention{Trailing: 200, Threshold: 100, Interval: 20 * time.Millisecond, Segment: 256 << 10}
	nodes := c.startThree()
	c.Stop("n3")
	largest := int64(0)
	nodes["n1"].write(*entriesMissed, func() { largest = max(largest, c.logSize("n1"), c.logSize("n2")) })
	// An entry has some bytes besides its content.
	bound := int64(c.keeps.Trailing+c.keeps.Threshold)*1600 + 2*int64(c.keeps.Segment)
	require.Less(t, bound, int64(*entriesMissed)*1500/5, "the bound says something")
	for _, name := range []string{"n1", "n2"} {
		c.Until(name+" has dropped what it need not keep", func() bool { return c.logSize(name) <= bound })
	}
	t.Logf("%d entries of 1.5 kB written; the log had at most %d kB at a look, in the end %d and %d kB of %d",
		*entriesMissed, largest>>10, c.logSize("n1")>>10, c.logSize("n2")>>10, bound>>10)

	back := c.startCounter("n3", logconformance.Options{Files: noFiles})
	c.Until("it is back", back.restored.Load)
	before := back.committed.Load()
	c.Until("it gets entries again", func() bool { // those that a second snapshot brings are not counted
		nodes["n1"].write(1, func() {})
		return back.committed.Load() >= before+10
	})
}

// BenchmarkACandidateIsDown measures how fast entries are committed with all three nodes, and with two of them: with the retention of a
// daemon, memory after a collection, and the largest size of the log at a look. -benchtime is the number of entries.
func BenchmarkACandidateIsDown(b *testing.B) {
	for _, down := range []bool{false, true} {
		name := "none"
		if down {
			name = "one"
		}
		b.Run("down="+name, func(b *testing.B) {
			c := newCluster(b)
			c.timing, c.keeps = raftlog.Timing{Heartbeat: 3 * time.Second}, raftlog.Retention{}
			nodes := c.startThree()
			if down {
				c.Stop("n3")
			}
			var largest int64
			b.ResetTimer()
			nodes["n1"].write(b.N, func() { largest = max(largest, c.logSize("n1")) })
			b.StopTimer()
			var memory runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&memory)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
			b.ReportMetric(float64(memory.HeapAlloc)/(1<<20), "heap-MB")
			b.ReportMetric(float64(largest)/(1<<20), "log-MB")
			if down && b.N > 3*10240 {
				back := c.startCounter("n3", logconformance.Options{Files: noFiles})
				c.Until("it comes back by a snapshot", back.restored.Load)
			}
		})
	}
}
