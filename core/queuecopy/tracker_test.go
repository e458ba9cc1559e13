package queuecopy

import (
	"errors"
	"fmt"
	"slices"
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
	open map[string][]Call
}

func newBench(t *testing.T, nodes ...string) *bench { return newBenchOf(t, Majority, nodes...) }

func newBenchOf(t *testing.T, a Acknowledge, nodes ...string) *bench {
	b := &bench{t, New(a), time.Unix(1_000_000, 0), map[string][]Call{}}
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
		b.open[c.Node.Name] = append(b.open[c.Node.Name], c)
		require.LessOrEqual(b, len(b.open[c.Node.Name]), callsMax)
	}
	return d
}

// call is the oldest open call of a node.
func (b *bench) call(node string) Call {
	b.Helper()
	b.next()
	require.NotEmpty(b, b.open[node])
	return b.open[node][0]
}

// calls are the open calls of a node, as "operation units".
func (b *bench) calls(node string) (all []string) {
	b.next()
	for _, c := range b.open[node] {
		all = append(all, fmt.Sprint(c.Op, " ", c.Units))
	}
	return all
}

func (b *bench) idle(node string) {
	b.Helper()
	require.Empty(b, b.calls(node))
}

// end ends the oldest call of a node.
func (b *bench) end(node string, r Result) Effect {
	b.Helper()
	c := b.call(node)
	if b.open[node] = b.open[node][1:]; len(b.open[node]) == 0 {
		delete(b.open, node)
	}
	if r.Serial == 0 && r.Err == nil && c.Op == Update && c.Units[0] == Serial {
		r.Serial = c.SerialToSend(0)
	}
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

// finishBut ends the calls in progress that are not about a job, and the serial's.
func (b *bench) finishBut(id Unit) {
	for i := 0; i < len(b.open["a"]); {
		c := b.open["a"][i]
		if slices.Contains(c.Units, id) {
			i++
			continue
		}
		b.open["a"] = slices.Delete(b.open["a"], i, i+1)
		b.Done(b.now, c.Number, Result{Serial: c.SerialToSend(0), Found: make([]Found, len(c.Units))})
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
	b := &bench{t, New(Local), time.Unix(1_000_000, 0), map[string][]Call{}}
	b.SetNodes(b.now, "master", []Node{{UUID: "u", Name: "n", Address: "192.0.2.1"}})
	require.Equal(t, AskMaster, b.call("n").Op)
	require.Equal(t, "192.0.2.1", b.call("n").Node.Address)
	b.end("n", Result{})
	require.Equal(t, []string{"update [-1]", "update [-2]", "update [-3]"}, b.calls("n"))
	require.Equal(t, int64(300+serialAhead), b.call("n").SerialToSend(300))
	for range 3 {
		b.end("n", Result{Serial: 300 + serialAhead})
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

// A change that comes before the call is in it; one that comes during the call is sent again, and not beside it.
func TestCoalescing(t *testing.T) {
	b := newBench(t, "a", "b")
	b.jobChanged(1, 1, 2, 1)
	require.Equal(t, []string{"update [1]", "update [2]"}, b.calls("a"))
	b.jobChanged(1)
	require.Equal(t, []string{"update [1]", "update [2]"}, b.calls("a"), "one call of a file at a time")
	require.Equal(t, 2, b.State()[0].Behind)
	b.end("a", Result{})
	require.Equal(t, []string{"update [2]", "update [1]"}, b.calls("a"))
	b.end("a", Result{})
	b.end("a", Result{})
	b.idle("a")
	require.Equal(t, 2, b.State()[1].Behind)
	require.Equal(t, b.now, b.State()[1].Since)
	b.now = b.now.Add(time.Second)
	b.finish()
	require.Zero(t, b.State()[1].Behind)
	require.Equal(t, time.Second, b.State()[1].Worst)
	require.Zero(t, b.State()[0].Median)
}

// At most callsMax calls of a candidate are in progress, and a slow one holds up no other one.
func TestParallelCalls(t *testing.T) {
	b := newBench(t, "a")
	b.jobChanged(1, 2, 3, 4, 5, 6)
	require.Equal(t, []string{"update [1]", "update [2]", "update [3]", "update [4]"}, b.calls("a"))
	slow := b.open["a"][0]
	b.open["a"] = b.open["a"][1:]
	for range 5 {
		b.end("a", Result{})
	}
	b.idle("a")
	require.Equal(t, 1, b.State()[0].Behind)
	b.Done(b.now, slow.Number, Result{})
	require.Zero(t, b.State()[0].Behind)
}

// While clients ask for answers, one call at a time is made that no answer waits for.
func TestCallsOfAnswersAreNotDisturbed(t *testing.T) {
	b := newBenchOf(t, All, "a")
	b.jobChanged(1, 2, 3)
	b.Await(b.now, 1, []Unit{2})
	require.Equal(t, []string{"update [2]", "update [1]"}, b.calls("a"))
	b.end("a", Result{})
	require.Equal(t, b.now.Add(calm), b.next().Wake)
	b.jobChanged(4, 5)
	b.Await(b.now, 2, []Unit{4, 5})
	require.Equal(t, []string{"update [1]", "update [4]", "update [5]"}, b.calls("a"))
	b.now = b.now.Add(calm)
	require.Equal(t, []string{"update [1]", "update [4]", "update [5]", "update [3]"}, b.calls("a"))
}

// The serial of a candidate runs ahead. It is sent again when half of the ids are used, and no job is sent that is above it.
func TestSerialAhead(t *testing.T) {
	b := newBench(t, "a")
	b.jobChanged(serialAhead / 2)
	require.Equal(t, []string{"update [100]"}, b.calls("a"))
	b.finish()
	b.jobChanged(serialAhead/2 + 1)
	b.Changed(b.now, []string{paths.SerialPath})
	require.Equal(t, []string{"update [-1]", "update [101]"}, b.calls("a"))
	require.Equal(t, int64(101+serialAhead), b.call("a").SerialToSend(7), "also if the serial here is not written yet")
	require.Equal(t, int64(150+serialAhead), b.call("a").SerialToSend(150))
	b.finish()

	b.jobChanged(1000, 1001)
	require.Equal(t, []string{"update [-1]"}, b.calls("a"))
	b.end("a", Result{Err: errLost})
	b.now = b.now.Add(retryFirst)
	b.end("a", Result{})
	require.Equal(t, []string{"update [-1]"}, b.calls("a"))
	b.end("a", Result{})
	require.Equal(t, []string{"update [1000]", "update [1001]"}, b.calls("a"))
}

// An orderly stop sends the exact serial to the candidates that answer.
func TestStop(t *testing.T) {
	b := newBench(t, "a", "b")
	b.jobChanged(1)
	b.end("a", Result{})
	b.end("b", Result{Err: errLost})
	b.Stop(b.now)
	require.False(t, b.next().Stopped)
	require.Equal(t, []string{"update [-1]"}, b.calls("a"))
	require.Equal(t, int64(1), b.call("a").SerialToSend(1))
	b.end("a", Result{Serial: 1})
	require.True(t, b.next().Stopped)
	b.idle("a")

	silent := newBench(t, "a")
	silent.Stop(silent.now)
	require.Equal(t, silent.now.Add(StopMax), silent.next().Wake)
	silent.now = silent.now.Add(StopMax)
	require.True(t, silent.next().Stopped)
}

// Renames of jobs that the candidate has are one call. A job that it may lack is compared.
func TestArchive(t *testing.T) {
	b := newBench(t, "a")
	b.jobArchived(1)
	b.jobArchived(2)
	b.jobChanged(3)
	b.jobArchived(3)
	require.Equal(t, []string{"archive [1 2]", "check [3]"}, b.calls("a"))
	b.end("a", Result{})
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

func TestAwaitMajority(t *testing.T) {
	b := newBench(t, "a", "b")
	b.jobChanged(1, 2, 3, 4, 5, 6)
	b.Await(b.now, 7, []Unit{6})
	require.Equal(t, []Unit{6}, b.call("a").Units, "it comes before others")
	require.Empty(t, b.next().Released)
	b.end("a", Result{})
	require.Equal(t, []Released{{ID: 7}}, b.next().Released)
	b.Await(b.now, 8, []Unit{6})
	require.Equal(t, []Released{{ID: 8}}, b.next().Released)

	b.jobChanged(7)
	b.Await(b.now, 9, []Unit{7})
	b.now = b.now.Add(AwaitMax)
	require.Equal(t, []Released{{9, true}}, b.next().Released)

	alone := newBench(t)
	alone.jobChanged(1)
	alone.Await(alone.now, 1, []Unit{1})
	require.Equal(t, []Released{{ID: 1}}, alone.next().Released)
}

// An answer waits for each candidate. One that is silent for AllMax counts as behind, until it has what it lacks.
func TestAwaitAll(t *testing.T) {
	b := newBenchOf(t, All, "a", "b")
	b.jobChanged(1)
	b.Await(b.now, 1, []Unit{1})
	require.Empty(t, b.next().Released)
	b.end("a", Result{})
	require.Equal(t, b.now.Add(AllMax), b.next().Wake)
	b.now = b.now.Add(AllMax)
	d := b.next()
	require.Equal(t, []Released{{ID: 1}}, d.Released)
	require.Equal(t, []Node{{UUID: "b", Name: "b"}}, d.Behind)

	b.jobChanged(2)
	b.Await(b.now, 2, []Unit{2})
	require.Empty(t, b.next().Released, "the other candidate is not behind")
	b.end("a", Result{})
	require.Equal(t, []Released{{ID: 2}}, b.next().Released)

	b.end("b", Result{})
	require.Equal(t, []Node{{UUID: "b", Name: "b"}}, b.next().CaughtUp, "what it lacks is new")
	b.jobChanged(3)
	b.Await(b.now, 3, []Unit{3})
	b.end("a", Result{})
	require.Empty(t, b.next().Released)
	b.end("b", Result{})
	b.end("b", Result{})
	require.Equal(t, []Released{{ID: 3}}, b.next().Released)
}

// A candidate that refuses calls is tried again before it counts as behind. Later answers do not wait for it until its calls succeed, and it
// has what it lacks.
func TestAwaitAllOfACandidateThatIsAway(t *testing.T) {
	b := newBenchOf(t, All, "a")
	b.jobChanged(1)
	b.Await(b.now, 1, []Unit{1})
	b.end("a", Result{Err: errLost})
	b.now = b.now.Add(retryFirst)
	b.end("a", Result{Err: errLost})
	require.Empty(t, b.next().Released)
	b.now = b.now.Add(AllMax - retryFirst)
	d := b.next()
	require.Equal(t, []any{1, 1}, []any{len(d.Behind), len(d.Released)})
	b.jobChanged(2, 3)
	b.Await(b.now, 2, []Unit{2})
	require.Len(t, b.next().Released, 1)
	b.now = b.now.Add(calm)
	b.end("a", Result{})
	b.next()
	require.Equal(t, []string{"update [1]", "update [2]", "update [3]"}, b.calls("a"))
	b.now = b.now.Add(AllMax)
	require.Empty(t, b.next().CaughtUp)
	b.end("a", Result{})
	b.end("a", Result{})
	require.Empty(t, b.next().CaughtUp)
	b.end("a", Result{})
	require.Len(t, b.next().CaughtUp, 1)

	// Without a change it counts as behind, too, when its calls have failed for AllMax.
	b.jobChanged(4)
	b.end("a", Result{Err: errLost})
	require.Equal(t, b.now.Add(retryFirst), b.next().Wake)
	b.now = b.now.Add(AllMax)
	require.Len(t, b.next().Behind, 1)
}

// A job that changes, starts or is archived while its copy is under way.
func TestAwaitOfAJobThatChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*bench)
		calls  []string // after the change, each with success
	}{
		{"changes before the call", func(b *bench) { b.jobChanged(9) }, []string{"update [9]"}},
		{"is archived before the call", func(b *bench) { b.jobArchived(9) }, []string{"check [9]", "refill [9]", "archive [9]"}},
		{"starts before the call", func(b *bench) { b.ProcessBegan(b.now, 9) }, []string{"update [9]"}},
		{"starts, and the call fails", func(b *bench) {
			b.finishBut(9)
			b.ProcessBegan(b.now, 9)
			b.end("a", Result{Err: errLost})
			b.now = b.now.Add(retryFirst)
		}, []string{"ask-master []", "update [9]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBenchOf(t, All, "a")
			b.jobChanged(1, 2, 3, 4)
			b.next() // all places are taken
			b.jobChanged(9)
			b.Await(b.now, 1, []Unit{9})
			c.change(b)
			b.finishBut(9)
			for _, call := range c.calls {
				require.Empty(t, b.next().Released)
				require.Equal(t, []string{call}, b.calls("a"))
				b.end("a", Result{Found: []Found{{ArchivedHere: "x"}}})
			}
			require.Len(t, b.next().Released, 1)
		})
	}
}

// A change after the begin of its call does not make an answer wait for another call.
func TestAwaitOfAJobThatChangesAgain(t *testing.T) {
	b := newBenchOf(t, All, "a")
	b.jobChanged(1)
	b.next()
	b.Await(b.now, 1, []Unit{1})
	b.jobChanged(1)
	b.end("a", Result{})
	require.Len(t, b.next().Released, 1)
	b.Await(b.now, 2, []Unit{1})
	require.Empty(t, b.next().Released)
	b.end("a", Result{})
	require.Len(t, b.next().Released, 1)
}

// Failures of calls that are in progress at the same time are one failure.
func TestFailuresAtOnce(t *testing.T) {
	b := newBench(t, "a")
	b.jobChanged(1, 2, 3)
	b.next()
	e := b.end("a", Result{Err: errLost})
	require.Equal(t, []any{1, retryFirst}, []any{e.Failures, e.Retry})
	require.Equal(t, Effect{}, b.end("a", Result{Err: errLost}))
	require.Equal(t, Effect{}, b.end("a", Result{}), "the call has begun before the failure")
	b.now = b.now.Add(retryFirst)
	require.True(t, b.end("a", Result{}).Recovered)
	require.Equal(t, []string{"update [1]", "update [2]"}, b.calls("a"))
}

// Marks that answers wait for outlive an overflow.
func TestOverflowOfAwaitedMarks(t *testing.T) {
	b := newBenchOf(t, All, "a")
	b.jobChanged(1, 2, 3, 4)
	b.next()
	b.jobChanged(5)
	b.Await(b.now, 1, []Unit{5})
	for id := range int64(marksMax + 10) {
		b.jobChanged(id + 6)
	}
	require.True(t, b.State()[0].Comparing)
	b.finishBut(5)
	require.Empty(t, b.next().Released)
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
