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
		require.Equal(t, fresh(t), b.readPublished())
	})
}

func TestWriteAll(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		other := with(t, fresh(t), maxJobs("5"), 7)
		write := b.disk.Block("sync")
		b.write(other)
		write.Entered()
		b.others.Quiet() // nothing is published before it is durable
		b.client.Quiet()
		require.Equal(t, fresh(t), b.readPublished())
		write.Release()
		require.Nil(t, b.expectResult(1))
		require.Equal(t, other, b.expectPublished())
		require.Equal(t, other, b.readPublished())
		require.Equal(t, other, b.disk.Content(paths.ConfigPath))
		b.locks.Quiet() // the client holds the lock
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
			f := b.expectResult(b.number)
			require.Equal(t, "ConfigurationError", f.GetClass())
			require.Contains(t, f.GetText(), text)
		}
		require.Equal(t, fresh(t), b.readPublished())
		b.others.Quiet()
		require.Empty(t, b.disk.Calls("replace"))
	})
}

// An edit waits for the lock, is written under it, and is answered when the lock is free.
func TestEdit(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		request := b.edit("7", "", "")
		call := b.expectLockCall(locks.AwaitFunction)
		b.Advance(30 * time.Second)
		require.Empty(t, b.disk.Calls("replace"))
		require.Equal(t, fresh(t), b.readPublished())
		b.answerLockCall(call, locks.AwaitResult{Granted: true}, nil)
		want := with(t, fresh(t), maxJobs("7"), epoch+30)
		require.Equal(t, want, b.disk.Content(paths.ConfigPath))
		require.Equal(t, want, b.expectPublished())
		b.client.Quiet()
		b.freeLock()
		require.Nil(t, b.expectResult(request))
		require.Contains(t, want, `"serial_no":2`)
		require.Contains(t, want, `"mtime":1704067230.000000`)
	})
}

func TestEditOfFilters(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for _, rule := range []string{`{"uuid":"f"}`, `{"uuid":"f","priority":2}`, ""} {
			request := b.edit("", "f", rule)
			b.grantLock()
			b.freeLock()
			require.Nil(t, b.expectResult(request))
			require.Equal(t, rule != "", strings.Contains(b.expectPublished(), `"filters":{"f"`))
		}
		for rule, text := range map[string]string{"": "There is no filter rule f", "nonsense": "invalid character"} {
			request := b.edit("", "f", rule)
			b.grantLock()
			b.freeLock()
			f := b.expectResult(request)
			require.Equal(t, messages.ClassGeneric, f.GetClass())
			require.Contains(t, f.GetText(), text)
		}
		b.others.Quiet()
	})
}

// Each edit changes the result of the one before, and takes the lock for itself.
func TestEditsQueue(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		one, two, three := b.edit("7", "", ""), b.edit("", "f", `{"uuid":"f"}`), b.edit("", "g", "")
		b.grantLock()
		b.freeLock()
		require.Nil(t, b.expectResult(one))
		b.grantLock()
		b.freeLock()
		require.Nil(t, b.expectResult(two))
		b.grantLock()
		b.freeLock()
		require.Contains(t, b.expectResult(three).GetText(), "no filter rule g")
		want := with(t, with(t, fresh(t), maxJobs("7"), epoch), config.ConfigChange{RuleUUID: "f", Rule: []byte(`{"uuid":"f"}`)}, epoch)
		require.Equal(t, want, b.readPublished())
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
			b.answerLockCall(b.expectLockCall(locks.AwaitFunction), answer.awaited, answer.failure)
			b.freeLock() // the request no longer waits
			require.Equal(t, text, b.expectResult(request).GetText())
			require.Equal(t, fresh(t), b.readPublished())
			require.Empty(t, b.disk.Calls("replace"))
		})
	}
}

// After a failed write the file is read and published, before another edit changes it.
func TestAWriteErrorIsReadBack(t *testing.T) {
	want := with(t, fresh(t), maxJobs("7"), epoch)
	for failing, left := range map[string]string{"replace config": fresh(t), "sync": want} {
		onBench(t, func(t *testing.T, b *bench) {
			b.disk.Fail(failing, 1)
			reading := b.disk.Block("read config")
			one, two := b.edit("7", "", ""), b.edit("", "f", `{"uuid":"f"}`)
			b.grantLock()
			reading.Entered()
			b.client.Quiet()
			b.locks.Quiet()
			reading.Release()
			require.Equal(t, left, b.expectPublished())
			b.freeLock()
			require.Contains(t, b.expectResult(one).GetText(), "the disk says no")
			b.grantLock()
			require.Equal(t, with(t, left, config.ConfigChange{RuleUUID: "f", Rule: []byte(`{"uuid":"f"}`)}, epoch), b.expectPublished())
			b.freeLock()
			require.Nil(t, b.expectResult(two))
		})
	}
}

// The same holds for a whole configuration. If the file cannot be read either, the former
// content stays in force.
func TestAWriteErrorThatCannotBeReadBack(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.disk.Fail("replace config", 1)
		b.disk.Fail("read config", 1)
		b.write(with(t, fresh(t), maxJobs("7"), 1))
		require.Contains(t, b.expectResult(1).GetText(), "the disk says no")
		require.Equal(t, fresh(t), b.readPublished())
		b.others.Quiet()
		b.write(with(t, fresh(t), maxJobs("8"), 1))
		require.Nil(t, b.expectResult(3))
	})
}

// A file that is unusable at the start is read until it is usable. Requests wait meanwhile.
func TestAFileThatCannotBeUsed(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e, nil)
		b.freeLock()
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
		require.Equal(t, fresh(t), b.expectPublished())
		require.Equal(t, uint64(99), kittest.Expect[*messages.ConfigPublished](b.client).Request)
		b.grantLock()
		b.freeLock()
		require.Nil(t, b.expectResult(request))
		require.Len(t, b.Logged("configuration file cannot be used; reading it again"), 3)
	})
}

// A call that the lock manager has lost is repeated with the same number.
func TestTheLockManagerRestarts(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.Send(b.cluster, &messages.LocksStarted{Incarnation: 2})
		b.locks.Quiet() // no call is open
		request := b.edit("7", "", "")
		lost := b.expectLockCall(locks.AwaitFunction)
		b.Send(b.cluster, &messages.LocksStarted{Incarnation: 3})
		again := b.expectLockCall(locks.AwaitFunction)
		require.Equal(t, lost.Request, again.Request)
		b.answerLockCall(again, locks.AwaitResult{Granted: true}, nil)
		lost = b.expectLockCall("freeLocks")
		b.Send(b.cluster, &messages.LocksStarted{Incarnation: 4})
		again = b.expectLockCall("freeLocks")
		b.answerLockCall(again, []any{}, nil)
		require.Nil(t, b.expectResult(request))
		b.answerLockCall(lost, []any{}, nil) // a repeated answer
		b.answerLockCall(&locks.Call{Request: 12345}, []any{}, nil)
		require.Len(t, b.disk.Calls("replace"), 1)
		b.client.Quiet()
		b.locks.Quiet()
	})
}

// If freeing the lock fails, it is repeated after LocksStarted, because others wait for the
// lock.
func TestALockThatCannotBeGivenBack(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		request := b.edit("7", "", "")
		b.grantLock()
		b.answerLockCall(b.expectLockCall("freeLocks"), nil, noLocks)
		require.Nil(t, b.expectResult(request)) // the client has its answer nevertheless
		b.locks.Quiet()
		b.Send(b.cluster, &messages.LocksStarted{Incarnation: 1})
		b.freeLock()
		b.Send(b.cluster, &messages.LocksStarted{Incarnation: 1})
		b.locks.Quiet()
	})
}

// The next edit takes the lock that is still held.
func TestAnEditAfterALockThatCannotBeGivenBack(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		one, two := b.edit("7", "", ""), b.edit("8", "", "")
		b.grantLock()
		b.answerLockCall(b.expectLockCall("freeLocks"), nil, noLocks)
		require.Nil(t, b.expectResult(one))
		b.grantLock()
		b.freeLock()
		require.Nil(t, b.expectResult(two))
		b.Send(b.cluster, &messages.LocksStarted{Incarnation: 1})
		b.locks.Quiet()
	})
}

// A new incarnation has no edits. It reads the file, frees the lock that a former
// incarnation may hold, and then takes edits.
func TestARestart(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.edit("7", "", "")
		former := b.expectLockCall(locks.AwaitFunction)
		b.edit("8", "", "")
		b.Restart(b.cluster)
		require.Equal(t, fresh(t), b.expectPublished())
		free := b.expectLockCall("freeLocks")
		b.answerLockCall(former, locks.AwaitResult{Granted: true}, nil) // for the former incarnation
		require.Empty(t, b.disk.Calls("replace"))
		request := b.edit("9", "", "")
		b.locks.Quiet() // before the lock is free
		b.answerLockCall(free, []any{}, nil)
		b.grantLock()
		b.freeLock()
		require.Nil(t, b.expectResult(request))
		require.Equal(t, with(t, fresh(t), maxJobs("9"), epoch+1), b.readPublished())
		b.client.Quiet()
	})
}

// After a crash at any message of an edit, the file has the former or the new content, and
// the lock is free.
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
					b.Panics.Arm(kittest.DeliveryKind{}, 1, when) // disarmed
					b.client.Unread()
					require.Equal(t, b.disk.Content(paths.ConfigPath), b.readPublished())
					request := b.edit("8", "", "")
					require.Nil(t, b.expectResult(request))
					require.Contains(t, b.disk.Content(paths.ConfigPath), `"max_running_jobs":8`)
					b.others.Unread()
				})
			}
		}
	}
}
