package locks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/core/answer"
	"lockstep/messages"
)

// persist repeats a call after each LocksStarted until it is answered, as the gateway does.
func (c *caller) persist(function, args string) string {
	c.Helper()
	c.call(function, args)
	for range 10 {
		for _, m := range c.Unread() {
			if a := m.(*locks.OperateResult); a.Request == c.asked {
				require.Nil(c.bench, a.Failure)
				return string(locks.Encode(a.Value))
			}
		}
		c.awaitRestart()
		if len(c.told.Unread()) > 0 {
			c.number = c.asked - 1
			c.call(function, args)
		}
	}
	require.Fail(c.bench, "no answer", function)
	return ""
}

// awaitRestart waits until crashed actors have restarted.
func (b *bench) awaitRestart() { b.Advance(kittest.Backoff) }

// exercise uses everything that a lock manager does. Its outcome does not depend on
// crashes.
func exercise(b *bench) {
	b.queue.Answer(func(m any) any {
		if m, asked := m.(*messages.AwaitJobCleanup); asked {
			return &messages.JobCleanedUp{Id: m.Id}
		}
		return nil
	})
	one, two, tool, looker := b.caller(job(1)), b.caller(job(2)), b.caller(named("tool")), b.caller(named("looker"))
	one.persist("updateLocksWaiting", `[`+job(1)+`,0,`+request("cluster/BGL:shared node/a:exclusive")+`]`)
	two.persist("updateLocksWaiting", `[`+job(2)+`,0,`+request("node/a:shared")+`]`)
	two.persist("updateLocksWaiting", `[`+job(2)+`,0,`+request("node/a:shared")+`]`)
	tool.persist("tryUpdateLocks", `[`+named("tool")+`,`+request("node/b:exclusive")+`]`)
	one.persist("downGradeLocksLevel", `[`+job(1)+`,"node"]`)
	require.Equal(b, "false", two.persist("hasPendingRequest", `[`+job(2)+`]`))
	three := b.caller(job(3))
	args := `[` + job(3) + `,0,` + request("node/b:exclusive") + `,60]`
	three.call(locks.AwaitFunction, args)
	b.Settle()
	b.awaitRestart()
	b.port.dead["/live/tool"] = true
	b.Send(b.locks, &messages.OwnerDied{Livelock: "/live/tool"})
	b.Settle()
	b.awaitRestart() // if the message was lost, the next incarnation finds the dead owner
	if b.told.Unread(); len(three.Unread()) == 0 {
		require.Contains(b, three.persist(locks.AwaitFunction, args), `"granted":true`)
	}
	b.port.dead[livelock(1)] = true
	b.Send(b.locks, &messages.OwnerDied{Livelock: livelock(1)})
	b.Settle()
	b.awaitRestart()
	b.Send(b.locks, &messages.QueueStarted{}) // the queue sends it when it has lost the answer
	b.Settle()
	b.awaitRestart()
	looker.persist("cleanupLocks", "[]")
	b.awaitRestart()
	exerciseFreeLocks(b)
}

// exerciseFreeLocks ends with job 5 as the owner of lock/deploy and node/d.
func exerciseFreeLocks(b *bench) {
	four, five := b.caller(job(4)), b.caller(job(5))
	both := request("cluster/BGL:shared node/d:exclusive lock/deploy:exclusive")
	require.Contains(b, four.persist(locks.AwaitFunction, `[`+job(4)+`,0,`+both+`,60]`), `"granted":true`)
	args := `[` + job(5) + `,0,` + both + `,60]`
	five.call(locks.AwaitFunction, args)
	b.Settle()
	b.awaitRestart()
	four.persist("freeLocks", `[`+job(4)+`]`)
	b.awaitRestart()
	if b.told.Unread(); len(five.Unread()) == 0 {
		require.Contains(b, five.persist(locks.AwaitFunction, args), `"granted":true`)
	}
}

const afterALife = `[[["cluster/[lockset]",[]],["cluster/BGL",[[` + jobFive + `,"shared"]]],["node/[lockset]",[]],["node/a",[[` + jobTwo +
	`,"shared"]]],["node/b",[[` + jobThree + `,"exclusive"]]],["node/d",[[` + jobFive + `,"exclusive"]]]],[]]`
const (
	jobTwo   = `[2,"/live/job_000002_x",102]`
	jobThree = `[3,"/live/job_000003_x",103]`
	jobFive  = `[5,"/live/job_000005_x",105]`
)

// freeAfterALife is afterALife for the free locks.
var freeAfterALife = []answer.Lock{{Name: "lock/deploy", Mode: "exclusive", Owners: []string{"5"}, Pending: []answer.LockWaiter{}}}

// runExercise runs exercise with one panic.
func runExercise(t *testing.T, at kittest.DeliveryKind, nth int, when kittest.When) (delivered map[kittest.DeliveryKind]int, fired bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := kittest.New(t)
		b := newBench(t, e, kittest.NewDisk(nil))
		e.Panics.Arm(at, nth, when)
		b.start()
		b.awaitRestart()
		exercise(b)
		delivered, fired = e.Panics.Delivered(), e.Panics.Fired()
		e.Panics.Arm(kittest.DeliveryKind{}, 1, kittest.Before)
		require.Equal(t, afterALife, b.status())
		require.Equal(t, afterALife, b.onDisk())
		require.Equal(t, freeAfterALife, b.freeLocks())
		require.Equal(t, freeAfterALife, b.freeLocksOnDisk())
		require.Empty(t, b.managerStatus().Quarantined)
		require.Zero(t, b.managerStatus().Waiting)
	})
	return delivered, fired
}

// A crash at any message of the lock manager or the store loses nothing that was answered,
// and memory agrees with the disk.
func TestACrashAtEveryMessage(t *testing.T) {
	delivered, _ := runExercise(t, kittest.DeliveryKind{}, 1, kittest.Before)
	var places []kittest.DeliveryKind
	for at := range delivered {
		own := strings.HasPrefix(at.Message, "*messages.") || strings.HasPrefix(at.Message, "*locks.") || at.Message == "*actor.Started"
		if own && (at.Actor == "above-locks/locks" || strings.HasPrefix(at.Actor, "above-store/store")) {
			places = append(places, at)
		}
	}
	require.Greater(t, len(places), 8)
	slices.SortFunc(places, func(a, b kittest.DeliveryKind) int { return strings.Compare(a.String(), b.String()) })
	runs, fired := 0, 0
	for _, at := range places {
		for nth := 1; nth <= delivered[at]; nth++ {
			for _, when := range []kittest.When{kittest.Before, kittest.After} {
				ok := t.Run(fmt.Sprintf("%v %s nth=%d", at, when, nth), func(t *testing.T) {
					if _, hit := runExercise(t, at, nth, when); hit {
						fired++
					}
				})
				require.True(t, ok)
				runs++
			}
		}
	}
	t.Logf("%d places, %d of %d runs with a panic", len(places), fired, runs)
	require.Greater(t, fired, runs*9/10)
}

// A grant that was written before a crash is in force after it; no other owner has the
// lock.
func TestACrashBetweenTheWriteAndTheNews(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter := b.caller(job(1)), b.caller(job(2))
		holder.takeLocks("node/a:exclusive")
		waiter.await("node/a:exclusive", 60)
		b.Settle()
		b.Panics.Arm(kittest.DeliveryKind{Actor: "above-locks/locks", Message: "*messages.AccessStoreResult"}, 1, kittest.Before)
		holder.free()
		b.Settle()
		require.True(t, b.Panics.Fired())
		b.Advance(time.Second)
		kittest.Expect[*messages.LocksStarted](b.told)
		waiter.await("node/a:exclusive", 60)
		require.True(t, waiter.expectAwaitResult().Granted)
		holder.Quiet()
		require.Equal(t, "[]", holder.listOwn())
	})
}
