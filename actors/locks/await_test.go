package locks_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/core/lock"
	"lockstep/messages"
)

func toJSON(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

var jobOne = lock.JobOwner(1, livelock(1), 101)

func TestAwaitIsGrantedAtOnce(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c := b.caller(job(1))
		c.await("node/a:exclusive", 60)
		require.True(t, c.expectAwaitResult().Granted)
		c.await("node/a:exclusive", 60)
		require.True(t, c.expectAwaitResult().Granted) // the call was repeated
		_, more := b.Clock.Next()
		require.False(t, more)
	})
}

func TestAwaitIsGrantedLater(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter := b.caller(job(1)), b.caller(job(2))
		holder.takeLocks("node/a:exclusive")
		waiter.await("node/a:exclusive", 60)
		b.Advance(59 * time.Second)
		waiter.Quiet()
		write := b.disk.Block("append locks")
		holder.free()
		write.Entered()
		b.Advance(time.Minute) // the timer of a granted call has no effect
		waiter.Quiet()
		write.Release()
		require.Equal(t, locks.AwaitResult{Granted: true}, waiter.expectAwaitResult())
		require.Empty(t, b.port.takeCalls("wake"))
	})
}

func TestAwaitTimesOut(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter := b.caller(job(1)), b.caller(job(2))
		holder.takeLocks("node/a:exclusive")
		waiter.await("node/a:exclusive", 1.5)
		b.Advance(1500*time.Millisecond - 1)
		waiter.Quiet()
		b.Advance(1)
		require.Equal(t, locks.AwaitResult{Blockers: []lock.Owner{jobOne}}, waiter.expectAwaitResult())
		waiter.call("hasPendingRequest", "["+job(2)+"]")
		require.Equal(t, "true", waiter.expectValue()) // it still waits
		holder.free()
		holder.expectValue()
		require.Equal(t, []string{"wake /live/job_000002_x 102"}, b.port.takeCalls("wake"))
	})
}

// A client that wants to wait longer than the maximum is answered, repeats its call and
// keeps its place.
func TestAwaitIsBounded(t *testing.T) {
	for wait, seconds := range map[time.Duration]float64{0: -5, 10 * time.Minute: 1e300} {
		onBench(t, nil, func(t *testing.T, b *bench) {
			holder, waiter := b.caller(job(1)), b.caller(job(2))
			holder.takeLocks("node/a:exclusive")
			waiter.await("node/a:exclusive", seconds)
			b.Settle()
			next, _ := b.Clock.Next()
			require.Equal(t, wait, next)
			b.Advance(wait)
			require.False(t, waiter.expectAwaitResult().Granted)
		})
	}
}

// The answer after the timeout says that the request waits, so the request must be on the
// disk by then.
func TestAwaitTimesOutAfterTheWrite(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter := b.caller(job(1)), b.caller(job(2))
		holder.takeLocks("node/a:exclusive")
		write := b.disk.Block("append locks")
		waiter.await("node/a:exclusive", 0)
		write.Entered()
		b.Advance(time.Second)
		waiter.Quiet()
		b.disk.Fail("append locks", 1)
		write.Release()
		require.Contains(t, waiter.expectFailure(), "cannot be written")
	})
}

func TestAwaitIsWithdrawn(t *testing.T) {
	for _, function := range []string{"freeLocks", "freeLocksLevel"} {
		onBench(t, nil, func(t *testing.T, b *bench) {
			holder, waiter, other := b.caller(job(1)), b.caller(job(2)), b.caller(job(2))
			holder.takeLocks("node/a:exclusive")
			waiter.await("node/a:exclusive", 60)
			args := "[" + job(2) + "]"
			if function == "freeLocksLevel" {
				args = "[" + job(2) + `,"cluster"]` // whatever level it is for
			}
			write := b.disk.Block("append locks")
			b.Settle()
			other.call(function, args)
			write.Entered()
			write.Release()
			b.Settle()
			other.expectValue()
			require.Equal(t, locks.AwaitResult{Withdrawn: true}, waiter.expectAwaitResult())
			_, more := b.Clock.Next()
			require.False(t, more)
		})
	}
}

// A client that repeats its call on another connection keeps its place; the former call is
// answered.
func TestAwaitAgainOnAnotherConnection(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, former, next, late := b.caller(job(1)), b.caller(job(5)), b.caller(job(5)), b.caller(job(6))
		holder.takeLocks("node/a:exclusive")
		former.await("node/a:exclusive", 60)
		late.await("node/a:exclusive", 60)
		b.Advance(30 * time.Second)
		next.await("node/a:exclusive", 60)
		require.Equal(t, locks.AwaitResult{Blockers: []lock.Owner{jobOne}}, former.expectAwaitResult())
		b.Advance(40 * time.Second) // the timer of the former call has no effect
		require.False(t, late.expectAwaitResult().Granted)
		next.Quiet()
		holder.free()
		require.True(t, next.expectAwaitResult().Granted)
		former.Quiet()
		late.Quiet()
	})
}

// A call that is repeated with its number after LocksStarted has one answer.
func TestAwaitSentTwice(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter := b.caller(job(1)), b.caller(job(2))
		holder.takeLocks("node/a:exclusive")
		waiter.await("node/a:exclusive", 60)
		b.number--
		waiter.await("node/a:exclusive", 60)
		waiter.Quiet()
		holder.free()
		require.True(t, waiter.expectAwaitResult().Granted)
		waiter.Quiet()
	})
}

func TestAwaitAnotherRequestWhilePending(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter, other := b.caller(job(1)), b.caller(job(2)), b.caller(job(2))
		holder.takeLocks("node/a:exclusive")
		waiter.await("node/a:exclusive", 60)
		before := b.status()
		other.await("node/b:exclusive", 60)
		require.Equal(t, "cannot update locks while having pending requests", other.expectFailure())
		require.Equal(t, before, b.status())
		holder.free()
		require.True(t, waiter.expectAwaitResult().Granted)
	})
}

// A client that waits through a restart repeats its call and keeps its place.
func TestAwaitThroughARestart(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter := b.caller(job(1)), b.caller(job(2))
		holder.takeLocks("node/a:exclusive")
		waiter.await("node/a:exclusive", 60)
		b.Settle()
		before := b.status()
		b.crash()
		waiter.Quiet()
		waiter.await("node/a:exclusive", 60)
		require.Equal(t, before, b.status())
		b.Advance(59 * time.Second) // a timer of the former incarnation has expired
		waiter.Quiet()
		holder.free()
		require.True(t, waiter.expectAwaitResult().Granted)
	})
}

// Calls that come while the files are read are answered later.
func TestCallsBeforeTheFilesAreRead(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e, kittest.NewDisk(files(`[[[`+job(1)+`,[["node/a","exclusive"]]]],[]]`)))
		reading := b.disk.Block("read locks locks.journal")
		b.start()
		reading.Entered()
		c := b.caller(job(2))
		c.update("node/a:exclusive")
		b.queue.Ask(b.locks, &messages.JobCleanedUp{Id: 3})
		c.Quiet()
		b.told.Quiet()
		reading.Release()
		require.JSONEq(t, "["+job(1)+"]", c.expectValue())
		kittest.Expect[*messages.LocksStarted](b.told)
	})
}
