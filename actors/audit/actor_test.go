package audit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/audit"
	"lockstep/actors/features"
	"lockstep/actors/kittest"
	"lockstep/actors/store"
	coreaudit "lockstep/core/audit"
	"lockstep/core/paths"
	"lockstep/core/replication"
)

type bench struct {
	*testing.T
	*kittest.Env
	disk   *kittest.Disk
	client *kittest.Probe
	pid    *actor.PID
	last   uint64
}

// newDisk makes a disk with these files, and the directory of the log.
func newDisk(files map[string]string) *kittest.Disk {
	d := kittest.NewDisk(files)
	d.MakeDir(paths.AuditDir)
	return d
}

func onBench(t *testing.T, files map[string]string, f func(*bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, disk: newDisk(files), client: e.Probe("client")}
		pid := e.Start("store", store.Props(store.Config{Env: e.Env, Files: b.disk, Writers: 4, Clients: []*actor.PID{e.PID("above-audit/audit")}}))
		b.pid = e.Start("audit", audit.Props(audit.Config{Env: e.Env, Store: pid, Clients: []*actor.PID{b.client.PID}}))
		kittest.Expect[*audit.Started](b.client)
		f(b)
	})
}

func cancel(job int) coreaudit.Entry {
	return coreaudit.Entry{User: "alice", Key: "uid=1000", Method: "CancelJob", What: fmt.Sprint("cancel job ", job)}
}

// send sends a Record, and returns its number.
func (b *bench) send(e coreaudit.Entry, required bool) uint64 {
	b.last++
	b.client.Ask(b.pid, &audit.Record{Request: b.last, Entry: e, Required: required})
	return b.last
}

func (b *bench) record(e coreaudit.Entry, required bool) *audit.Recorded {
	b.Helper()
	number := b.send(e, required)
	b.Settle()
	m := kittest.Expect[*audit.Recorded](b.client)
	require.Equal(b, number, m.Request)
	return m
}

func (b *bench) look(after uint64, wait time.Duration) {
	b.last++
	b.client.Ask(b.pid, &audit.Look{Request: b.last, After: after, Until: b.Clock.Now().Add(wait)})
	b.Settle()
}

// entries are those on the disk.
func (b *bench) entries() (all []coreaudit.Entry) {
	b.Helper()
	for _, name := range b.disk.Names() {
		if first, ok := paths.ParseAuditPath(name); ok {
			entries, err := coreaudit.Decode(first, []byte(b.disk.Content(name)))
			require.NoError(b, err)
			all = append(all, entries...)
		}
	}
	return all
}

func (b *bench) whats() (all []string) {
	for _, e := range b.entries() {
		all = append(all, e.What)
	}
	return all
}

// An entry that a connection was told of is on the disk, and stays there over a crash of the actor. Numbers and times are the actor's.
func TestAnEntryIsOnTheDiskBeforeItsAnswer(t *testing.T) {
	onBench(t, nil, func(b *bench) {
		block := b.disk.Block("replace audit audit/audit-1")
		b.send(cancel(1), true)
		block.Entered()
		b.client.Quiet()
		block.Release()
		b.Settle()
		require.Nil(b, kittest.Expect[*audit.Recorded](b.client).Failure)
		e := cancel(2)
		e.Number, e.Time = 77, time.Time{}
		require.Nil(b, b.record(e, true).Failure)
		require.Equal(b, []string{"cancel job 1", "cancel job 2"}, b.whats())
		require.Equal(b, uint64(2), b.entries()[1].Number)
		require.WithinDuration(b, b.Clock.Now(), b.entries()[1].Time, time.Second)
	})
}

// Entries that come during a write are written together: a burst costs two writes.
func TestABurstIsWrittenTogether(t *testing.T) {
	onBench(t, nil, func(b *bench) {
		block := b.disk.Block("replace audit audit/audit-1")
		b.send(cancel(1), true)
		block.Entered()
		for i := range 100 {
			b.send(cancel(2+i), true)
		}
		block.Release()
		b.Settle()
		for number := range uint64(101) {
			require.Equal(b, number+1, kittest.Expect[*audit.Recorded](b.client).Request)
		}
		require.Len(b, b.disk.Calls("replace audit audit/audit-1"), 2)
		require.Len(b, b.entries(), 101)
	})
}

// A full file is followed by another, and the oldest files are removed.
func TestTheNewestFilesAreKept(t *testing.T) {
	files := map[string]string{}
	for first := uint64(1); first <= coreaudit.FilesMax; first++ {
		f, _ := coreaudit.NewFile(first).Add(cancel(1))
		files[paths.AuditPath(first)] = string(f.Content)
	}
	onBench(t, files, func(b *bench) {
		e := cancel(1)
		e.What = strings.Repeat("long ", 150)
		for range coreaudit.FileMax / 700 {
			require.Nil(b, b.record(e, true).Failure)
		}
		b.look(0, 0)
		look := kittest.Expect[*audit.LookResult](b.client)
		require.Len(b, look.Files, coreaudit.FilesMax)
		require.Equal(b, uint64(2), look.Files[0])
		require.Empty(b, b.disk.Content(paths.AuditPath(1)))
		newest := b.disk.Content(paths.AuditPath(look.Files[len(look.Files)-1]))
		require.NotEmpty(b, newest)
		require.LessOrEqual(b, len(b.disk.Content(paths.AuditPath(coreaudit.FilesMax))), coreaudit.FileMax)
	})
}

// The next incarnation goes on where the files end.
func TestTheLogGoesOnAfterARestart(t *testing.T) {
	f, _ := coreaudit.NewFile(7).Add(cancel(1))
	onBench(t, map[string]string{paths.AuditPath(7): string(f.Content), "audit/audit-7.tmp": "left over"}, func(b *bench) {
		require.Nil(b, b.record(cancel(2), true).Failure)
		require.Equal(b, []string{"cancel job 1", "cancel job 2"}, b.whats())
		require.Equal(b, uint64(8), b.entries()[1].Number)
	})
}

// Without the entry a change is refused. What is done without it is recorded as soon as the disk takes it.
func TestADiskThatRefuses(t *testing.T) {
	onBench(t, nil, func(b *bench) {
		require.Nil(b, b.record(cancel(1), true).Failure)
		b.disk.Fail("replace audit", 2)
		require.Contains(b, b.record(cancel(2), true).Failure.Text, "the disk says no")
		require.NotNil(b, b.record(cancel(3), false).Failure)
		b.look(0, 0)
		look := kittest.Expect[*audit.LookResult](b.client)
		require.NotNil(b, look.Failure)
		require.Equal(b, uint64(1), look.Last)
		b.Advance(5 * time.Second)
		b.Settle()
		require.Equal(b, []string{"cancel job 1", "cancel job 3"}, b.whats())
		b.look(0, 0)
		require.Nil(b, kittest.Expect[*audit.LookResult](b.client).Failure)
		b.client.Quiet()
	})
}

// A damaged newest file is kept in the quarantine, and the log says so.
func TestADamagedFileIsSetAside(t *testing.T) {
	f, _ := coreaudit.NewFile(7).Add(cancel(1))
	damaged := string(f.Content) + "\x00\x00\x00"
	onBench(t, map[string]string{paths.AuditPath(7): damaged}, func(b *bench) {
		require.Nil(b, b.record(cancel(2), true).Failure)
		require.Equal(b, damaged, b.disk.Content("queue/quarantine/audit-7"))
		require.Equal(b, []string{"set aside the damaged file audit/audit-7 of this log, as queue/quarantine/audit-7", "cancel job 2"}, b.whats())
		require.Greater(b, b.entries()[0].Number, uint64(7))
	})
}

// A log that cannot be read is read again; entries wait.
func TestALogThatCannotBeRead(t *testing.T) {
	f, _ := coreaudit.NewFile(1).Add(cancel(1))
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, disk: newDisk(map[string]string{paths.AuditPath(1): string(f.Content)}), client: e.Probe("client")}
		b.disk.Fail("list audit", 1)
		b.disk.Fail("read audit", 1)
		pid := e.Start("store", store.Props(store.Config{Env: e.Env, Files: b.disk, Writers: 4, Clients: []*actor.PID{e.PID("above-audit/audit")}}))
		b.pid = e.Start("audit", audit.Props(audit.Config{Env: e.Env, Store: pid}))
		b.send(cancel(2), true)
		for range 2 {
			b.Settle()
			b.client.Quiet()
			b.Advance(time.Second)
		}
		b.Settle()
		require.Nil(b, kittest.Expect[*audit.Recorded](b.client).Failure)
		require.Equal(b, []string{"cancel job 1", "cancel job 2"}, b.whats())
	})
}

// Of the refusals of a user within a second one has an entry at once, and the latest when the second is over.
func TestRefusalsAreLimited(t *testing.T) {
	onBench(t, nil, func(b *bench) {
		for job := range 5 {
			e := cancel(job)
			e.Refused = "job 1 is root's"
			require.Nil(b, b.record(e, false).Failure)
		}
		require.Equal(b, []string{"cancel job 0"}, b.whats())
		b.Advance(time.Second)
		b.Settle()
		require.Equal(b, []string{"cancel job 0", "cancel job 4"}, b.whats())
		require.Equal(b, 3, b.entries()[1].LeftOut)
	})
}

// A reader who waits gets its answer with the next entry; one whose time is over gets none.
func TestALookWaitsForAnEntry(t *testing.T) {
	onBench(t, nil, func(b *bench) {
		b.look(0, time.Minute)
		waiting := b.last
		b.client.Quiet()
		b.send(cancel(1), true)
		b.Settle()
		kittest.Expect[*audit.Recorded](b.client)
		look := kittest.Expect[*audit.LookResult](b.client)
		require.Equal(b, waiting, look.Request)
		require.Equal(b, uint64(1), look.Last)
		require.Equal(b, []uint64{1}, look.Files)
		b.look(1, time.Second)
		b.client.Quiet()
		b.Advance(time.Minute)
		b.look(1, time.Second)
		b.client.Quiet()
		require.Nil(b, b.record(cancel(2), true).Failure)
		require.Equal(b, b.last-1, kittest.Expect[*audit.LookResult](b.client).Request)
		b.client.Quiet()
	})
}

// While a member of the cluster has a version without the log, changes are answered without an entry. From its upgrade on they have one.
func TestAnOlderMemberHasNoLog(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, disk: newDisk(nil), client: e.Probe("client")}
		members := e.Probe("features")
		pid := e.Start("store", store.Props(store.Config{Env: e.Env, Files: b.disk, Writers: 4, Clients: []*actor.PID{e.PID("above-audit/audit")}}))
		b.pid = e.Start("audit", audit.Props(audit.Config{Env: e.Env, Store: pid, Features: members.PID}))
		lacking := func(node string) {
			b.Settle()
			ask, from := kittest.ExpectFrom[*features.Ask](members)
			require.Equal(t, replication.AuditLog, ask.Feature)
			b.client.Quiet()
			b.Send(from, &features.AskResult{Request: ask.Request, Lacking: node})
			b.Settle()
		}
		b.send(cancel(1), true)
		lacking("old")
		require.Nil(t, kittest.Expect[*audit.Recorded](b.client).Failure)
		require.Empty(t, b.entries())
		b.send(cancel(2), true)
		b.Settle()
		kittest.Expect[*features.Ask](members) // is lost
		b.Advance(2 * time.Second)
		lacking("")
		require.Nil(t, kittest.Expect[*audit.Recorded](b.client).Failure)
		require.Nil(t, b.record(cancel(3), true).Failure)
		require.Equal(t, []string{"cancel job 2", "cancel job 3"}, b.whats())
	})
}
