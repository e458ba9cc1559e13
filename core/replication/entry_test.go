package replication_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

func TestWhatIsShared(t *testing.T) {
	for path, shared := range map[string]bool{
		paths.ConfigPath: true, paths.SettingsPath: true, paths.SerialPath: true, paths.DrainPath: true,
		paths.JobPath(0): true, paths.JobPath(123456): true, paths.ArchivePath(30012): true,
		paths.QuarantineDir + "/job-7.1": true,
		paths.RecordPath(12):             true, paths.ArchivedRecordPath(30012): true, "queue/lockstep-07": false, "queue/lockstep-7.tmp": false,

		paths.LocksPath: false, paths.LocksJournalPath: false, paths.VersionPath: false, paths.LockPath: false,
		paths.QueueDir: false, paths.ArchiveDir: false, paths.QuarantineDir: false,
		"queue/job-07": false, "queue/job-": false, "queue/job-7.tmp": false, "queue/.job-7": false, "job-7": false,
		"raft/wal/1": false, "raft/job-7": false, "identity": false, "watcher.pause": false, "queue/other/job-7": false,
	} {
		require.Equal(t, shared, replication.IsShared(path), path)
	}
}

// Nodes answer from some files themselves, so these are on their disks at once.
func TestWhatMayWait(t *testing.T) {
	entry := func(c ...*messages.FileChange) *messages.LogEntry { return &messages.LogEntry{Changes: c} }
	written := func(files ...string) *messages.LogEntry { return entry(replication.WriteChanges(write(files...))...) }
	require.True(t, replication.MayWait(written(paths.JobPath(7), paths.RecordPath(7), paths.SerialPath, paths.AuditPath(1))))
	require.True(t, replication.MayWait(entry(replication.RenameChanges(move(paths.JobPath(7), paths.ArchivePath(7)))...)))
	for _, file := range []string{paths.ConfigPath, paths.SettingsPath, paths.SessionsPath, paths.AccessPath, paths.FeaturesPath, paths.ConfdKeyPath, paths.ConfdOtherKeyPath} {
		require.False(t, replication.MayWait(written(paths.JobPath(7), file)), file)
	}
	require.False(t, replication.MayWait(entry(&messages.FileChange{What: &messages.FileChange_Config{Config: &messages.ConfigChange{}}})))
}

func write(paths ...string) *messages.WriteFiles {
	m := &messages.WriteFiles{}
	for _, path := range paths {
		m.Files = append(m.Files, &messages.FileWrite{Path: path, Content: []byte(path)})
	}
	return m
}

func move(paths ...string) *messages.MoveFiles {
	m := &messages.MoveFiles{}
	for i := 0; i < len(paths); i += 2 {
		m.Files = append(m.Files, &messages.MoveFile{From: paths[i], To: paths[i+1]})
	}
	return m
}

// A request concerns shared files or files of this node, never both.
func TestWhatARequestChanges(t *testing.T) {
	require.Len(t, replication.WriteChanges(write("queue/job-1", "queue/serial")), 2)
	require.Empty(t, replication.WriteChanges(write("locks.data")))
	require.Empty(t, replication.WriteChanges(write()))
	require.Panics(t, func() { replication.WriteChanges(write("queue/job-1", "locks.data")) })
	require.Len(t, replication.RenameChanges(move("queue/job-1", "queue/archive/0/job-1")), 1)
	require.Empty(t, replication.RenameChanges(move("locks.data", "elsewhere")))
	require.Empty(t, replication.RenameChanges(move("queue/job-1", "elsewhere")), "it would be on one node only")
	require.Panics(t, func() { replication.RenameChanges(move("queue/job-1", "queue/archive/0/job-1", "a", "b")) })
	require.Len(t, replication.RemoveChanges(&messages.RemoveFiles{Op: "test", Paths: []string{"queue/drain"}}), 1)
	require.Equal(t, "test", replication.RemoveChanges(&messages.RemoveFiles{Op: "test", Paths: []string{"queue/drain"}})[0].GetRemove().Op)
	require.Panics(t, func() { replication.RemoveChanges(&messages.RemoveFiles{Paths: []string{"queue/drain", "locks.data"}}) })
	require.True(t, replication.ObservedChange(paths.JobPath(7), nil).GetUpdate().Observed)
	require.False(t, replication.WriteChanges(write("queue/job-1"))[0].GetUpdate().Observed)
}

func TestSplitChangesAreInOrderAndSmall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 100
		var changes []*messages.FileChange
		for _, size := range rapid.SliceOf(rapid.IntRange(0, 150)).Draw(t, "sizes") {
			c := replication.WriteChanges(&messages.WriteFiles{Files: []*messages.FileWrite{{Path: "queue/serial", Content: make([]byte, size)}}})[0]
			if size > 140 {
				c = replication.RenameChanges(move("queue/job-1", "queue/archive/0/job-1"))[0]
			}
			changes = append(changes, c)
		}
		pieces := replication.SplitChanges(changes, most)
		var all []*messages.FileChange
		former := 0
		for i, piece := range pieces {
			require.NotEmpty(t, piece)
			size := 0
			for _, c := range piece {
				size += len(c.GetUpdate().GetContent())
			}
			require.True(t, size <= most || len(piece) == 1, "%d bytes", size)
			first := len(piece[0].GetUpdate().GetContent())
			require.True(t, i == 0 || former+first > most, "it had room")
			former = size
			all = append(all, piece...)
		}
		require.Len(t, all, len(changes))
		for i := range all {
			require.True(t, proto.Equal(all[i], changes[i]))
		}
	})
}

func TestSupersedes(t *testing.T) {
	const one, two = "/run/livelocks/job_000007_1", "/run/livelocks/job_000007_2"
	const undone, second = "undone_1", "/run/livelocks/job_000007_2_1700000000_77_0123abcd"
	for name, c := range map[string]struct {
		logged, local []byte
		want          bool
	}{
		"no file":                            {jobAs(7, one, job.Running, 0), nil, true},
		"a file that is no job":              {jobAs(7, one, job.Running, 0), []byte("garbage"), true},
		"an entry that is no job":            {[]byte("garbage"), jobAs(7, one, job.Running, 0), true},
		"another process":                    {jobAs(7, two, job.Queued, 0), jobAs(7, one, job.Running, 0), true},
		"the process is ahead":               {jobAs(7, one, job.Waiting, 0), jobAs(7, one, job.Running, 0), false},
		"it has ended":                       {jobAs(7, one, job.Running, 0), jobAs(7, one, job.Success, 0), false},
		"the daemon has failed it":           {jobAs(7, one, job.Error, 0), jobAs(7, one, job.Running, 0), true},
		"both have an end":                   {jobAs(7, one, job.Error, 0), jobAs(7, one, job.Success, 0), false},
		"the same end":                       {jobAs(7, one, job.Success, 0), jobAs(7, one, job.Success, 0), true},
		"the same, and it goes on":           {jobAs(7, one, job.Running, 0), jobAs(7, one, job.Running, 0), false},
		"a power loss has set it back":       {jobAs(7, one, job.Running, 0), jobAs(7, one, job.Waiting, 0), true},
		"canceled by the daemon":             {jobAs(7, one, job.Canceled, 0), jobAs(7, one, job.Waiting, 0), true},
		"a queued one, by its process":       {jobAs(7, one, job.Queued, 0), jobAs(7, one, job.Queued, 1), false},
		"an undone start":                    {jobAs(7, undone, job.Queued, 0), jobAs(7, one, job.Queued, 0), true},
		"it was undone":                      {jobAs(7, one, job.Queued, 0), jobAs(7, undone, job.Queued, 0), false},
		"submitted before it was undone":     {jobAs(7, daemonLock, job.Queued, 0), jobAs(7, undone, job.Queued, 0), false},
		"canceled after it was undone":       {jobAs(7, undone, job.Canceled, 0), jobAs(7, undone, job.Queued, 0), true},
		"the next start":                     {jobAs(7, second, job.Queued, 0), jobAs(7, undone, job.Queued, 0), true},
		"the next start, the first runs":     {jobAs(7, second, job.Queued, 0), jobAs(7, one, job.Running, 0), true},
		"the first start, the next one runs": {jobAs(7, one, job.Error, 0), jobAs(7, second, job.Running, 0), false},
		"undone, the next one runs":          {jobAs(7, undone, job.Queued, 0), jobAs(7, second, job.Running, 0), false},
		"the end of the next start":          {jobAs(7, second, job.Success, 0), jobAs(7, second, job.Running, 0), true},
		"the disk has another job's content": {jobAs(7, daemonLock, job.Queued, 0), jobAs(8, "/run/livelocks/job_000008_1", job.Running, 0), true},
	} {
		require.Equal(t, c.want, replication.Supersedes(c.logged, c.local), name)
	}
}

func TestPathsToReadAreOwnJobsOfFormerDaemons(t *testing.T) {
	now, former, other := replication.Applier{Node: "u1", Incarnation: "now"}, replication.Applier{Node: "u1", Incarnation: "former"}, replication.Applier{Node: "u2", Incarnation: "former"}
	started := jobAs(7, "/run/livelocks/job_000007_1", job.Running, 0)
	require.Equal(t, []string{"queue/job-7"}, now.PathsToRead([]*messages.LogEntry{updateChange(former, "queue/job-7", started), observed(former, 7, started)}))
	require.Empty(t, now.PathsToRead([]*messages.LogEntry{updateChange(now, "queue/job-7", started), updateChange(other, "queue/job-7", started),
		updateChange(former, "queue/serial", []byte("7")), archived(former, 7), removed(former, "queue/drain"), updateChange(former, "queue/archive/0/job-7", started)}))
}

// The first start of a job was undone on another node, or on this one under another master, before this node started the job: the log
// repeats both entries after what the process has written.
func TestAnUndoneStartDoesNotUndoTheNextOne(t *testing.T) {
	const first, second = "/run/livelocks/job_000007_1", "/run/livelocks/job_000007_2_1700000000_77_0123abcd"
	now, former := replication.Applier{Node: "u1", Incarnation: "now"}, replication.Applier{Node: "u1", Incarnation: "former"}
	for _, origin := range []string{"u1", "u2"} {
		by := replication.Applier{Node: origin, Incarnation: "before"}
		log := []*messages.LogEntry{
			updateChange(by, "queue/job-7", jobAs(7, daemonLock, job.Queued, 1)),
			updateChange(by, "queue/job-7", jobAs(7, first, job.Queued, 1)),
			updateChange(by, "queue/job-7", jobAs(7, "undone_1", job.Queued, 1)),
			updateChange(former, "queue/job-7", jobAs(7, second, job.Queued, 1)),
		}
		require.Equal(t, []string{"queue/job-7"}, now.PathsToRead(log))
		for _, written := range []job.Status{job.Running, job.Success} {
			whole, single := files{}, files{}
			content := string(jobAs(7, second, written, 2))
			whole["queue/job-7"], single["queue/job-7"] = content, content
			whole.apply(now, log)
			require.Equal(t, content, whole["queue/job-7"], "from %s", origin)
			for _, e := range log {
				single.apply(now, []*messages.LogEntry{e})
				require.Equal(t, content, single["queue/job-7"], "from %s", origin)
			}
		}
	}
}

// What another node's process has written comes in the order of the log, also while the job is queued. The same content is
// written again, because a power loss may undo the former write.
func TestAQueuedJobOfAnotherNodesProcess(t *testing.T) {
	named, written := jobAs(7, "/run/livelocks/job_000007_1", job.Queued, 1), jobAs(7, "/run/livelocks/job_000007_1", job.Queued, 2)
	for _, content := range [][]byte{named, written} {
		e := observed(replication.Applier{Node: "u2", Incarnation: "other"}, 7, content)
		steps := replication.Applier{Node: "u1", Incarnation: "now"}.Apply([]*messages.LogEntry{e}, map[string][]byte{"queue/job-7": named})
		require.Len(t, steps, 1)
		require.Equal(t, content, steps[0].GetWrite().Files[0].Content)
	}
}

// Writes between renames go to the disk in parallel, each file once.
func TestStepsKeepTheOrder(t *testing.T) {
	by := replication.Applier{Node: "u2"}
	steps := replication.Applier{Node: "u1"}.Apply([]*messages.LogEntry{
		updateChange(by, "queue/job-1", []byte("a")), updateChange(by, "queue/serial", []byte("1")), updateChange(by, "queue/job-1", []byte("b")),
		archived(by, 1), removed(by, "queue/drain"), updateChange(by, "queue/job-2", []byte("c")),
	}, nil)
	require.Len(t, steps, 4)
	writes := steps[0].GetWrite()
	require.True(t, writes.Durable)
	require.Len(t, writes.Files, 2)
	require.Equal(t, "b", string(writes.Files[0].Content))
	require.Equal(t, "queue/archive/0/job-1", steps[1].GetMove().Files[0].To)
	require.Equal(t, []string{"queue/drain"}, steps[2].GetRemove().Paths)
	require.Equal(t, "queue/job-2", steps[3].GetWrite().Files[0].Path)
	require.Empty(t, replication.Applier{}.Apply(nil, nil))
}

// The log is the durability of jobs, records and the serial. Files that nodes read before the log is applied are synced, and so
// are the files of jobs that this node has started, which may be ahead of the log.
func TestWhatIsSynced(t *testing.T) {
	const livelock = "/run/livelocks/job_000007_1"
	self := replication.Applier{Node: "u1", Incarnation: "now", Unsynced: true}
	started, queued := jobAs(7, livelock, job.Queued, 0), jobAs(7, daemonLock, job.Queued, 0)
	for name, c := range map[string]struct {
		origin, file string
		content      []byte
		synced       bool
	}{
		"a new job":                       {"u1", "queue/job-7", queued, false},
		"a job that this node starts":     {"u1", "queue/job-7", started, true},
		"a job that another node starts":  {"u2", "queue/job-7", started, false},
		"a record":                        {"u1", "queue/lockstep-7", []byte("{}"), false},
		"the serial":                      {"u1", "queue/serial", []byte("7"), false},
		"the mark of a drained queue":     {"u1", "queue/drain", nil, true},
		"the settings":                    {"u1", "settings.json", []byte("{}"), true},
		"the record of an archived job":   {"u1", "queue/archive/0/lockstep-7", []byte("{}"), true},
		"a file that is in no entry, yet": {"u1", "queue/member", nil, true},
	} {
		require.Equal(t, c.synced, self.NeedsSync(c.origin, c.file, c.content), name)
		require.True(t, replication.Applier{Node: "u1"}.NeedsSync(c.origin, c.file, c.content), name)
	}
	by := replication.Applier{Node: "u2"}
	steps := self.Apply([]*messages.LogEntry{updateChange(by, "queue/job-1", queued), updateChange(by, "settings.json", nil), archived(by, 1),
		removed(by, "queue/lockstep-1"), removed(by, "queue/drain")}, nil)
	require.Len(t, steps, 4)
	require.True(t, steps[0].GetWrite().Files[0].Unsynced)
	require.False(t, steps[0].GetWrite().Files[1].Unsynced)
	require.True(t, steps[1].GetMove().Unsynced)
	require.True(t, replication.Remaining(steps[1], map[string]bool{"queue/job-1": true}).GetMove().Unsynced)
	require.True(t, steps[2].GetRemove().Unsynced)
	require.False(t, steps[3].GetRemove().Unsynced)
}

func TestAbsentFiles(t *testing.T) {
	names := []string{"queue/job-1", "queue/job-2", "queue/serial", "queue/drain", "queue/lock", "queue/version", "queue/archive", "queue/quarantine",
		"queue/job-2.tmp", "audit/audit-1", "audit/audit-9", "audit/audit-9.tmp"}
	require.Equal(t, []string{"queue/job-2", "queue/drain", "audit/audit-1", "settings.json", "durations.json", "hmac.key", "hmac.key.other", "sessions.json", "access.json", "features.json"}, replication.AbsentFiles(names, map[string]bool{"queue/job-1": true, "queue/serial": true, "audit/audit-9": true}))
	require.Equal(t, []string{"queue/job-1"}, replication.AbsentFiles(names[:1], map[string]bool{"settings.json": true, "durations.json": true, "hmac.key": true, "hmac.key.other": true, "sessions.json": true, "access.json": true, "features.json": true}))
}

func TestFingerprintIsAllButTheLogLines(t *testing.T) {
	base := func() *job.Job {
		j, err := job.Decode(jobAs(7, "/run/livelocks/job_000007_1", job.Running, 0))
		require.NoError(t, err)
		return j
	}
	line := base()
	line.Ops[0].Log = append(line.Ops[0].Log, job.LogEntry{Serial: 1, Type: "message"})
	require.Equal(t, replication.Fingerprint(base()), replication.Fingerprint(line))
	status, priority, more := base(), base(), base()
	status.Ops[0].Status = job.Success
	priority.Ops[0].Priority = -7
	more.Ops = append(more.Ops, more.Ops[0])
	for _, j := range []*job.Job{status, priority, more} {
		require.NotEqual(t, replication.Fingerprint(base()), replication.Fingerprint(j))
	}
}

// Nodes that take a snapshot at different moments agree on what runs.
func TestRunningJobsAreTheSameWhereverTheyAreTakenUp(t *testing.T) {
	locks := []string{daemonLock, "/run/livelocks/job_000001_1"}
	rapid.Check(t, func(t *rapid.T) {
		whole, resumed := replication.RunningJobs{}, replication.RunningJobs{}
		jobs := map[int64]*job.Job{}
		for range rapid.IntRange(0, 30).Draw(t, "entries") {
			by := replication.Applier{Node: rapid.SampledFrom([]string{"u1", "u2"}).Draw(t, "node")}
			id := rapid.Int64Range(1, 3).Draw(t, "job")
			var e *messages.LogEntry
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				e = archived(by, id)
			case 1:
				e = removed(by, paths.JobPath(id))
			case 2:
				e = updateChange(by, paths.JobPath(id), []byte("garbage"))
			default:
				if j, submitted := jobs[id]; !submitted {
					jobs[id] = jobtest.Queued(id)
				} else {
					jobtest.Step(j, func(events []job.Event) job.Event { return rapid.SampledFrom(events).Draw(t, "event") })
				}
				e = updateChange(by, paths.JobPath(id), jobAs(id, rapid.SampledFrom(locks).Draw(t, "livelock"), jobs[id].Status(), 0))
			}
			before, known := whole[id]
			whole.Apply(e)
			if after, still := whole[id]; known && still {
				require.Equal(t, before.Node, after.Node, "who has started it stays")
			}
			if rapid.Bool().Draw(t, "snapshot") {
				decoded, err := replication.DecodeRunningJobs(resumed.Encode())
				require.NoError(t, err)
				resumed = decoded
			}
			resumed.Apply(e)
			require.Equal(t, whole, resumed)
			require.Equal(t, whole.Encode(), resumed.Encode())
			require.Equal(t, len(whole) > len(whole.StartedOn("u1")), whole.StartedElsewhere("u1"))
			require.Len(t, whole, len(whole.StartedOn("u1"))+len(whole.StartedOn("u2")))
		}
	})
	_, err := replication.DecodeRunningJobs([]byte("garbage"))
	require.ErrorContains(t, err, "cannot be read")
	empty, err := replication.DecodeRunningJobs(nil)
	require.NoError(t, err)
	require.Empty(t, empty)
}
