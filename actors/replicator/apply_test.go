package replicator_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

func TestOneWhoFollowsAppliesWhatOthersPropose(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.log.commit(entry(elsewhere, "queue/job-7", "v1"), entry(elsewhere, "queue/job-7", "v2"), entry(elsewhere, "queue/serial", "10\n"))
		require.Equal(t, "v2", b.content("queue/job-7"))
		require.Equal(t, "10\n", b.content("queue/serial"))
		require.Len(t, b.disk.Calls("replace apply queue/job-7"), 1, "the first is written over at once")
		b.log.commit(renaming(elsewhere, "queue/job-7", "queue/archive/0/job-7"), removing(elsewhere, "queue/serial"))
		b.Settle()
		require.Equal(t, uint64(5), b.log.applied)
		require.Equal(t, "v2", b.content("queue/archive/0/job-7"))
		require.NotContains(t, b.disk.Names(), "queue/serial")
	})
}

// The log sends the next entries after Applied, and not before.
func TestEntriesAreAppliedWhenTheyAreOnTheDisk(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		block := b.disk.Block("replace apply queue/job-7")
		b.log.commit(entry(elsewhere, "queue/job-7", jobIn(7, job.Running)))
		block.Entered()
		b.Settle()
		require.Zero(t, b.log.applied)
		block.Release()
		b.Settle()
		require.Equal(t, uint64(1), b.log.applied)
		running, err := replication.DecodeRunningJobs(b.log.state)
		require.NoError(t, err)
		require.Equal(t, replication.RunningJobs{7: {Node: "u2", Progress: 2}}, running)
	})
}

// Committed entries are written until the disk accepts them. A master whose disk refuses
// them hands the leadership over.
func TestABatchThatTheDiskRefusesIsRetriedWhole(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.disk.Fail("replace apply queue/job-2", 2)
		one, two := b.write("queue/job-1", "one"), b.write("queue/job-2", "two")
		offers := b.log.take()
		b.log.commit(offers[0].entry, offers[1].entry)
		b.Settle()
		b.client.Quiet()
		b.client.Ask(b.replicator, &messages.GetNodes{Request: 1})
		require.Contains(t, kittest.Expect[*messages.GetNodesResult](b.client).Failure.Text, kittest.ErrDisk.Error())
		changes := b.log.taken()
		require.Len(t, changes, 1)
		require.Equal(t, messages.ChangeNodes_TRANSFER, changes[0].What)
		require.Empty(t, changes[0].Name)
		b.Send(b.replicator, &messages.LogChangeResult{Failure: noMajority}) // no request waits for it

		applied := b.log.applied
		three := b.write("queue/job-1", "three")
		b.log.commit(b.log.take()[0].entry)
		b.Advance(time.Minute) // and is refused once more
		b.Advance(time.Minute)
		b.written(one)
		b.written(two)
		b.written(three)
		require.Equal(t, "three", b.content("queue/job-1"))
		require.Equal(t, "two", b.content("queue/job-2"))
		require.Equal(t, applied+3, b.log.applied)
		b.client.Ask(b.replicator, &messages.GetNodes{Request: 2})
		require.Nil(t, kittest.Expect[*messages.GetNodesResult](b.client).Failure)
	})
}

func TestOneWhoFollowsAsksForNoTransferWhenItsDiskFails(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.disk.Fail("replace apply queue/job-2", 1)
		b.log.commit(entry(elsewhere, "queue/job-2", "two"))
		b.Advance(time.Minute)
		require.Equal(t, "two", b.content("queue/job-2"))
		require.Empty(t, b.log.taken())
	})
}

// After a crash exactly the entries that are not applied are repeated.
func TestACrashRepeatsWhatWasNotApplied(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.log.commit(entry(elsewhere, "queue/job-6", jobIn(6, job.Running)))
		b.Settle()
		block := b.disk.Block("replace apply queue/job-7")
		b.log.commit(entry(elsewhere, "queue/job-7", jobIn(7, job.Running)))
		block.Entered()
		b.Crash(b.replicator)
		block.Release()
		b.Advance(kittest.Backoff)
		require.Equal(t, uint64(2), b.log.applied)
		require.Len(t, b.disk.Calls("replace apply queue/job-6"), 1)
		require.Len(t, b.disk.Calls("replace apply queue/job-7"), 2)
		running, err := replication.DecodeRunningJobs(b.log.state)
		require.NoError(t, err)
		require.Equal(t, replication.RunningJobs{6: {Node: "u2", Progress: 2}, 7: {Node: "u2", Progress: 2}}, running, "the rest is known from before")
	})
}

// The file that a job process has written here is newer than the one in the log.
func TestObservedEntriesLeaveTheFileAlone(t *testing.T) {
	onBench(t, map[string]string{"queue/job-7": jobIn(7, job.Success)}, func(t *testing.T, b *bench) {
		observed := &messages.LogEntry{Origin: self.Node, Incarnation: self.Incarnation, Number: 1,
			Changes: []*messages.FileChange{replication.ObservedChange(paths.JobPath(7), []byte(jobIn(7, job.Running)))}}
		b.log.commit(observed)
		require.Equal(t, jobIn(7, job.Success), b.content("queue/job-7"))
		require.Empty(t, b.disk.Calls("replace"))
		require.Equal(t, uint64(1), b.log.applied)
	})
}

// A proposal of a former daemon of this node about a job is compared with the file.
func TestEntriesOfAFormerDaemonAreComparedWithTheFile(t *testing.T) {
	former := replication.Applier{Node: self.Node, Incarnation: "former"}
	kittest.Each(t, map[string]struct{ local, logged, want job.Status }{
		"the process went on":         {local: job.Success, logged: job.Running, want: job.Success},
		"the daemon has failed it":    {local: job.Running, logged: job.Error, want: job.Error},
		"both are final":              {local: job.Success, logged: job.Error, want: job.Success},
		"nothing has happened to it":  {local: job.Running, logged: job.Running, want: job.Running},
		"the log is a little behind":  {local: job.Running, logged: job.Waiting, want: job.Running},
		"the process has canceled it": {local: job.Canceled, logged: job.Running, want: job.Canceled},
	}, func(t *testing.T, e *kittest.Env, c struct{ local, logged, want job.Status }) {
		b := newBench(t, e, map[string]string{"queue/job-7": jobIn(7, c.local)})
		b.log.commit(entry(former, "queue/job-7", jobIn(7, c.logged)))
		require.Equal(t, jobIn(7, c.want), b.content("queue/job-7"))
		require.Len(t, b.disk.Calls("read apply queue/job-7"), 1)
	})
}

// A file that cannot be read is read again; it is not overwritten meanwhile.
func TestADoubtfulFileThatCannotBeReadIsReadAgain(t *testing.T) {
	onBench(t, map[string]string{"queue/job-7": jobIn(7, job.Success)}, func(t *testing.T, b *bench) {
		b.disk.Fail("read apply queue/job-7", 1)
		b.log.commit(entry(replication.Applier{Node: self.Node, Incarnation: "former"}, "queue/job-7", jobIn(7, job.Running)))
		b.Settle()
		require.Zero(t, b.log.applied)
		b.Advance(time.Minute)
		require.Equal(t, uint64(1), b.log.applied)
		require.Equal(t, jobIn(7, job.Success), b.content("queue/job-7"))
	})
}

func part(n uint64, last bool, files map[string]string) *messages.LogSnapshotReceived {
	m := &messages.LogSnapshotReceived{Part: n, Last: last, Index: 40}
	if n == 1 {
		m.State = replication.RunningJobs{8: {Node: "u2", Progress: 2}}.Encode()
	}
	for name, content := range files {
		m.Files = append(m.Files, &messages.FileWrite{Op: "restore", Path: name, Content: []byte(content)})
	}
	return m
}

func TestASnapshotTakesThePlaceOfEverything(t *testing.T) {
	files := map[string]string{"queue/job-7": "gone elsewhere", "queue/lockstep-7": "with it", "queue/drain": "", "queue/archive/0/job-1": "archived", "queue/lock": "ours", "locks.data": "ours"}
	onBench(t, files, func(t *testing.T, b *bench) {
		b.Send(b.replicator, part(1, false, map[string]string{"queue/serial": "20\n", "queue/job-8": "v1", "queue/lockstep-8": "r"}))
		b.Settle()
		require.Equal(t, []uint64{1}, b.log.restored)
		require.Contains(t, b.disk.Names(), "queue/job-7", "the rest of the snapshot may have it")
		b.Send(b.replicator, part(2, true, map[string]string{"queue/job-9": "v1"}))
		b.Settle()
		require.Equal(t, []uint64{1, 2}, b.log.restored)
		names := b.disk.Names()
		require.NotContains(t, names, "queue/job-7")
		require.NotContains(t, names, "queue/lockstep-7")
		require.NotContains(t, names, "queue/drain")
		for _, stays := range []string{"queue/archive/0/job-1", "queue/lock", "locks.data", "queue/job-8", "queue/job-9", "queue/lockstep-8"} {
			require.Contains(t, names, stays)
		}
		require.Equal(t, "20\n", b.content("queue/serial"))
		b.client.Ask(b.replicator, &messages.GetNodes{Request: 1})
		require.Equal(t, uint64(40), kittest.Expect[*messages.GetNodesResult](b.client).Applied)

		// The running jobs are those of the snapshot: another node has started job 8.
		require.Equal(t, replication.Fence.Milliseconds(), b.become().FenceMs)
	})
}

func TestAPartThatTheDiskRefusesIsTriedAgain(t *testing.T) {
	for name, call := range map[string]string{"writing": "replace restore queue/job-8", "listing": "list restore queue", "removing": "remove restore queue/job-7"} {
		t.Run(name, func(t *testing.T) {
			onBench(t, map[string]string{"queue/job-7": "gone elsewhere"}, func(t *testing.T, b *bench) {
				b.disk.Fail(call, 1)
				b.Send(b.replicator, part(1, true, map[string]string{"queue/serial": "20\n", "queue/job-8": "v1"}))
				b.Settle()
				require.Empty(t, b.log.restored)
				b.client.Ask(b.replicator, &messages.GetNodes{Request: 1})
				require.NotNil(t, kittest.Expect[*messages.GetNodesResult](b.client).Failure)
				b.Advance(time.Hour)
				require.Equal(t, []uint64{1}, b.log.restored)
				require.Equal(t, "v1", b.content("queue/job-8"))
				require.NotContains(t, b.disk.Names(), "queue/job-7")
				b.client.Ask(b.replicator, &messages.GetNodes{Request: 2})
				require.Nil(t, kittest.Expect[*messages.GetNodesResult](b.client).Failure)
			})
		})
	}
}

func TestACrashInTheMiddleOfASnapshotBeginsItAgain(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.Send(b.replicator, part(1, false, map[string]string{"queue/serial": "20\n", "queue/job-8": "v1"}))
		b.Settle()
		b.Restart(b.replicator)
		for n := range uint64(3) {
			b.Send(b.replicator, part(n+1, n == 2, map[string]string{"queue/serial": "20\n", "queue/job-" + strconv.Itoa(int(n)): "v1"}))
			b.Settle()
		}
		require.Equal(t, []uint64{1, 1, 2, 3}, b.log.restored)
		require.NotContains(t, b.disk.Names(), "queue/job-8", "it was in the first attempt only")
		require.Contains(t, b.disk.Names(), "queue/job-0")
	})
}

// If the disk refuses a part of a batch, the requester of another part that is on the
// disk receives no failure.
func TestARenameThatWasDoneIsNotMissingWhenItsBatchIsRetried(t *testing.T) {
	onMaster(t, map[string]string{"queue/job-7": "v1"}, func(t *testing.T, b *bench) {
		b.disk.Fail("replace apply queue/job-8", 1)
		move, write := b.move("queue/job-7", "queue/archive/0/job-7"), b.write("queue/job-8", "v1")
		offers := b.log.take()
		b.log.commit(offers[0].entry, offers[1].entry)
		b.Advance(time.Minute)
		b.written(move)
		b.written(write)
	})
}
