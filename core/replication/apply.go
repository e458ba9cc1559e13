package replication

import (
	"bytes"
	"path"
	"slices"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/retry"
	"lockstep/messages"
)

// Applier says which node applies entries, and which start of its daemon, so that the node recognises its own proposals.
type Applier struct {
	Node        string
	Incarnation string
	// Unsynced says that entries change files of the queue without a sync of each, because the log syncs all before it records
	// an index and drops the entries (docs/log-durability.md).
	Unsynced bool
}

// NeedsSync reports whether a file that an entry of origin changes to the content is synced, though entries are applied without
// a sync of each. Only the files of jobs, their records and the serial are not, since nodes that do not lead read all others
// before the log is applied. The file of a job that this node has started is: its content decides whether it is ahead of the log,
// see Supersedes.
func (s Applier) NeedsSync(origin, file string, content []byte) bool {
	if !s.Unsynced || !isUnsynced(file) {
		return true
	}
	_, isJob := JobIDOf(file)
	return isJob && origin == s.Node && namesProcess(content)
}

// isUnsynced reports whether entries may write or remove a file without a sync.
func isUnsynced(file string) bool {
	if path.Dir(file) != paths.QueueDir {
		return false
	}
	_, isJob := paths.ParseJobName(path.Base(file))
	_, isRecord := paths.ParseRecordName(path.Base(file))
	return isJob || isRecord || file == paths.SerialPath
}

// PathsToRead are the files that must be read before the entries are applied: the files of jobs that this node may have
// started since. A log that is opened repeats entries that were applied before, and a job process may have written the
// file in between.
func (s Applier) PathsToRead(entries []*messages.LogEntry) []string {
	var files []string
	seen := map[string]bool{}
	for _, e := range entries {
		for _, c := range e.Changes {
			file := c.GetUpdate().GetPath()
			mustRead := c.GetUpdate() != nil && s.mayOverwriteLocal(e, c.GetUpdate())
			if s.quarantines(e, c.GetRename()) {
				file, mustRead = c.GetRename().From, true
			}
			if mustRead && !seen[file] {
				seen[file] = true
				files = append(files, file)
			}
		}
	}
	return files
}

// quarantines reports whether an entry that may be repeated moves a job's file to the quarantine. By now the path may
// have the file of another job.
func (s Applier) quarantines(e *messages.LogEntry, m *messages.MoveFile) bool {
	if m == nil || e.Origin == s.Node && e.Incarnation == s.Incarnation {
		return false
	}
	_, isJob := JobIDOf(m.From)
	return isJob && path.Dir(m.To) == paths.QuarantineDir
}

// mayOverwriteLocal reports whether u may be older than the file on this disk. It is false for proposals of this
// incarnation. For proposals of another node, it is true only until a process has begun the job for the only time: then only that process
// writes the file, or the entry comes from a later master. A start that was undone on the other node, or a former try there, may precede
// that of the process that writes the file here.
func (s Applier) mayOverwriteLocal(e *messages.LogEntry, u *messages.FileUpdate) bool {
	if _, isJob := JobIDOf(u.Path); !isJob || e.Origin == s.Node && e.Incarnation == s.Incarnation {
		return false
	}
	if e.Origin == s.Node {
		return true
	}
	j, err := job.Decode(u.Content)
	return err != nil || !paths.IsJobLivelock(j.Livelock) || j.IsPending() || mayRetry(j)
}

// mayRetry reports whether a job may be started again after a process has begun it.
func mayRetry(j *job.Job) bool {
	return slices.ContainsFunc(j.Ops, func(op job.Op) bool { return retry.Of(op.Input).Times > 0 })
}

func namesProcess(content []byte) bool {
	j, err := job.Decode(content)
	return err == nil && paths.IsJobLivelock(j.Livelock)
}

// isStarted reports whether the content of a job's file is that of this job, and the job has a process. After a power loss
// the file may have the content of another job.
func isStarted(file string, content []byte) bool {
	id, isJob := JobIDOf(file)
	j, err := job.Decode(content)
	return isJob && err == nil && int64(j.ID) == id && paths.IsJobLivelock(j.Livelock)
}

// Apply is the changes of this node's files by entries, as requests to the store. Each request must be done before the
// next. local has the content of the PathsToRead; a missing file is nil.
//
// Changes of the configuration are left out, see ConfigChanges. An update is omitted if a later update of the same file
// follows. Files that a job process has written on this node are kept (design.md "Files of running jobs"): observations of
// this incarnation are already on this disk; for those of a former incarnation, see Supersedes.
func (s Applier) Apply(entries []*messages.LogEntry, local map[string][]byte) []*messages.AccessStore {
	p := storePlan{touchedPaths: map[string]int{}, unsyncedMoves: s.Unsynced}
	for _, e := range entries {
		for _, c := range e.Changes {
			switch what := c.What.(type) {
			case *messages.FileChange_Update:
				if !IsConfig(what.Update.Path) && s.accepts(e, what.Update, local) {
					p.write(what.Update, s.NeedsSync(e.Origin, what.Update.Path, what.Update.Content))
				}
			case *messages.FileChange_Rename:
				if s.quarantines(e, what.Rename) && isStarted(what.Rename.From, local[what.Rename.From]) {
					continue // the file of a job with a process is not the quarantined file
				}
				p.rename(what.Rename)
				// From here on the path is free: an update that follows finds nothing that it must not overwrite.
				delete(local, what.Rename.From)
			case *messages.FileChange_Remove:
				if IsConfig(what.Remove.Path) {
					continue // a cluster has a configuration
				}
				p.remove(what.Remove, s.Unsynced && isUnsynced(what.Remove.Path))
				delete(local, what.Remove.Path)
			}
		}
	}
	p.flush()
	return p.steps
}

// accepts reports whether an update is applied, and records its content in local.
func (s Applier) accepts(e *messages.LogEntry, u *messages.FileUpdate, local map[string][]byte) bool {
	// The process has written this here before it was proposed, and may have written more since.
	if e.Origin == s.Node && e.Incarnation == s.Incarnation && u.Observed {
		return false
	}
	if s.mayOverwriteLocal(e, u) && !s.supersedes(e, u.Content, local[u.Path]) {
		return false
	}
	if _, known := local[u.Path]; known {
		// Later entries of the batch are compared with what the disk will have by then.
		local[u.Path] = u.Content
	}
	return true
}

// supersedes reports whether the content of an entry replaces that of this disk. What another node has proposed is in the order of the
// log, unless this disk has a later start.
func (s Applier) supersedes(e *messages.LogEntry, logged, local []byte) bool {
	if e.Origin == s.Node {
		return Supersedes(logged, local)
	}
	inLog, err := job.Decode(logged)
	onDisk, localErr := job.Decode(local)
	return err != nil || localErr != nil || onDisk.ID != inLog.ID || startOrder(inLog) >= startOrder(onDisk)
}

// Supersedes reports whether a proposed job replaces the job on this node's disk. The proposal is from a former
// incarnation of this node's daemon. The starts of a job are numbered. From the
// moment at which the file names the process of the last start, the process writes the file first and the log gets the
// change later. So the file is ahead, with two exceptions: a final state that the daemon wrote after the process had ended,
// and data that a power loss has destroyed: the file may even have the content of another job.
func Supersedes(logged, local []byte) bool {
	inLog, err := job.Decode(logged)
	if err != nil {
		return true
	}
	onDisk, err := job.Decode(local)
	if err != nil || onDisk.ID != inLog.ID {
		return true
	}
	if newer := startOrder(inLog) - startOrder(onDisk); newer != 0 {
		return newer > 0
	}
	// No process has written this file: the log is at least as new.
	if !paths.IsJobLivelock(onDisk.Livelock) || onDisk.Livelock != inLog.Livelock {
		return true
	}
	// A final status that is already on this disk is written again, because it may not be durable.
	return Progress(inLog) > Progress(onDisk) || inLog.Status().Final() && bytes.Equal(logged, local)
}

// startOrder orders the states of a job's file by its starts. It never decreases: 0 before the first start, then an odd
// number while the file names a process, and an even one after the start was undone.
func startOrder(j *job.Job) int64 {
	start := 2 * paths.StartOfLivelock(j.Livelock)
	if paths.IsJobLivelock(j.Livelock) {
		return start - 1
	}
	return start
}

// Reconcile compares this node's file of a job that the node has started with the log. It returns the change to
// propose, nil if both are equal or the log is ahead of the disk.
func (r RunningJobs) Reconcile(id int64, local []byte) *messages.FileChange {
	j, err := job.Decode(local)
	if running, known := r[id]; err != nil || !known || Progress(j) < running.Progress {
		return nil
	}
	return ObservedChange(paths.JobPath(id), local)
}

// AbsentFiles are the shared files that a snapshot does not contain, of the given ones of the queue and of the audit log, and
// the settings, the durations, the keys, the sessions of the console, the grants and the features of the members, which need not exist.
func AbsentFiles(present []string, files map[string]bool) []string {
	var absent []string
	for _, file := range present {
		if IsShared(file) && !files[file] {
			absent = append(absent, file)
		}
	}
	for _, file := range []string{
		paths.SettingsPath, paths.DurationsPath, paths.ConfdKeyPath, paths.ConfdOtherKeyPath, paths.SessionsPath, paths.AccessPath,
		paths.FeaturesPath,
	} {
		if !files[file] {
			absent = append(absent, file)
		}
	}
	return absent
}

// Fingerprint is the part of a job whose change needs an entry of the log: everything except its log lines.
func Fingerprint(j *job.Job) string {
	fingerprint := make([]byte, 0, 3*len(j.Ops))
	for i := range j.Ops {
		fingerprint = append(fingerprint, rankOf(&j.Ops[i]), byte(j.Ops[i].Status), byte(j.Ops[i].Priority))
	}
	return string(fingerprint)
}
