package locks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/locks"
	"lockstep/core/lock"
	"lockstep/messages"
)

func (c *caller) choose(count int, items string, seconds float64) {
	c.call(locks.AwaitUnionFunction, fmt.Sprintf(`[%d,%s,%s,%v]`, count, c.owner, request(items), seconds))
}

func exclusiveNodes(names ...string) []lock.Item {
	var items []lock.Item
	for _, name := range names {
		items = append(items, lock.Item{Lock: lock.Member(lock.Node, name), Mode: lock.Exclusive})
	}
	return items
}

const someNodes = "node/a:exclusive node/b:exclusive node/c:exclusive"

// As many as are free are granted at once. A call that is repeated gets the same, and no more.
func TestAChoiceIsGrantedAtOnce(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, c := b.caller(job(1)), b.caller(job(2))
		holder.takeLocks("node/b:exclusive")
		c.choose(2, someNodes, 60)
		granted := locks.AwaitResult{Granted: true, Locks: exclusiveNodes("a", "c")}
		require.Equal(t, granted, c.expectAwaitResult())
		holder.free()
		holder.expectValue()
		c.choose(2, someNodes, 60)
		require.Equal(t, granted, c.expectAwaitResult())
		require.Equal(t, b.status(), b.onDisk())
		_, more := b.Clock.Next()
		require.False(t, more)
	})
}

// The answer comes with the release that makes enough locks free, after the write.
func TestAChoiceIsGrantedLater(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		one, two, c := b.caller(job(1)), b.caller(job(2)), b.caller(job(3))
		one.takeLocks("node/a:shared")
		two.takeLocks("node/[lockset]:shared")
		c.choose(2, someNodes, 60)
		b.Advance(59 * time.Second)
		c.Quiet()
		require.JSONEq(t, `[]`, c.listOwn())
		c.call(listWaits, `[]`)
		require.Contains(t, c.expectValue(), `{"owner":`+job(3)+`,"priority":0,"request":[["node/a","exclusive"],["node/b","exclusive"],["node/c","exclusive"]],"blockers":[`+job(1)+`,`+job(2)+`]`)
		one.free()
		one.expectValue()
		c.Quiet()
		write := b.disk.Block("append locks")
		two.free()
		write.Entered()
		c.Quiet()
		write.Release()
		require.Equal(t, locks.AwaitResult{Granted: true, Locks: exclusiveNodes("a", "b", "c")}, takeAwaitResult(t, c))
		require.Equal(t, b.status(), b.onDisk())
		require.Empty(t, b.port.takeCalls("wake"))
	})
}

// takeAwaitResult is the answer to a call that is not the last one.
func takeAwaitResult(t *testing.T, c *caller) locks.AwaitResult {
	t.Helper()
	for _, m := range c.Unread() {
		if a, is := m.(*locks.OperateResult).Value.(locks.AwaitResult); is {
			return a
		}
	}
	t.Fatal("there is no answer")
	return locks.AwaitResult{}
}

// Requests for all of their locks come first. Among choices the first takes first, as many as are free.
func TestWhoGetsAChoice(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, plain, first, second := b.caller(job(1)), b.caller(job(2)), b.caller(job(3)), b.caller(job(4))
		holder.takeLocks(someNodes)
		first.choose(1, someNodes, 60)
		second.choose(1, someNodes, 60)
		plain.await("node/a:exclusive", 60)
		b.Settle()
		holder.free()
		require.True(t, plain.expectAwaitResult().Granted)
		require.Equal(t, exclusiveNodes("b", "c"), first.expectAwaitResult().Locks)
		second.Quiet()
		plain.free()
		require.Equal(t, exclusiveNodes("a"), second.expectAwaitResult().Locks)
	})
}

// After its time an owner waits no longer, and gets nothing of which nobody would hear.
func TestTheTimeOfAChoiceIsUp(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, c := b.caller(job(1)), b.caller(job(2))
		holder.takeLocks(someNodes)
		c.choose(1, someNodes, 1.5)
		b.Advance(1500 * time.Millisecond)
		require.Equal(t, locks.AwaitResult{Blockers: []lock.Owner{jobOne}}, c.expectAwaitResult())
		holder.free()
		holder.expectValue()
		require.Equal(t, "[]", c.listOwn())
		require.Equal(t, 0, b.managerStatus().Owners)
	})
}

// What ends the wait of an owner: its own release, a pause, its death. Its locks are free then.
func TestAChoiceIsWithdrawn(t *testing.T) {
	for name, end := range map[string]func(b *bench, c *caller){
		"a release": func(b *bench, c *caller) { b.caller(job(2)).free() },
		"a pause":   func(b *bench, c *caller) { b.sendLockPause(2, true) },
		"a death": func(b *bench, c *caller) {
			b.sendOwnerDied(livelock(2))
			b.Send(b.locks, &messages.JobCleanedUp{Id: 2})
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, nil, func(t *testing.T, b *bench) {
				holder, c := b.caller(job(1)), b.caller(job(2))
				holder.takeLocks(someNodes)
				c.choose(1, someNodes, 60)
				b.Settle()
				end(b, c)
				require.True(t, c.expectAwaitResult().Withdrawn)
				holder.free()
				holder.expectValue()
				require.Equal(t, "[[],[]]", b.status())
			})
		})
	}
}

// A named owner that dies while it waits gets nothing.
func TestAClientThatChoosesDies(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, c := b.caller(job(1)), b.caller(named("tool"))
		holder.takeLocks(someNodes)
		c.choose(1, someNodes, 60)
		b.Settle()
		b.sendOwnerDied("/live/tool")
		require.True(t, c.expectAwaitResult().Withdrawn)
		holder.free()
		holder.expectValue()
		require.Equal(t, "[[],[]]", b.status())
	})
}

// A client whose connection has ended asks on another one. The former call is answered without a grant, and the owner waits once.
func TestAChoiceIsAskedForAgain(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, former, c := b.caller(job(1)), b.caller(job(2)), b.caller(job(2))
		holder.takeLocks(someNodes)
		former.choose(1, someNodes, 60)
		b.Settle()
		c.choose(2, "node/a:exclusive node/b:exclusive", 60)
		require.Equal(t, locks.AwaitResult{Blockers: []lock.Owner{jobOne}}, former.expectAwaitResult())
		holder.free()
		require.Equal(t, exclusiveNodes("a", "b"), c.expectAwaitResult().Locks)
		former.Quiet()
	})
}

// After a crash of the lock manager the connection sends the call again.
func TestAChoiceOverACrash(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, c := b.caller(job(1)), b.caller(job(2))
		holder.takeLocks(someNodes)
		c.choose(1, someNodes, 60)
		b.Settle()
		b.crash()
		holder.free()
		holder.expectValue()
		c.Quiet()
		c.choose(1, someNodes, 60)
		require.Equal(t, exclusiveNodes("a", "b", "c"), c.expectAwaitResult().Locks)
	})
}

func TestAChoiceThatCannotBeWritten(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, c := b.caller(job(1)), b.caller(job(2))
		holder.takeLocks(someNodes)
		c.choose(1, someNodes, 60)
		b.Settle()
		b.disk.Fail("append locks", 1)
		holder.free()
		require.Contains(t, c.expectFailure(), "cannot be written")
	})
}

// A job that may be paused is told when the paused jobs are known.
func TestAChoiceBeforeThePausesAreKnown(t *testing.T) {
	beforePauses(t, nil, func(b *bench) {
		paused, free := b.caller(job(1)), b.caller(job(2))
		paused.choose(1, someNodes, 60)
		free.choose(1, "node/a:exclusive", 60)
		b.Settle()
		paused.Quiet()
		b.Send(b.locks, &messages.SetLockPauses{Incarnation: 1, Ids: []int64{1}})
		require.Equal(b, locks.AwaitResult{Withdrawn: true}, paused.expectAwaitResult())
		require.True(b, free.expectAwaitResult().Granted)
	})
}
