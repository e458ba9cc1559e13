package queuecopy

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/paths"
)

var errLost = errors.New("connection refused")

// bench is a tracker with candidates that have answered their first sweep.
type bench struct {
	testing.TB
	*Tracker
	now  time.Time
	open map[string]Call
}

func newBench(t *testing.T, nodes ...string) *bench {
	b := &bench{t, New(), time.Unix(1_000_000, 0), map[string]Call{}}
	var all []Node
	for _, n := range nodes {
		all = append(all, Node{UUID: n, Name: n})
	}
	b.SetNodes(b.now, "master", all)
	b.finish()
	b.now = b.now.Add(Settle)
	b.finish()
	return b
}

// next returns the decision; its calls are open.
func (b *bench) next() Decision {
	d := b.Next(b.now)
	for _, c := range d.Calls {
		require.NotContains(b, b.open, c.Node.Name)
		b.open[c.Node.Name] = c
	}
	return d
}

// call is the open call of a node.
func (b *bench) call(node string) Call {
	b.Helper()
	b.next()
	require.Contains(b, b.open, node)
	return b.open[node]
}

func (b *bench) idle(node string) {
	b.Helper()
	b.next()
	require.NotContains(b, b.open, node)
}

func (b *bench) end(node string, r Result) Effect {
	b.Helper()
	c := b.call(node)
	delete(b.open, node)
	if c.Op == AskMaster && r.Master == "" {
		r.Master = "master"
	}
	if c.Op == Check && r.Found == nil {
		r.Found = make([]Found, len(c.Units))
	}
	return b.Done(b.now, c.Number, r)
}

// finish ends calls with success until there is none.
func (b *bench) finish() {
	for {
		b.next()
		if len(b.open) == 0 {
			return
		}
		for node := range b.open {
			b.end(node, Result{})
		}
	}
}

func (b *bench) jobChanged(ids ...int64) {
	for _, id := range ids {
		b.Changed(b.now, []string{paths.JobPath(id)})
	}
}

func (b *bench) jobArchived(id int64) {
	b.Changed(b.now, []string{paths.ArchivePath(id)})
}

func TestUnitsAndPaths(t *testing.T) {
	for _, u := range []Unit{0, 7, 123456, Serial, Drain, Pause} {
		got, archived, ok := UnitOf(u.Path())
		require.True(t, ok)
		require.False(t, archived)
		require.Equal(t, u, got)
	}
	u, archived, ok := UnitOf("queue/archive/1/job-12345")
	require.True(t, ok && archived)
	require.Equal(t, Unit(12345), u)
	for _, file := range []string{"queue/lockstep-7", "queue/job-7.tmp", "queue/archive/2/job-12345", "queue/quarantine/job-7", "config.data", "job-7", "queue/lock"} {
		_, _, ok := UnitOf(file)
		require.False(t, ok, file)
	}
}

// A first contact asks for the master, sends what is no job, and compares the jobs later.
func TestContact(t *testing.T) {
	b := &bench{t, New(), time.Unix(1_000_000, 0), map[string]Call{}}
	b.SetNodes(b.now, "master", []Node{{UUID: "u", Name: "n", Address: "192.0.2.1"}})
	require.Equal(t, AskMaster, b.call("n").Op)
	require.Equal(t, "192.0.2.1", b.call("n").Node.Address)
	b.end("n", Result{})
	for _, u := range []Unit{Serial, Drain, Pause} {
		c := b.call("n")
		require.Equal(t, []any{Update, []Unit{u}}, []any{c.Op, c.Units})
		b.end("n", Result{Serial: 300})
	}
	require.Equal(t, b.now.Add(Settle), b.next().Wake)
	require.True(t, b.State()[0].Comparing)
	b.now = b.now.Add(Settle)
	c := b.call("n")
	require.Equal(t, Check, c.Op)
	require.Len(t, c.Units, checkMax)
	require.Equal(t, Unit(300), c.Units[0])
	b.end("n", Result{})
	b.idle("n")
	b.now = b.now.Add(sweepPause)
	require.Len(t, b.call("n").Units, 51)
	b.end("n", Result{})
	b.idle("n")
	require.False(t, b.State()[0].Comparing)
}

// A candidate that names another master gets nothing.
func TestAnotherMaster(t *testing.T) {
	b := newBench(t, "a")
	b.jobChanged(1)
	b.end("a", Result{Err: errLost})
	b.now = b.now.Add(retryFirst)
	require.Equal(t, AskMaster, b.call("a").Op)
	e := b.end("a", Result{Master: "other"})
	require.Equal(t, 2, e.Failures)
	require.ErrorContains(t, b.State()[0].Err, "name other as the master")
	b.idle("a")
	b.now = b.now.Add(e.Retry)
	require.True(t, b.end("a", Result{}).Recovered)
	require.Equal(t, Update, b.call("a").Op)
}

// A change that comes before the call is in it; one that comes during the call is sent again. The serial comes first.
func TestCoalescing(t *testing.T) {
	b := newBench(t, "a", "b")
	b.jobChanged(1, 1, 2, 1)
	b.Changed(b.now, []string{paths.SerialPath})
	require.Equal(t, []Unit{Serial}, b.call("a").Units)
	b.end("a", Result{})
	require.Equal(t, []Unit{1}, b.call("a").Units)
	b.jobChanged(1)
	require.Equal(t, 2, b.State()[0].Behind)
	b.end("a", Result{})
	require.Equal(t, []Unit{2}, b.call("a").Units)
	b.end("a", Result{})
	require.Equal(t, []Unit{1}, b.call("a").Units)
	b.end("a", Result{})
	b.idle("a")
	require.Equal(t, 3, b.State()[1].Behind)
	require.Equal(t, b.now, b.State()[1].Since)
	b.now = b.now.Add(time.Second)
	b.finish()
	require.Zero(t, b.State()[1].Behind)
	require.Equal(t, time.Second, b.State()[1].Worst)
	require.Zero(t, b.State()[0].Median)
}

// Renames of jobs that the candidate has are one call. A job that it may lack is compared.
func TestArchive(t *testing.T) {
	b := newBench(t, "a")
	b.jobArchived(1)
	b.jobArchived(2)
	b.jobChanged(3)
	b.jobArchived(3)
	c := b.call("a")
	require.Equal(t, []any{Archive, []Unit{1, 2}}, []any{c.Op, c.Units})
	b.end("a", Result{})
	c = b.call("a")
	require.Equal(t, []any{Check, []Unit{3}}, []any{c.Op, c.Units})
	b.end("a", Result{Found: []Found{{ArchivedHere: "x"}}})
	require.Equal(t, Refill, b.call("a").Op)
	b.end("a", Result{})
	require.Equal(t, Archive, b.call("a").Op)
	b.end("a", Result{})
	b.idle("a")

	// A rename that fails may have been done in part.
	b.jobArchived(4)
	b.end("a", Result{Err: errLost})
	b.now = b.now.Add(retryFirst)
	b.end("a", Result{})
	require.Equal(t, Check, b.call("a").Op)
}

// While a process of Ganeti runs, the daemon does not send the file, except when the process has not for some time.
func TestARunningJob(t *testing.T) {
	b := newBench(t, "a", "b")
	b.jobChanged(1)
	require.Equal(t, Update, b.call("a").Op)
	b.end("b", Result{})
	b.ProcessBegan(b.now, 1)
	b.end("a", Result{}) // was on its way
	b.jobChanged(1)
	b.idle("a")
	b.idle("b")
	b.now = b.now.Add(Settle)
	require.Equal(t, Check, b.call("a").Op, "the call may have overtaken that of the process")
	b.end("a", Result{Found: []Found{{Here: "new", There: "old", Age: time.Second}}})
	b.idle("a")
	b.now = b.now.Add(Settle)
	e := b.end("a", Result{Found: []Found{{Here: "new", There: "old", Age: Settle}}})
	require.Equal(t, 1, e.Repaired)
	require.Equal(t, Update, b.call("a").Op)
	b.end("a", Result{Rewritten: true})
	b.idle("a")
	b.now = b.now.Add(Settle)
	require.Equal(t, Check, b.call("a").Op)
	b.end("a", Result{})

	b.ProcessEnded(b.now, 1)
	require.Equal(t, Check, b.call("a").Op)
	b.end("a", Result{Found: []Found{{Here: "x", There: "x"}}})
	b.idle("a")
	b.now = b.now.Add(Settle)
	require.Equal(t, Check, b.call("a").Op, "a call of the process may have come late")
	b.end("a", Result{})
	b.ProcessEnded(b.now, 1)
	b.idle("a")
}

// Jobs that run for long are compared in between, because their processes repeat no failed call.
func TestALongJob(t *testing.T) {
	b := newBench(t, "a")
	b.ProcessBegan(b.now, 1)
	b.idle("a")
	b.now = b.now.Add(runningPause)
	require.Equal(t, Check, b.call("a").Op)
}

// Pauses double. A candidate that was away for long is compared from the beginning.
func TestFailures(t *testing.T) {
	b := newBench(t, "a")
	b.Changed(b.now, []string{paths.SerialPath})
	b.end("a", Result{Serial: 5})
	b.jobChanged(5)
	began := b.now
	for _, pause := range []int{1, 2, 4, 8, 16, 30, 30} {
		e := b.end("a", Result{Err: errLost})
		require.Equal(t, time.Duration(pause)*time.Second, e.Retry)
		b.idle("a")
		require.Equal(t, b.now.Add(e.Retry), b.State()[0].RetryAt)
		b.now = b.now.Add(e.Retry)
	}
	require.Equal(t, began, b.State()[0].Since)
	require.True(t, b.end("a", Result{}).Recovered)
	require.True(t, b.State()[0].Comparing)
	b.finish()
	require.False(t, b.State()[0].Comparing)
	require.Zero(t, b.State()[0].Failures)
}

// Too many marks become a sweep.
func TestOverflow(t *testing.T) {
	b := newBench(t, "a")
	b.jobChanged(1)
	b.end("a", Result{Err: errLost})
	began := b.now
	b.now = b.now.Add(time.Millisecond)
	for id := range int64(marksMax + 10) {
		b.jobChanged(id)
	}
	require.Less(t, b.State()[0].Behind, 20)
	require.True(t, b.State()[0].Comparing)
	require.Equal(t, began, b.State()[0].Since)
}

func TestAwait(t *testing.T) {
	b := newBench(t, "a", "b")
	b.jobChanged(1, 2, 3)
	b.Await(b.now, 7, []Unit{3})
	require.Equal(t, []Unit{3}, b.call("a").Units, "it comes before others")
	require.Empty(t, b.next().Released)
	b.end("a", Result{})
	require.Equal(t, []Released{{ID: 7}}, b.next().Released)
	b.Await(b.now, 8, []Unit{3})
	require.Equal(t, []Released{{ID: 8}}, b.next().Released)

	b.jobChanged(4)
	b.Await(b.now, 9, []Unit{4})
	b.now = b.now.Add(AwaitMax)
	require.Equal(t, []Released{{9, true}}, b.next().Released)

	alone := newBench(t)
	alone.jobChanged(1)
	alone.Await(alone.now, 1, []Unit{1})
	require.Equal(t, []Released{{ID: 1}}, alone.next().Released)
}

// A candidate that leaves is forgotten, and one that comes back counts as a new one.
func TestNodesChange(t *testing.T) {
	b := newBench(t, "a")
	b.jobChanged(1)
	c := b.call("a")
	b.SetNodes(b.now, "master", nil)
	require.True(t, b.Done(b.now, c.Number, Result{}).Obsolete)
	require.Empty(t, b.State())
	require.True(t, b.Done(b.now, 99, Result{}).Obsolete)
	delete(b.open, "a")
	b.SetNodes(b.now, "master", []Node{{UUID: "a", Name: "a"}})
	require.Equal(t, AskMaster, b.call("a").Op)
	require.True(t, b.State()[0].Comparing)
}
