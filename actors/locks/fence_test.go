package locks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/messages"
)

const fence = 2 * time.Second

// behindFence runs a test with the lock manager of a new master, at the beginning of the
// fence.
func behindFence(t *testing.T, files map[string]string, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e, kittest.NewDisk(files))
		b.fence = fence
		b.start()
		f(t, b)
	})
}

// A job of the former master may use any lock, so no lock is granted.
func TestBehindTheFenceNothingIsGranted(t *testing.T) {
	for name, take := range map[string]func(*caller){
		"tryUpdateLocks": func(c *caller) { c.call("tryUpdateLocks", "["+c.owner+`,[["node/a","exclusive"]]]`) },
		"updateLocks":    func(c *caller) { c.update("node/a:exclusive") },
		"a choice":       func(c *caller) { c.call("opportunisticLockUnion", "["+c.owner+`,[["node/a","exclusive"]]]`) },
		"a long wait":    func(c *caller) { c.await("node/a:exclusive", 60) },
	} {
		t.Run(name, func(t *testing.T) {
			behindFence(t, nil, func(t *testing.T, b *bench) {
				tool := b.caller(named("tool"))
				take(tool)
				b.Settle()
				b.Advance(fence - time.Millisecond)
				tool.Quiet()
				b.told.Quiet()
				require.Zero(t, b.managerStatus().Owners, "how it stands is told at once")
				b.Advance(time.Millisecond)
				tool.expectValue()
				require.Equal(t, `[["node/a","exclusive"]]`, tool.listOwn())
			})
		})
	}
}

// A request that waits according to the files is not granted either.
func TestBehindTheFenceNobodyIsWoken(t *testing.T) {
	const waits = `{"owner":["tool","/live/tool",7],"locks":[],"pending":[0,[["node/a","exclusive"]]]}` + "\n"
	behindFence(t, files("", waits), func(t *testing.T, b *bench) {
		b.Advance(fence - time.Millisecond)
		require.Empty(t, b.port.takeCalls("wake", "watch"))
		b.Advance(time.Millisecond)
		require.Equal(t, []string{"wake /live/tool 7"}, b.port.takeCalls("wake"))
	})
}

// A crash does not move the end of the fence.
func TestTheFenceStandsAfterACrash(t *testing.T) {
	behindFence(t, nil, func(t *testing.T, b *bench) {
		tool := b.caller(named("tool"))
		over := b.Clock.Now().Add(fence)
		b.Restart(b.locks) // which takes some time
		tool.await("node/a:exclusive", 60)
		b.Settle()
		b.Advance(over.Sub(b.Clock.Now()) - time.Millisecond)
		tool.Quiet()
		b.Advance(time.Millisecond)
		require.True(t, tool.expectAwaitResult().Granted)
		require.EqualValues(t, 2, kittest.Expect[*messages.LocksStarted](b.told).Incarnation)
		b.told.Quiet()
		b.crash() // the fence has passed
		require.Contains(t, b.status(), "/live/tool")
	})
}

func TestDrainingBehindTheFence(t *testing.T) {
	behindFence(t, nil, func(t *testing.T, b *bench) {
		b.queue.Ask(b.locks, &messages.Drain{})
		kittest.Expect[*messages.DrainResult](b.queue)
	})
}
