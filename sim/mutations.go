package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/config/configstore"
	"lockstep/actors/jobs"
	"lockstep/actors/locks"
	"lockstep/actors/sessions"
	"lockstep/core/config"
	"lockstep/core/config/journal"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/record"
	"lockstep/messages"
	"lockstep/sim/consensus"
	"lockstep/sim/simdisk"
)

// Mutation is a named set of Mutations: a bug that is built in on purpose. It shows that a checker
// finds the bug, and what a failing run looks like. About states the wrong behaviour.
type Mutation struct {
	Name, About string
	Mutations   Mutations
}

// AllMutations are all named mutations. Kept seeds and the flag --plant use the names.
var AllMutations = slices.Concat([]Mutation{
	{"lying-sync", "a sync of a directory does nothing", Mutations{Disk: simdisk.Mutations{LyingSync: true}}},
	{"late-data-sync", "a file replaces another before its data is synced", Mutations{Disk: simdisk.Mutations{SkipDataSync: true}}},
	{"kept-files", "a removed file stays on the disk", Mutations{Disk: simdisk.Mutations{KeepsRemoved: true}}},
	{"torn-appends", "every third append to a file omits its last byte", Mutations{Disk: simdisk.Mutations{TornAppends: true}}},
	{"late-writes", "two successive writes of a job file reach the disk in reverse order",
		Mutations{Disk: simdisk.Mutations{LateWrites: true}}},
	{"lost-serial", "the serial is not written", Mutations{Disk: simdisk.Mutations{Loses: "serial"}}},
	{"started-twice", "no write of a job's start reaches the disk, and the job process begins whatever livelock the file names",
		Mutations{Disk: simdisk.Mutations{Loses: "start-job,run-job"}, AnyLivelock: true}},
	{"nameless", "the daemon does not recognise a repeated submission", Mutations{Alter: hidesRequestNames}},
	{"unsynced-ends", "the job process does not sync the write of the job's end", Mutations{UnsyncedEnds: true}},
	{"blind-adoption", "the daemon takes a living process of an earlier daemon for dead", Mutations{BlindAdoption: true}},
	{"silent-ends", "the daemon does not learn that a process has ended", Mutations{SilentEnds: true}},
	{"more-slots", "the daemon uses one run slot more than configured", Mutations{MoreSlots: 1}},
	{"early-release", "the locks of a job are freed when its process dies, even if orphans still work", Mutations{Alter: releasesEarly}},
	{"survivors", "a forced end kills only the process group of the command, not processes that have left it", Mutations{Survivors: true}},
	{"patient-processes", "job processes try for ever to write to a directory that is gone", Mutations{PatientProcesses: true}},
	{"one-client", "all clients count as one where connections are bounded", Mutations{OneClient: true}},
	{"any-run-dir", "a daemon starts with another run directory while processes live in the former one", Mutations{AnyRunDir: true}},
	{"forgotten-programs", "the locks of programs are not written to the journal", Mutations{Alter: losesPrograms}},
	{"no-marks", "nothing is taken for the proof that a process has not begun its job", Mutations{NoMarks: true}},
	{"late-mark", "a job process says until its first write that it has not begun the job", Mutations{LateMark: true}},
	{"stale-mark", "the daemon believes after a boot what a lock file said before the boot, which a power loss may have changed",
		Mutations{StaleMark: true}},
	{"missing-mark", "a missing lock file is taken for the proof that a process has not begun its job", Mutations{MissingIsProof: true}},
	{"marker-only", "orphans of a process whose end the daemon did not see are found by their marker only, not by their session",
		Mutations{MarkerOnly: true}},
	{"no-deaths", "the lock manager does not learn that an owner has died",
		Mutations{Alter: drops("daemon/core/locks", &messages.OwnerDied{}, &messages.OwnersProbed{}, &messages.JobCleanedUp{})}},
	{"unwritten-release", "a release of all locks is not written to the journal", Mutations{Alter: dropsReleases}},
	{"unwritten-free-locks", "free locks are not written to their journal", Mutations{Alter: dropsFreeLocks}},
	{"no-lock-bound", "a waiting lock request may be overtaken without bound", Mutations{Alter: disablesBypassLimit}},
	{
		"first-opcodes-only",
		"the scheduler knows the locks of the first opcode of a job alone, and a waiting lock request may be overtaken without bound",
		Mutations{Alter: hidesLaterLocks},
	},
	{
		"unrecorded-ends",
		"the end of an archived job is not recorded beside its dependents, and a job that the master does not have counts as missing",
		Mutations{Alter: recordsNoEnds},
	},
	{"lost-names", "the names of new jobs are not written", Mutations{Alter: losesNames}},
	{"lost-authors", "the author of a cancel is not written to the job's record", Mutations{Alter: losesAuthors}},
	{"lost-holds", "the hold of a job is not written to its record", Mutations{Alter: losesHolds}},
	{"unheard-holds", "the scheduler does not learn of holds", Mutations{Alter: drops("daemon/core/scheduler", &messages.HoldChanged{})}},
	{"hasty-answers", "a hold or a rule is answered before starts under way are called off", Mutations{Alter: callsNothingOff}},
	{"unsaid-cuts", "the log of a job whose process has died does not say that output is missing", Mutations{Alter: hidesCuts}},
	{"lost-logins", "the table of sessions is not written", Mutations{Disk: simdisk.Mutations{Loses: "sessions"}}},
	{"lost-logouts", "a log-out is acknowledged, and the session stays", Mutations{Alter: losesLogouts}},
	{"ageless-logins", "the sessions that a daemon finds when it starts seem to be in use", Mutations{Alter: renewsSessions}},
	{"hasty-retention", "the queue archives jobs a millisecond after their end if it archives any",
		Mutations{Alter: altersRetention("archive_after", "0.001")}},
	{"kept-none", "the queue keeps no last jobs of a name", Mutations{Alter: altersRetention("keep_last", "0")}},
	{"blind-to-archive", "who asks for a job's file does not find it in the archive", Mutations{Alter: hidesArchive}},
	{"unheard-misses", "the queue does not learn that the file of an ended job was missed",
		Mutations{Alter: drops("daemon/queue", &messages.JobFileMissed{})}},
	{"unset-aside", "settings that cannot be read are taken for the defaults", Mutations{Alter: hidesDamage}},
	{"no-retention", "the queue archives no jobs without a request", Mutations{Alter: altersRetention("archive_after", "0")}},
	{"all-succeed", "every end of a job is reported to the scheduler as a success", Mutations{Alter: allSucceed}},
	{"burnt-starts", "the first failed start fails the job", Mutations{Patience: jobs.RetryLimit{Tries: 1}}},
	{"marked-all", "every job that waits for its start is shown as waiting for locks", Mutations{NewAlter: marksAll}},
	{"lasting-marks", "a job that is shown as waiting for locks is shown so until its process reports", Mutations{Alter: keepsMarks}},
	{"no-verdicts", "the scheduler does not learn of changed filter rules",
		Mutations{Alter: drops("daemon/core/scheduler", &messages.VerdictsChanged{})}},
	{"unjudged", "new jobs get no verdict of the filter rules", Mutations{Alter: skipsVerdicts}},
	{"equal-priorities", "the scheduler takes urgent jobs for normal ones", Mutations{Alter: hidesPriorities}},
	{"unheard-ends", "the scheduler does not learn that jobs have ended", Mutations{Alter: dropsEnds}},
	{"paused-get-locks", "the lock manager does not learn which jobs are paused",
		Mutations{Alter: drops("daemon/core/locks", &messages.SetLockPause{})}},
	{"rejected-go-on", "a job that a rule rejects gets the permission for its next opcode", Mutations{Alter: permitsRejected}},
	{"forgotten-pauses", "a lock manager that restarts does not learn for which of Ganeti's processes requests are withheld",
		Mutations{Alter: forgetsWithheld}},
	{"greater-limits", "the limit of a RATE_LIMIT rule is three higher than the rule says", Mutations{Alter: raisesLimits}},
	{"no-reason-limits", "rate limits in reason trails have no effect", Mutations{Alter: hidesRateLimits}},
	{"no-ageing", "the weight of waiting jobs does not fall with their age", Mutations{Alter: neverAges}},
	{"unblocked-starts", "no job is started before its locks are free, however long it waits", Mutations{StartUnblocked: true}},
	{"moved-promises", "each end of a job makes the scheduler forget its reservations", Mutations{NewAlter: movesPromises}},
	{"held-reports", "a job process that has asked for permission reports no progress until it has it", Mutations{DelayReports: true}},
	{"unheard-progress", "the queue does not receive the progress of job processes",
		Mutations{Alter: drops("daemon/queue", &messages.JobProgressed{})}},
	{"lost-wishes", "a client order that reaches the queue after the job's end gets no answer", Mutations{Alter: dropsLateAnswers}},
	{"untold-progress", "the progress of a job is not replicated before its process asks to begin the next opcode",
		Mutations{Alter: dropsProgress}},
	{"hasty-log", "an entry of the log counts as committed before a majority has it", Mutations{Log: consensus.Mutations{Hasty: true}}},
	{"skipped-entry", "the second node does not apply every seventh entry of the log", Mutations{Log: consensus.Mutations{Skips: "n2"}}},
	{"forgotten-jobs", "a replicator that starts does not know which jobs run on which node", Mutations{Alter: dropsRunning}},
	{"no-fence", "a new master does not wait until the jobs of the former master have ended", Mutations{Alter: noFence}},
	{"lets-in", "a node that has lost its queue, but not its log, starts with an empty queue, or an older one",
		Mutations{AdmitLostQueue: true}},
	{"unsynced-entries", "a node does not sync the files of the log's entries, and notes the entries as durable",
		Mutations{Disk: simdisk.Mutations{SkipSyncAll: true}}},
	{"early-notes", "a node notes the entries of the log as durable two seconds before it syncs their files",
		Mutations{Log: consensus.Mutations{NotesFirst: true}}},
	{"forgotten-file-system", "a node syncs one of two file systems before it notes entries as durable",
		Mutations{Disk: simdisk.Mutations{ForgetsQueue: true}}},
	{"ignored-sync-errors", "a node notes entries as durable although the sync of their files has failed",
		Mutations{Disk: simdisk.Mutations{HidesSyncErrors: true}}},
	{"early-service", "a master serves before it has applied its log", Mutations{Log: consensus.Mutations{ServesEarly: true}}},
	{"unsynced-leave", "an orderly stop says that the files do not need the log, and does not sync them", Mutations{LeavesUnsynced: true}},
	{"lost-records", "the storage of a node's configuration does not receive every second record of the log", Mutations{Alter: losesRecords}},
	{"unnumbered-snapshots", "a snapshot has the configuration without the number of its last record", Mutations{Alter: removesNumbers}},
	{"unnumbered-starts", "the file of a job whose start was undone has no number of that start", Mutations{Alter: removesStartNumbers}},
	{"no-master", "no node learns that it is the master", Mutations{Alter: drops("node/master", &messages.BecomeMaster{})}},
}, configMutations)

// clusterMutations are the names of the mutations that need several nodes.
var clusterMutations = []string{
	"hasty-log", "skipped-entry", "forgotten-jobs", "no-fence", "lets-in", "no-master", "untold-progress",
	"unsynced-entries", "early-notes", "forgotten-file-system", "ignored-sync-errors", "early-service", "unsynced-leave",
	"lost-records", "unnumbered-snapshots", "unnumbered-starts",
}

// FindMutation returns the mutations of a name, and none for "". An unknown name is an error that
// lists the names.
func FindMutation(name string) (Mutations, error) {
	names := make([]string, len(AllMutations))
	for i, p := range AllMutations {
		if p.Name == name {
			return p.Mutations, nil
		}
		names[i] = p.Name
	}
	if name == "" {
		return Mutations{}, nil
	}
	return Mutations{}, fmt.Errorf("unknown plant %q: there are %s", name, strings.Join(names, ", "))
}

// drops drops all messages of these types to this actor.
func drops(actor string, types ...any) func(string, any) any {
	return func(to string, m any) any {
		for _, t := range types {
			if to == actor && reflect.TypeOf(m) == reflect.TypeOf(t) {
				return nil
			}
		}
		return m
	}
}

// permitsRejected makes the permission of a denial because of a rule.
func permitsRejected(_ string, m any) any {
	if m, is := m.(*messages.BeginOpResult); is && strings.HasPrefix(m.Text, "rejected") {
		return &messages.BeginOpResult{Request: m.Request}
	}
	return m
}

// forgetsWithheld takes the jobs whose requests are withheld out of what a lock manager that starts gets.
func forgetsWithheld(_ string, m any) any {
	if m, is := m.(*messages.SetLockPauses); is {
		return &messages.SetLockPauses{Incarnation: m.Incarnation, Ids: m.Ids}
	}
	return m
}

// callsNothingOff takes the jobs out of a CallOff.
func callsNothingOff(_ string, m any) any {
	if m, is := m.(*messages.CallOff); is {
		return &messages.CallOff{Request: m.Request}
	}
	return m
}

// hidesArchive makes the gateway read another file than that of an archived job.
func hidesArchive(_ string, m any) any {
	r, is := m.(*messages.AccessStore)
	read := r.GetRead()
	asksForJob := read.GetOp() == "query-job" || read.GetOp() == "wait-job"
	if is && asksForJob && strings.HasPrefix(read.Path, paths.ArchiveDir) {
		hidden := proto.CloneOf(r)
		hidden.GetRead().Path = paths.ArchiveDir + "/none"
		return hidden
	}
	return m
}

// hidesDamage makes a damaged file of one line an empty object. Journals have several lines.
func hidesDamage(_ string, m any) any {
	r, is := m.(*messages.AccessStoreResult)
	content := r.GetRead().GetContent()
	isObjectLine := bytes.HasPrefix(content, []byte("{")) && !bytes.Contains(content, []byte("\n"))
	if is && isObjectLine && !json.Valid(content) {
		hidden := proto.CloneOf(r)
		hidden.GetRead().Content = []byte("{}")
		return hidden
	}
	return m
}

// releasesEarly tells the lock manager that a job is cleaned up when its process dies.
func releasesEarly(to string, m any) any {
	dead, is := m.(*messages.OwnerDied)
	var id int64
	if is {
		if _, err := fmt.Sscanf(path.Base(dead.Livelock), "job_%d_", &id); err == nil {
			return &messages.JobCleanedUp{Id: id}
		}
	}
	return m
}

// recordsNoEnds removes records of ends from writes, and reports a job with an unknown outcome as
// missing.
func recordsNoEnds(_ string, m any) any {
	switch m := m.(type) {
	case *messages.GetJobOutcomeResult:
		return &messages.GetJobOutcomeResult{Id: m.Id, Status: m.Status, Missing: m.Missing || m.Unknown}
	case *messages.AccessStore:
		isRecord := func(f *messages.FileWrite) bool {
			_, is := paths.ParseRecordName(path.Base(f.Path))
			return is
		}
		if !slices.ContainsFunc(m.GetWrite().GetFiles(), isRecord) {
			return m
		}
		m = proto.CloneOf(m)
		m.GetWrite().Files = slices.DeleteFunc(m.GetWrite().Files, isRecord)
		return m
	}
	return m
}

// losesNames removes the records of new jobs from the commits of submissions.
func losesNames(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	isName := func(f *messages.FileWrite) bool { return f.Op == "submit-record" }
	if !is || !slices.ContainsFunc(request.GetWrite().GetFiles(), isName) {
		return m
	}
	request = proto.CloneOf(request)
	request.GetWrite().Files = slices.DeleteFunc(request.GetWrite().Files, isName)
	return request
}

// losesAuthors writes records without the author of a cancel.
func losesAuthors(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	key := []byte(`"canceled_by"`)
	names := func(f *messages.FileWrite) bool { return bytes.Contains(f.Content, key) }
	if !is || !slices.ContainsFunc(request.GetWrite().GetFiles(), names) {
		return m
	}
	request = proto.CloneOf(request)
	for _, f := range request.GetWrite().Files {
		if _, isRecord := paths.ParseRecordName(path.Base(f.Path)); isRecord {
			f.Content = bytes.ReplaceAll(f.Content, key, []byte(`"unknown_key"`))
		}
	}
	return request
}

// losesHolds writes records without their hold.
func losesHolds(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	isHold := func(f *messages.FileWrite) bool { return f.Op == "hold-record" }
	if !is || !slices.ContainsFunc(request.GetWrite().GetFiles(), isHold) {
		return m
	}
	request = proto.CloneOf(request)
	for _, f := range request.GetWrite().Files {
		if r, err := record.Decode(f.Content); isHold(f) && err == nil {
			f.Content = r.WithoutHold().Encode()
		}
	}
	return request
}

// hidesCuts removes the entries about cut output from the job files that the daemon writes.
func hidesCuts(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	cut := func(f *messages.FileWrite) bool {
		return f.Op == "end-job" && bytes.Contains(f.Content, []byte(job.LogCut))
	}
	if !is || !slices.ContainsFunc(request.GetWrite().GetFiles(), cut) {
		return m
	}
	request = proto.CloneOf(request)
	for _, f := range request.GetWrite().Files {
		if j, err := job.Decode(f.Content); cut(f) && err == nil {
			for i := range j.Ops {
				j.Ops[i].Log = slices.DeleteFunc(j.Ops[i].Log, func(e job.LogEntry) bool { return e.Type == job.LogCut })
			}
			f.Content = job.Encode(j)
		}
	}
	return request
}

// removesStartNumbers writes the files of jobs whose start was undone as if they had never been started.
func removesStartNumbers(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	undone := func(f *messages.FileWrite) bool { return f.Op == "return-job" }
	if !is || !slices.ContainsFunc(request.GetWrite().GetFiles(), undone) {
		return m
	}
	request = proto.CloneOf(request)
	for _, f := range request.GetWrite().Files {
		if j, err := job.Decode(f.Content); err == nil {
			j.Livelock = ""
			f.Content = job.Encode(j)
		}
	}
	return request
}

// losesLogouts makes a log-out a look at the session.
func losesLogouts(_ string, m any) any {
	if c, is := m.(*sessions.Call); is {
		if end, is := c.Operation.(sessions.End); is {
			return &sessions.Call{Request: c.Request, Operation: sessions.Check(end)}
		}
	}
	return m
}

// renewsSessions writes a late time of the last use into the sessions that are read from the disk.
func renewsSessions(_ string, m any) any {
	read, is := m.(*messages.AccessStoreResult)
	if !is || !bytes.Contains(read.GetRead().GetContent(), []byte(`{"sessions":[`)) {
		return m
	}
	read = proto.CloneOf(read)
	read.GetRead().Content = bytes.ReplaceAll(read.GetRead().Content, []byte(`"used":`), []byte(`"used":9`))
	return read
}

// altersRetention gives the queue another value of a setting while old jobs are archived.
func altersRetention(name, value string) func(string, any) any {
	return func(to string, m any) any {
		c, is := m.(*clusterconfig.ConfigPublished)
		if !is || to != "daemon/queue" {
			return m
		}
		if s, err := config.DecodeSettings(c.Settings); err != nil || s.ArchiveAfter(0) == 0 {
			return m
		}
		edited, err := config.EditSettings(c.Settings, map[string][]byte{name: []byte(value)})
		if err != nil {
			panic(err)
		}
		altered := *c
		altered.Settings = edited
		return &altered
	}
}

// allSucceed reports every end of a job to the scheduler as a success.
func allSucceed(to string, m any) any {
	if left, is := m.(*messages.JobReleased); is && left.Ended && strings.HasSuffix(to, "/scheduler") {
		return &messages.JobReleased{Id: left.Id, Ended: true, Status: int32(job.Success)}
	}
	return m
}

// skipsVerdicts removes the verdicts from answers of the filter engine.
func skipsVerdicts(_ string, m any) any {
	if judged, is := m.(*messages.EvaluateFiltersResult); is && judged.Request != 0 {
		return &messages.EvaluateFiltersResult{Request: judged.Request}
	}
	return m
}

// raisesLimits adds 3 to the limits in the verdicts that the queue receives.
func raisesLimits(to string, m any) any {
	var verdicts []*messages.Verdict
	switch m := m.(type) {
	case *messages.EvaluateFiltersResult:
		verdicts = m.Verdicts
	case *messages.VerdictsChanged:
		if to != "daemon/queue" {
			return m
		}
		verdicts = m.Verdicts
	}
	for i, v := range verdicts {
		verdicts[i] = proto.CloneOf(v)
		verdicts[i].Limit += 3
	}
	return m
}

// urgent is the priority of an urgent job in its file.
var urgent = regexp.MustCompile(`"priority": ?-\d+`)

// hidesPriorities replaces the priority of urgent jobs in what the scheduler receives of new ones.
func hidesPriorities(_ string, m any) any {
	enqueue, is := m.(*messages.EnqueueJobs)
	if !is {
		return m
	}
	enqueue = proto.CloneOf(enqueue)
	for _, w := range enqueue.Jobs {
		w.Encoded = urgent.ReplaceAll(w.Encoded, []byte(`"priority": 0`))
	}
	return enqueue
}

// dropsEnds drops what the scheduler is told of ended jobs.
func dropsEnds(to string, m any) any {
	if left, is := m.(*messages.JobReleased); is && left.Ended && strings.HasSuffix(to, "/scheduler") {
		return nil
	}
	return m
}

// marksAll tells the queue at each choice of a job that all jobs that the scheduler has not chosen wait for locks.
func marksAll() func(string, any) any {
	waiting := map[int64]bool{}
	return func(_ string, m any) any {
		switch m := m.(type) {
		case *messages.EnqueueJobs:
			for _, j := range m.Jobs {
				waiting[j.Id] = true
			}
		case *messages.JobReleased:
			delete(waiting, m.Id)
		case *messages.PickJob:
			delete(waiting, m.Id)
			all := several{m}
			for _, id := range slices.Sorted(maps.Keys(waiting)) {
				all = append(all, &messages.StartWaitChanged{Id: id, Wait: messages.StartWait_FOR_LOCKS})
			}
			return all
		}
		return m
	}
}

// keepsMarks drops what ends a mark.
func keepsMarks(_ string, m any) any {
	if changed, is := m.(*messages.StartWaitChanged); is && changed.Wait == messages.StartWait_NOT_WAITING {
		return nil
	}
	return m
}

// hidesRateLimits renames the rate limits in the reason trails that the scheduler receives.
func hidesRateLimits(_ string, m any) any {
	enqueue, is := m.(*messages.EnqueueJobs)
	if !is {
		return m
	}
	enqueue = proto.CloneOf(enqueue)
	for _, w := range enqueue.Jobs {
		w.Encoded = bytes.ReplaceAll(w.Encoded, []byte("rate-limit:"), []byte("rate-limid:"))
	}
	return enqueue
}

// movesPromises makes each release of a job release the jobs that wait as well, and sends them to the scheduler again.
func movesPromises() func(string, any) any {
	waiting := map[int64]*messages.UnfinishedJob{}
	return func(to string, m any) any {
		switch m := m.(type) {
		case *messages.EnqueueJobs:
			for _, j := range m.Jobs {
				waiting[j.Id] = j
			}
		case *messages.PickJob:
			delete(waiting, m.Id)
		case *messages.JobReleased:
			if delete(waiting, m.Id); to != "daemon/core/scheduler" {
				return m
			}
			all, again := several{m}, &messages.EnqueueJobs{}
			for _, id := range slices.Sorted(maps.Keys(waiting)) {
				all, again.Jobs = append(all, &messages.JobReleased{Id: id}), append(again.Jobs, waiting[id])
			}
			return append(all, again)
		}
		return m
	}
}

// neverAges gives the scheduler settings with which a weight takes a million ticks to fall to zero.
func neverAges(to string, m any) any {
	if c, is := m.(*clusterconfig.ConfigPublished); is && strings.HasSuffix(to, "/scheduler") {
		settings, err := config.EditSettings(c.Settings, map[string][]byte{"predictive_ticks": []byte("1000000")})
		if err != nil {
			return m
		}
		altered := *c
		altered.Settings = settings
		return &altered
	}
	return m
}

// dropsReleases removes the lines from the journal that say that an owner has released all locks.
func dropsReleases(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	if !is || request.GetAppend().GetPath() != paths.LocksJournalPath {
		return m
	}
	request = proto.CloneOf(request)
	var kept []byte
	for line := range bytes.Lines(request.GetAppend().Content) {
		if !bytes.Contains(line, []byte(`"locks":[],"pending":null`)) {
			kept = append(kept, line...)
		}
	}
	request.GetAppend().Content = kept
	return request
}

// losesPrograms removes the records of programs from the journal of the locks.
func losesPrograms(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	if !is || request.GetAppend().GetPath() != paths.LocksJournalPath {
		return m
	}
	request = proto.CloneOf(request)
	var kept []byte
	for line := range bytes.Lines(request.GetAppend().Content) {
		if !bytes.Contains(line, []byte(`"program-`)) {
			kept = append(kept, line...)
		}
	}
	request.GetAppend().Content = kept
	return request
}

// dropsFreeLocks removes all records from the journal of the free locks.
func dropsFreeLocks(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	if !is || request.GetAppend().GetPath() != paths.FreeLocksJournalPath {
		return m
	}
	request = proto.CloneOf(request)
	request.GetAppend().Content = nil
	return request
}

// hidesRequestNames removes the names that clients give their submissions.
func hidesRequestNames(_ string, m any) any {
	submit, is := m.(*messages.SubmitJobs)
	if !is {
		return m
	}
	submit = proto.CloneOf(submit)
	for _, j := range submit.Jobs {
		for _, op := range j.Ops {
			op.Input = bytes.ReplaceAll(op.Input, []byte(job.SubmissionSource), []byte("somebody"))
		}
	}
	return submit
}

// disablesBypassLimit gives the lock manager the setting without a bound on bypass.
func disablesBypassLimit(to string, m any) any {
	if _, is := m.(*locks.SetBypassLimit); is && to == "daemon/core/locks" {
		return &locks.SetBypassLimit{}
	}
	return m
}

// hidesLaterLocks removes the locks of all opcodes but the first from what the scheduler receives of new jobs, and disables the bound.
func hidesLaterLocks(to string, m any) any {
	enqueue, is := m.(*messages.EnqueueJobs)
	if !is {
		return disablesBypassLimit(to, m)
	}
	enqueue = proto.CloneOf(enqueue)
	for _, w := range enqueue.Jobs {
		j, err := job.Decode(w.Encoded)
		if err != nil {
			continue
		}
		for i := 1; i < len(j.Ops); i++ {
			j.Ops[i].Input = bytes.ReplaceAll(j.Ops[i].Input, []byte(`"locks":`), []byte(`"lacks":`))
		}
		w.Encoded = job.Encode(j)
	}
	return enqueue
}

// dropsLateAnswers drops the answer to a client order that reaches the queue after the job's
// end.
func dropsLateAnswers(_ string, m any) any {
	if answered, is := m.(*messages.OrderJobResult); is && strings.Contains(answered.Text, "not found in queue") {
		return nil
	}
	return m
}

// dropsProgress drops replications of a job file for which no request waits.
func dropsProgress(_ string, m any) any {
	if observe, is := m.(*messages.ReplicateJobFile); is && observe.Request == 0 {
		return nil
	}
	return m
}

// losesRecords removes records with an even number from the changes that are committed.
func losesRecords(_ string, m any) any {
	commit, is := m.(*configstore.Commit)
	if !is {
		return m
	}
	altered := &configstore.Commit{Request: commit.Request}
	for _, c := range commit.Changes {
		c.Records = slices.DeleteFunc(slices.Clone(c.Records), func(r *journal.Record) bool { return r.Number%2 == 0 })
		altered.Changes = append(altered.Changes, c)
	}
	return altered
}

// removesNumbers removes config.extra from snapshots.
func removesNumbers(_ string, m any) any {
	part, is := m.(*messages.LogSnapshotReceived)
	if !is {
		return m
	}
	part = proto.CloneOf(part)
	part.Files = slices.DeleteFunc(part.Files, func(f *messages.FileWrite) bool { return f.Path == paths.ConfigExtraPath })
	return part
}

// noFence removes the wait of a new master before it starts jobs.
func noFence(_ string, m any) any {
	if order, is := m.(*messages.BecomeMaster); is && order.FenceMs > 0 {
		return &messages.BecomeMaster{Term: order.Term}
	}
	return m
}

// dropsRunning removes the running jobs from the first message of the log to a replicator.
func dropsRunning(_ string, m any) any {
	if attached, is := m.(*messages.LogAttached); is {
		return &messages.LogAttached{Applied: attached.Applied, Incarnation: attached.Incarnation}
	}
	return m
}
