package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/core/config"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
)

const epoch = 1704067200.0 // of the test's clock

func maxJobs(jobs string) config.ConfigChange {
	return config.ConfigChange{Cluster: map[string][]byte{"max_running_jobs": []byte(jobs)}}
}

var noLocks = messages.GenericFailure("no lock today")

func TestRead(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		require.Equal(t, fresh(t), b.read())
	})
}

func TestWriteAll(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		other := with(t, fresh(t), maxJobs("5"), 7)
		write := b.disk.Block("sync")
		b.write(other)
		write.Entered()
		b.others.Quiet() // nobody hears of what is not durable
		b.client.Quiet()
		require.Equal(t, fresh(t), b.read())
		write.Release()
		require.Nil(t, b.written(1))
		require.Equal(t, other, b.told())
		require.Equal(t, other, b.read())
		require.Equal(t, other, b.disk.Content(paths.ConfigPath))
		b.locks.Quiet() // whoever writes all of it has the lock
	})
}

func TestWriteOfWhatCannotBeUsed(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for text, content := range map[string]string{
			"not a cluster configuration": "{}",
			"max_running_jobs is 0":       strings.Replace(fresh(t), `"max_running_jobs":20`, `"max_running_jobs":0`, 1),
			"is not among the nodes":      strings.Replace(fresh(t), `"master_node":"n"`, `"master_node":""`, 1),
		} {
			b.write(content)
			f := b.written(b.number)
			require.Equal(t, "ConfigurationError", f.GetClass())
			require.Contains(t, f.GetText(), text)
		}
		require.Equal(t, fresh(t), b.read())
		b.others.Quiet()
		require.Empty(t, b.disk.Calls("replace"))
	})
}

// An edit waits for the lock, is written under it, and answered when it is free.
func TestEdit(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		request := b.edit("7", "", "")
		call := b.asked(locks.AwaitFunction)
		b.Advance(30 * time.Second)
		require.Empty(t, b.disk.Calls("replace"))
		require.Equal(t, fresh(t), b.read())
		b.answer(call, locks.AwaitResult{Granted: true}, nil)
		want := with(t, fresh(t), maxJobs("7"), epoch+30)
		require.Equal(t, want, b.disk.Content(paths.ConfigPath))
		require.Equal(t, want, b.told())
		b.client.Quiet()
		b.freed()
		require.Nil(t, b.written(request))
		require.Contains(t, want, `"serial_no":2`)
		require.Contains(t, want, `"mtime":1704067230.000000`)
	})
}

func TestEditOfFilters(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for _, rule := range []string{`{"uuid":"f"}`, `{"uuid":"f","priority":2}`, ""} {
			request := b.edit("", "f", rule)
			b.granted()
			b.freed()
			require.Nil(t, b.written(request))
			require.Equal(t, rule != "", strings.Contains(b.told(), `"filters":{"f"`))
		}
		for rule, text := range map[string]string{"": "There is no filter rule f", "nonsense": "invalid character"} {
			request := b.edit("", "f", rule)
			b.granted()
			b.freed()
			f := b.written(request)
			require.Equal(t, messages.ClassGeneric, f.GetClass())
			require.Contains(t, f.GetText(), text)
		}
		b.others.Quiet()
	})
}

// Each edit builds upon the one before, and has the lock for itself.
func TestEditsQueue(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		one, two, three := b.edit("7", "", ""), b.edit("", "f", `{"uuid":"f"}`), b.edit("", "g", "")
		b.granted()
		b.freed()
		require.Nil(t, b.written(one))
		b.granted()
		b.freed()
		require.Nil(t, b.written(two))
		b.granted()
		b.freed()
		require.Contains(t, b.written(three).GetText(), "no filter rule g")
		want := with(t, with(t, fresh(t), maxJobs("7"), epoch), config.ConfigChange{RuleUUID: "f", Rule: []byte(`{"uuid":"f"}`)}, epoch)
		require.Equal(t, want, b.read())
		require.Equal(t, want, b.disk.Content(paths.ConfigPath))
		b.locks.Quiet()
	})
}

func TestEditThatDoesNotGetTheLock(t *testing.T) {
	holder := lock.JobOwner(3, "/live/3", 33)
	for text, answer := range map[string]struct {
		awaited locks.AwaitResult
		failure *messages.Failure
	}{
		"The configuration is locked by [" + holder.String() + "]; try again": {awaited: locks.AwaitResult{Blockers: []lock.Owner{holder}}},
		"The configuration is locked by []; try again":                        {awaited: locks.AwaitResult{Withdrawn: true}},
		"no lock today": {failure: noLocks},
	} {
		onBench(t, func(t *testing.T, b *bench) {
			request := b.edit("7", "", "")
			b.answer(b.asked(locks.AwaitFunction), answer.awaited, answer.failure)
			b.freed() // it waits no more
			require.Equal(t, text, b.written(request).GetText())
			require.Equal(t, fresh(t), b.read())
			require.Empty(t, b.disk.Calls("replace"))
		})
	}
}

// What a failed write has left is read back, and everybody hears of it: nothing
// else is built on anything else.
func TestAWriteErrorIsReadBack(t *testing.T) {
	want := with(t, fresh(t), maxJobs("7"), epoch)
	for failing, left := range map[string]string{"replace config": fresh(t), "sync": want} {
		onBench(t, func(t *testing.T, b *bench) {
			b.disk.Fail(failing, 1)
			reading := b.disk.Block("read config")
			one, two := b.edit("7", "", ""), b.edit("", "f", `{"uuid":"f"}`)
			b.granted()
			reading.Entered()
			b.client.Quiet()
			b.locks.Quiet()
			reading.Release()
			require.Equal(t, left, b.told())
			b.freed()
			require.Contains(t, b.written(one).GetText(), "the disk says no")
			b.granted()
			require.Equal(t, with(t, left, config.ConfigChange{RuleUUID: "f", Rule: []byte(`{"uuid":"f"}`)}, epoch), b.told())
			b.freed()
			require.Nil(t, b.written(two))
		})
	}
}

// The same for a whole one; if it cannot be read either, it is what it was.
func TestAWriteErrorThatCannotBeReadBack(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.disk.Fail("replace config", 1)
		b.disk.Fail("read config", 1)
		b.write(with(t, fresh(t), maxJobs("7"), 1))
		require.Contains(t, b.written(1).GetText(), "the disk says no")
		require.Equal(t, fresh(t), b.read())
		b.others.Quiet()
		b.write(with(t, fresh(t), maxJobs("8"), 1))
		require.Nil(t, b.written(3))
	})
}

// A file that cannot be used at the start is read until it is mended; what comes
// meanwhile waits.
func TestAFileThatCannotBeUsed(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e, nil)
		b.freed()
		b.client.Ask(b.cluster, &messages.PublishConfig{Request: 99})
		request := b.edit("7", "", "")
		b.client.Quiet()
		require.NoError(t, b.disk.Replace("spoil", paths.ConfigPath, []byte("{")))
		b.Advance(100 * time.Millisecond)
		b.disk.Fail("read config", 1)
		b.Advance(200 * time.Millisecond)
		b.client.Quiet()
		b.locks.Quiet()
		require.NoError(t, b.disk.Replace("mend", paths.ConfigPath, []byte(fresh(t))))
		b.Advance(400 * time.Millisecond)
		require.Equal(t, fresh(t), b.told())
		require.Equal(t, uint64(99), kittest.Expect[*messages.ConfigPublished](b.client).Request)
		b.granted()
		b.freed()
		require.Nil(t, b.written(request))
		require.Len(t, b.Logged("configuration file cannot be used; reading it again"), 3)
	})
}

// A call that the lock manager has lost is made again, with the same number.
func TestTheLockManagerRestarts(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.Send(b.cluster, &messages.LocksStarted{Incarnation: 2})
		b.locks.Quiet() // nothing is open
		request := b.edit("7", "", "")
		lost := b.asked(locks.AwaitFunction)
		b.Send(b.cluster, &messages.LocksStarted{Incarnation: 3})
		again := b.asked(locks.AwaitFunction)
		require.Equal(t, lost.Request, again.Request)
		b.answer(again, locks.AwaitResult{Granted: true}, nil)
		lost = b.asked("freeLocks")
		b.Send(b.cluster, &messages.LocksStarted{Incarnation: 4})
		again = b.asked("freeLocks")
		b.answer(again, []any{}, nil)
		require.Nil(t, b.written(request))
		b.answer(lost, []any{}, nil) // a second answer
		b.answer(&locks.Call{Request: 12345}, []any{}, nil)
		require.Len(t, b.disk.Calls("replace"), 1)
		b.client.Quiet()
		b.locks.Quiet()
	})
}

// A lock that could not be given back is given back when the lock manager can
// write again: others wait for it.
func TestALockThatCannotBeGivenBack(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		request := b.edit("7", "", "")
		b.granted()
		b.answer(b.asked("freeLocks"), nil, noLocks)
		require.Nil(t, b.written(request)) // that is none of the client's business
		b.locks.Quiet()
		b.Send(b.cluster, &messages.LocksStarted{Incarnation: 1})
		b.freed()
		b.Send(b.cluster, &messages.LocksStarted{Incarnation: 1})
		b.locks.Quiet()
	})
}

// The next edit asks for what is held already.
func TestAnEditAfterALockThatCannotBeGivenBack(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		one, two := b.edit("7", "", ""), b.edit("8", "", "")
		b.granted()
		b.answer(b.asked("freeLocks"), nil, noLocks)
		require.Nil(t, b.written(one))
		b.granted()
		b.freed()
		require.Nil(t, b.written(two))
		b.Send(b.cluster, &messages.LocksStarted{Incarnation: 1})
		b.locks.Quiet()
	})
}

// A new incarnation knows nothing of edits, reads the file, and gives back the
// lock that a former one may have had; then it takes edits.
func TestARestart(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.edit("7", "", "")
		former := b.asked(locks.AwaitFunction)
		b.edit("8", "", "")
		b.Restart(b.cluster)
		require.Equal(t, fresh(t), b.told())
		free := b.asked("freeLocks")
		b.answer(former, locks.AwaitResult{Granted: true}, nil) // meant for the former
		require.Empty(t, b.disk.Calls("replace"))
		request := b.edit("9", "", "")
		b.locks.Quiet() // not before the lock is free
		b.answer(free, []any{}, nil)
		b.granted()
		b.freed()
		require.Nil(t, b.written(request))
		require.Equal(t, with(t, fresh(t), maxJobs("9"), epoch+1), b.read())
		b.client.Quiet()
	})
}

// A crash at any message of an edit leaves the file as it was or as it shall be,
// and the lock free.
func TestACrashInTheMiddleOfAnEdit(t *testing.T) {
	for _, message := range []string{"*messages.EditConfig", "*locks.CallResult", "*messages.AccessStoreResult"} {
		for nth := 1; nth <= 2; nth++ {
			for _, when := range []kittest.When{kittest.Before, kittest.After} {
				onBench(t, func(t *testing.T, b *bench) {
					b.locks.Answer(func(m any) any {
						c := m.(*locks.Call)
						if _, waits := c.Operation.(locks.Await); waits {
							return &locks.CallResult{Request: c.Request, Value: locks.AwaitResult{Granted: true}}
						}
						return &locks.CallResult{Request: c.Request, Value: []any{}}
					})
					b.Panics.Arm(kittest.DeliveryKind{Actor: "above-cluster/cluster", Message: message}, nth, when)
					b.edit("7", "", "")
					b.Settle()
					b.Advance(kittest.Backoff)
					b.Panics.Arm(kittest.DeliveryKind{}, 1, when) // no more
					b.client.Unread()
					require.Equal(t, b.disk.Content(paths.ConfigPath), b.read())
					request := b.edit("8", "", "")
					require.Nil(t, b.written(request))
					require.Contains(t, b.disk.Content(paths.ConfigPath), `"max_running_jobs":8`)
					b.others.Unread()
				})
			}
		}
	}
}
