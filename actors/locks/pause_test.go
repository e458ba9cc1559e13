package locks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	corejob "lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/messages"
)

func (b *bench) sendLockPause(id int64, withhold bool) {
	b.Send(b.locks, &messages.SetLockPause{Id: id, Paused: withhold})
	b.Settle()
}

// A waiting job that is paused receives the pause as its answer, loses the locks that its
// request already had, and cannot wait again while it is paused.
func TestAPausedJobThatWaits(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter, other := b.caller(job(1)), b.caller(job(2)), b.caller(job(3))
		holder.takeLocks("node/b:exclusive")
		waiter.takeLocks("node/a:exclusive")
		waiter.await("node/b:exclusive", 60)
		other.await("node/a:exclusive", 60)
		b.Settle()
		b.sendLockPause(2, true)
		require.Equal(t, locks.AwaitResult{Withdrawn: true}, waiter.expectAwaitResult())
		require.True(t, other.expectAwaitResult().Granted)
		require.Equal(t, b.status(), b.onDisk())
		waiter.await("node/c:exclusive", 60)
		require.Equal(t, locks.AwaitResult{Withdrawn: true}, waiter.expectAwaitResult())
		require.NotContains(t, b.status(), livelock(2))
		tool := b.caller(`["2","/live/two",7]`) // no job, whatever it is called
		tool.await("node/c:exclusive", 60)
		require.True(t, tool.expectAwaitResult().Granted)
		b.sendLockPause(2, false)
		waiter.await("node/d:exclusive", 60)
		require.True(t, waiter.expectAwaitResult().Granted)
	})
}

// A paused job that does not wait executes an opcode, and keeps its locks.
func TestAPausedJobThatDoesNotWait(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c := b.caller(job(1))
		c.takeLocks("node/a:exclusive")
		b.sendLockPause(1, true)
		require.Equal(t, `[["node/a","exclusive"]]`, c.listOwn())
		b.Send(b.locks, &messages.JobCleanedUp{Id: 1}) // the job is no longer paused
		b.Settle()
		c.await("node/b:exclusive", 60)
		require.True(t, c.expectAwaitResult().Granted)
	})
}

// A paused job gets no locks by an opportunistic request.
func TestAPausedJobThatChooses(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c, tool := b.caller(job(1)), b.caller(`["1","/live/one",7]`)
		b.sendLockPause(1, true)
		for function, count := range map[string]string{"opportunisticLockUnion": "", "guardedOpportunisticLockUnion": "1,"} {
			c.call(function, "["+count+job(1)+`,[["node/a","exclusive"]]]`)
			require.Equal(t, "[]", c.expectValue())
		}
		tool.call("guardedOpportunisticLockUnion", `[1,["1","/live/one",7],[["node/a","exclusive"]]]`)
		require.Equal(t, `["node/a"]`, tool.expectValue())
		b.sendLockPause(1, false)
		c.call("guardedOpportunisticLockUnion", "[1,"+job(1)+`,[["node/b","exclusive"]]]`)
		require.Equal(t, `["node/b"]`, c.expectValue())
	})
}

// The scheduler sends the paused jobs again if there was no state.
func TestAPausedJobWithoutAState(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter := b.caller(job(1)), b.caller(job(2))
		holder.takeLocks("node/a:exclusive")
		waiter.update("node/a:exclusive")
		waiter.expectValue()
		b.disk.Fail("append locks", 1)
		b.caller(job(3)).update("node/b:exclusive")
		b.Settle()
		b.sched.Unread()
		b.sendLockPause(2, true)
		b.Advance(100 * time.Millisecond)
		require.True(t, kittest.Expect[*locks.OwnersPublished](b.sched).Complete)
		require.Contains(t, b.status(), livelock(2))
		b.sendLockPause(2, true)
		require.NotContains(t, b.status(), livelock(2))
	})
}

// The scheduler gets the records of changed owners at once, and those of all owners on
// request.
func TestTheSchedulerIsTold(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		told := func() (lines string, all bool) {
			m := kittest.Expect[*locks.OwnersPublished](b.sched)
			var text []byte
			for _, r := range m.Records {
				text = lock.AppendRecord(text, r)
			}
			return string(text), m.Complete
		}
		first, all := told()
		require.True(t, all && first == "")
		one, two := b.caller(job(1)), b.caller(job(2))
		one.takeLocks("node/a:exclusive")
		holds := `{"owner":` + job(1) + `,"locks":[["node/a","exclusive"]],"pending":null}` + "\n"
		text, all := told()
		require.True(t, !all && text == holds)
		two.update("node/a:shared")
		two.expectValue()
		waits := `{"owner":` + job(2) + `,"locks":[],"pending":[0,[["node/a","shared"]]]}` + "\n"
		text, _ = told()
		require.Equal(t, waits, text)
		b.Send(b.locks, &messages.PublishLocks{})
		text, all = told()
		require.True(t, all && text == holds+waits)
		one.free()
		text, _ = told()
		require.Equal(t, `{"owner":`+job(1)+`,"locks":[],"pending":null}`+"\n"+
			`{"owner":`+job(2)+`,"locks":[["node/a","shared"]],"pending":null}`+"\n", text)
		b.crash()
		text, all = told()
		require.True(t, all && text == `{"owner":`+job(2)+`,"locks":[["node/a","shared"]],"pending":null}`+"\n")
	})
}

// A repeated request with another priority changes the place of the request.
func TestAwaitWithAnotherPriority(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, one, two := b.caller(job(1)), b.caller(job(2)), b.caller(job(3))
		holder.takeLocks("node/a:exclusive")
		one.await("node/a:exclusive", 60)
		two.call(locks.AwaitFunction, `[`+job(3)+`,5,`+request("node/a:exclusive")+`,60]`)
		b.Settle()
		two.call(locks.AwaitFunction, `[`+job(3)+`,-5,`+request("node/a:exclusive")+`,60]`)
		b.Settle()
		kittest.Expect[*locks.OperateResult](two.Probe) // the former call
		require.Equal(t, b.status(), b.onDisk())
		holder.free()
		require.True(t, two.expectAwaitResult().Granted)
		one.Quiet()
	})
}

// The bypass limit can be changed, also for requests that wait.
func TestTheLimitOfBypassChanges(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		reader, writer, late := b.caller(job(1)), b.caller(job(2)), b.caller(job(3))
		limit := func(seconds time.Duration) {
			b.Send(b.locks, &locks.SetBypassLimit{Limit: seconds * time.Second})
			b.Settle()
		}
		limit(0)
		reader.takeLocks("node/a:shared")
		writer.await("node/a:exclusive", 600)
		b.Advance(time.Minute)
		late.takeLocks("node/a:shared") // it overtakes
		late.free()
		late.expectValue()
		limit(30)
		limit(30)
		late.await("node/a:shared", 600)
		late.Quiet()
		limit(3600)
		require.True(t, late.expectAwaitResult().Granted)
		b.crash()
		late.takeLocks("node/a:shared")
	})
}

// Nothing overtakes the requests of jobs of which that is said, whatever the limit is: those that wait, and later ones.
func TestRequestsThatNothingMayOvertake(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		reader, writer, late := b.caller(job(1)), b.caller(job(2)), b.caller(job(3))
		forbid := func(ids ...int64) {
			b.Send(b.locks, &locks.ForbidBypass{Ids: ids})
			b.Settle()
		}
		reader.takeLocks("node/a:shared")
		writer.await("node/a:exclusive", 600)
		b.Settle()
		late.takeLocks("node/a:shared")
		late.free()
		late.expectValue()
		forbid(2) // it waits
		late.await("node/a:shared", 600)
		b.Settle()
		late.Quiet()
		reader.free()
		reader.expectValue()
		require.True(t, writer.expectAwaitResult().Granted)
		late.Quiet()
		writer.free()
		writer.expectValue()
		require.True(t, late.expectAwaitResult().Granted)

		writer.await("node/a:exclusive", 600) // a later request
		b.Settle()
		reader.await("node/a:shared", 600)
		b.Settle()
		reader.Quiet()
		late.free()
		late.expectValue()
		require.True(t, writer.expectAwaitResult().Granted)
		reader.Quiet()
		writer.free()
		writer.expectValue()
		require.True(t, reader.expectAwaitResult().Granted)

		forbid()
		writer.await("node/a:exclusive", 600)
		b.Settle()
		late.takeLocks("node/a:shared") // it overtakes
		b.crash()
	})
}

// beforePauses runs a test with a lock manager that has not got SetLockPauses yet.
func beforePauses(t *testing.T, files map[string]string, f func(b *bench)) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e, kittest.NewDisk(files))
		b.knows = func(uint64) {}
		b.start()
		kittest.Expect[*messages.LocksStarted](b.told)
		f(b)
	})
}

// Requests of jobs wait for SetLockPauses.
func TestNobodyIsGivenLocksBeforeItIsKnownWhoIsPaused(t *testing.T) {
	beforePauses(t, nil, func(b *bench) {
		paused, free, choice := b.caller(job(1)), b.caller(job(2)), b.caller(job(3))
		paused.await("node/a:exclusive", 60)
		free.await("node/a:exclusive", 60)
		choice.call("guardedOpportunisticLockUnion", `[1,`+choice.owner+`,`+request("node/b:exclusive")+`]`)
		require.Equal(t, `[]`, choice.expectValue())
		tool := b.caller(named("tool"))
		tool.await("node/z:exclusive", 60)
		require.True(t, tool.expectAwaitResult().Granted)
		tool.call(getStatus, `[]`)
		require.Contains(t, tool.expectValue(), `"waiting":2`)
		b.sendLockPause(3, true) // from a former scheduler
		b.Send(b.locks, &messages.SetLockPauses{Incarnation: 7})
		paused.Quiet()
		free.Quiet()

		b.Send(b.locks, &messages.SetLockPauses{Incarnation: 1, Ids: []int64{1}})
		require.Equal(t, locks.AwaitResult{Withdrawn: true}, paused.expectAwaitResult())
		require.True(t, free.expectAwaitResult().Granted)
		choice.await("node/b:exclusive", 60)
		require.True(t, choice.expectAwaitResult().Granted)
		require.Equal(t, b.status(), b.onDisk())
	})
}

// Such a request waits at most as long as its own timeout.
func TestWhoIsPutOffHearsInTime(t *testing.T) {
	beforePauses(t, nil, func(b *bench) {
		c := b.caller(job(1))
		c.await("node/a:exclusive", 5)
		b.Advance(6 * time.Second)
		require.Equal(t, locks.AwaitResult{}, c.expectAwaitResult())
		b.Send(b.locks, &messages.SetLockPauses{Incarnation: 1})
		b.Settle()
		c.Quiet()
		require.NotContains(t, b.status(), livelock(1))
	})
}

// A lock manager whose files cannot be written refuses deferred calls.
func TestWhoIsPutOffIsRefused(t *testing.T) {
	beforePauses(t, nil, func(b *bench) {
		c, tool := b.caller(job(1)), b.caller(named("tool"))
		c.await("node/a:exclusive", 60)
		b.disk.Fail("append locks", 1)
		tool.update("node/z:exclusive")
		require.Contains(t, tool.expectFailure(), "The state of the locks cannot be written")
		require.Contains(t, c.expectFailure(), "The state of the locks cannot be written")
		b.Send(b.locks, &messages.SetLockPauses{Incarnation: 1})
		b.Settle()
		c.Quiet()
	})
}

// A paused job waited when the lock manager stopped. Nothing is granted to it before SetLockPauses arrive, which withdraw
// its request.
func TestAPausedJobThatWaitedBefore(t *testing.T) {
	beforePauses(t, files(`[[[["tool","/live/tool",7],[["node/a","exclusive"]]]],[[0,`+job(1)+`,[["node/a","exclusive"]]]]]`, ""), func(b *bench) {
		c, tool := b.caller(job(1)), b.caller(named("tool"))
		tool.free()
		require.Equal(t, `[]`, tool.expectValue())
		require.Equal(t, `[]`, c.listOwn())
		c.await("node/a:exclusive", 60)
		b.Send(b.locks, &messages.SetLockPauses{Incarnation: 1, Ids: []int64{1}})
		require.Equal(t, locks.AwaitResult{Withdrawn: true}, c.expectAwaitResult())
		require.NotContains(t, b.status(), livelock(1))
		require.Equal(t, b.status(), b.onDisk())
	})
}

// withhold pauses a job whose process is Ganeti's.
func (b *bench) withhold(id int64, number uint64) {
	b.Send(b.locks, &messages.SetLockPause{Id: id, Paused: true, Withhold: number})
	b.Settle()
}

// takeWithheld returns the withheld requests of which the scheduler was told since the last call.
func (b *bench) takeWithheld() (all []locks.Withheld) {
	for _, m := range b.sched.Unread() {
		all = append(all, m.(*locks.OwnersPublished).Withheld...)
	}
	return all
}

// isPending asks as Ganeti's process does.
func (c *caller) isPending() bool {
	c.Helper()
	c.call("hasPendingRequest", "["+c.owner+"]")
	return c.expectValue() == "true"
}

// The request of a paused job's process that does not ask the scheduler stays pending, whether it came before the pause or
// after. It blocks no other request. The scheduler is told. What does not wait is as without a pause.
func TestARequestThatIsWithheld(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, before, after, other := b.caller(job(1)), b.caller(job(2)), b.caller(job(3)), b.caller(job(4))
		holder.takeLocks("node/a:exclusive")
		before.update("node/a:exclusive")
		before.expectValue()
		b.sched.Unread()
		b.withhold(2, 7)
		require.Equal(t, []locks.Withheld{{Owner: jobOwner(2), Pause: 7}}, b.takeWithheld())
		b.withhold(3, 8)
		require.Empty(t, b.takeWithheld(), "it does not wait")
		after.call("tryUpdateLocks", `[`+after.owner+`,`+request("node/c:exclusive")+`]`) // its opcode runs
		require.Equal(t, "[]", after.expectValue())
		require.Equal(t, `[["node/c","exclusive"]]`, after.listOwn())
		after.free()
		require.Equal(t, "[]", after.expectValue())
		b.sched.Unread()
		after.update("cluster/BGL:shared")
		require.Equal(t, "["+job(3)+"]", after.expectValue(), "an empty list would say that it is granted")
		require.Equal(t, []locks.Withheld{{Owner: jobOwner(3), Pause: 8}}, b.takeWithheld())

		holder.free()
		holder.expectValue()
		b.Advance(time.Minute)
		require.True(t, before.isPending())
		require.True(t, after.isPending())
		other.takeLocks("cluster/BGL:exclusive") // nobody is in its way
		other.free()
		other.expectValue()
		require.Equal(t, b.status(), b.onDisk())
		require.Contains(t, b.onDisk(), livelock(2))

		b.port.takeCalls()
		b.sendLockPause(2, false)
		b.sendLockPause(3, false)
		require.Equal(t, []string{"wake " + livelock(2) + " 102", "wake " + livelock(3) + " 103"}, b.port.takeCalls("wake"))
		require.False(t, before.isPending())
		require.Equal(t, `[["node/a","exclusive"]]`, before.listOwn())
		require.Equal(t, b.status(), b.onDisk())

		after.free()
		after.expectValue()
		b.withhold(3, 9)
		after.update("cluster/BGL:shared")
		after.expectValue()
		b.Send(b.locks, &messages.JobCleanedUp{Id: 3}) // the job is no longer paused
		b.Settle()
		require.NotContains(t, b.status(), livelock(3))
		after.update("cluster/BGL:shared")
		require.Equal(t, "[]", after.expectValue())
	})
}

// A withheld request survives a restart of the lock manager, and is not granted meanwhile. Requests of other jobs are granted when
// it is known that they are not paused.
func TestAWithheldRequestOverARestart(t *testing.T) {
	waits := func(id int) string {
		return `{"owner":` + job(id) + `,"locks":[],"pending":[0,[["node/a","shared"]]]}` + "\n"
	}
	beforePauses(t, files("", waits(1)+waits(2)), func(b *bench) {
		paused, free := b.caller(job(1)), b.caller(job(2))
		require.True(t, paused.isPending())
		require.True(t, free.isPending())
		b.sched.Unread()
		b.port.takeCalls()
		b.Send(b.locks, &messages.SetLockPauses{Incarnation: 1, Withheld: []*messages.SetLockPause{{Id: 1, Paused: true, Withhold: 7}, {Id: 3, Paused: true, Withhold: 8}}})
		b.Settle()
		require.True(t, paused.isPending())
		require.Equal(t, []locks.Withheld{{Owner: jobOwner(1), Pause: 7}}, b.takeWithheld())
		require.Equal(t, []string{"wake " + livelock(2) + " 102"}, b.port.takeCalls("wake"))
		b.Send(b.locks, &messages.SetLockPauses{Incarnation: 1, Withheld: []*messages.SetLockPause{{Id: 3, Paused: true, Withhold: 8}}}) // of a restarted scheduler
		b.Settle()
		require.False(t, paused.isPending())
		require.Equal(t, b.status(), b.onDisk())
	})
}

func jobOwner(id int) lock.Owner { return lock.JobOwner(corejob.ID(id), livelock(id), 100+id) }
