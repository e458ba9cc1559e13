package sim

import (
	"bytes"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"lockstep/actors/jobs"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
	"lockstep/sim/consensus"
	"lockstep/sim/simdisk"
)

// Mutation is a named set of Mutations: a bug built in on purpose, to show that a checker finds
// it and what a failing run looks like.
type Mutation struct {
	Name, About string
	Mutations   Mutations
}

// AllMutations are the named ones. Kept seeds and the flag --plant use the names.
var AllMutations = []Mutation{
	{"lying-sync", "the sync of a directory does nothing", Mutations{Disk: simdisk.Mutations{LyingSync: true}}},
	{"late-data-sync", "a file is renamed over another before its data is synced", Mutations{Disk: simdisk.Mutations{SkipDataSync: true}}},
	{"kept-files", "a file that is removed stays", Mutations{Disk: simdisk.Mutations{KeepsRemoved: true}}},
	{"torn-appends", "every third append leaves its last byte out", Mutations{Disk: simdisk.Mutations{TornAppends: true}}},
	{"late-writes", "a job's writes change places, two by two", Mutations{Disk: simdisk.Mutations{LateWrites: true}}},
	{"lost-serial", "the last id is not written", Mutations{Disk: simdisk.Mutations{Loses: "serial"}}},
	{"started-twice", "nothing of a job's start is written, and its process does not look", Mutations{Disk: simdisk.Mutations{Loses: "start-job,run-job"}, AnyLivelock: true}},
	{"nameless", "a submission that comes twice is not known again", Mutations{Alter: hidesRequestNames}},
	{"unsynced-ends", "the last write of a job is not synced", Mutations{UnsyncedEnds: true}},
	{"blind-adoption", "the process of a former daemon is taken for dead", Mutations{BlindAdoption: true}},
	{"silent-ends", "the end of a process is not reported", Mutations{SilentEnds: true}},
	{"more-slots", "the daemon counts a run slot too many", Mutations{MoreSlots: 1}},
	{"early-release", "the locks of a process are free when it dies, whatever it has left", Mutations{Alter: releasesEarly}},
	{"survivors", "a forced end leaves what has left the command's group", Mutations{Survivors: true}},
	{"marker-only", "what has no marker is not found where the daemon did not see the process end", Mutations{MarkerOnly: true}},
	{"no-deaths", "the lock manager hears of no death", Mutations{Alter: drops("daemon/core/locks", &messages.OwnerDied{}, &messages.OwnersProbed{}, &messages.JobCleanedUp{})}},
	{"unwritten-release", "it is not written when locks are given back", Mutations{Alter: dropsReleases}},
	{"no-lock-bound", "requests for locks are overtaken without end", Mutations{Alter: disablesBypassLimit}},
	{"unrecorded-ends", "how an archived job has ended is not recorded beside those that depend on it, and one that the master lacks never was", Mutations{Alter: recordsNoEnds}},
	{"all-succeed", "every end of a job is reported as a success", Mutations{Alter: allSucceed}},
	{"burnt-starts", "a job is failed by the first start that comes to nothing", Mutations{Patience: jobs.RetryLimit{Tries: 1}}},
	{"no-verdicts", "the scheduler hears of no change of the rules", Mutations{Alter: drops("daemon/core/scheduler", &messages.VerdictsChanged{})}},
	{"unjudged", "new jobs are not judged by the rules", Mutations{Alter: skipsVerdicts}},
	{"paused-get-locks", "the lock manager is not told of who is paused", Mutations{Alter: drops("daemon/core/locks", &messages.SetLockPause{})}},
	{"greater-limits", "a rule's number is greater than it says", Mutations{Alter: raisesLimits}},
	{"no-reason-limits", "the limits in reason trails are not seen", Mutations{Alter: hidesRateLimits}},
	{"no-ageing", "waiting jobs do not age", Mutations{Alter: neverAges}},
	{"held-reports", "a job process that asks for permission reports nothing until it has it", Mutations{DelayReports: true}},
	{"unheard-progress", "the queue does not hear how far a job's process has come", Mutations{Alter: drops("daemon/queue", &messages.JobProgressed{})}},
	{"lost-wishes", "who wants something of a job that has just ended is not answered", Mutations{Alter: dropsLateAnswers}},
	{"untold-progress", "the other nodes do not hear how far a job's process has come before it asks to go on", Mutations{Alter: dropsProgress}},
	{"hasty-log", "an entry counts as committed before a majority has it", Mutations{Log: consensus.Mutations{Hasty: true}}},
	{"skipped-entry", "the second node leaves an entry of the log out", Mutations{Log: consensus.Mutations{Skips: "n2"}}},
	{"forgotten-jobs", "a node forgets which jobs run", Mutations{Alter: dropsRunning}},
	{"no-fence", "a new master does not wait for the jobs of the old one", Mutations{Alter: noFence}},
	{"lets-in", "a node that has lost its queue, and not its log, starts as if nothing were missing", Mutations{AdmitLostQueue: true}},
	{"no-master", "no node learns that it is the master", Mutations{Alter: drops("node/master", &messages.BecomeMaster{})}},
}

// clusterMutations are the mutations that need several nodes.
var clusterMutations = []string{"hasty-log", "skipped-entry", "forgotten-jobs", "no-fence", "lets-in", "no-master", "untold-progress"}

// FindMutation finds a mutation by its name; "" is none.
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

// drops drops messages of some types to an actor.
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

// releasesEarly makes the lock manager take the death of a process for the end of its job.
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

// recordsNoEnds removes the records of ends from what is written, and makes an unknown outcome a
// missing job.
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

func allSucceed(to string, m any) any {
	if left, is := m.(*messages.JobReleased); is && left.Ended && strings.HasSuffix(to, "/scheduler") {
		return &messages.JobReleased{Id: left.Id, Ended: true, Status: int32(job.Success)}
	}
	return m
}

func skipsVerdicts(_ string, m any) any {
	if judged, is := m.(*messages.EvaluateFiltersResult); is && judged.Request != 0 {
		return &messages.EvaluateFiltersResult{Request: judged.Request}
	}
	return m
}

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

func neverAges(to string, m any) any {
	if c, is := m.(*messages.ConfigPublished); is && strings.HasSuffix(to, "/scheduler") {
		return &messages.ConfigPublished{Request: c.Request, Content: c.Content, Settings: []byte(`{"predictive_ticks": 1000000}`)}
	}
	return m
}

// dropsReleases removes from the journal of the locks that an owner has released everything.
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

func disablesBypassLimit(to string, m any) any {
	if c, is := m.(*messages.ConfigPublished); is && to == "daemon/core/locks" {
		return &messages.ConfigPublished{Request: c.Request, Content: c.Content, Settings: []byte(`{"lock_bypass_after": 0}`)}
	}
	return m
}

// dropsLateAnswers drops the answer to a client order that reaches the queue after the job's
// end.
func dropsLateAnswers(_ string, m any) any {
	if answered, is := m.(*messages.OrderJobResult); is && strings.Contains(answered.Text, "not found in queue") {
		return nil
	}
	return m
}

// dropsProgress drops reports for which no request waits.
func dropsProgress(_ string, m any) any {
	if observe, is := m.(*messages.ReplicateJobFile); is && observe.Request == 0 {
		return nil
	}
	return m
}

// noFence makes a new master start jobs at once.
func noFence(_ string, m any) any {
	if order, is := m.(*messages.BecomeMaster); is && order.FenceMs > 0 {
		return &messages.BecomeMaster{Term: order.Term}
	}
	return m
}

// dropsRunning makes nodes forget at their start which jobs run on which node.
func dropsRunning(_ string, m any) any {
	if attached, is := m.(*messages.LogAttached); is {
		return &messages.LogAttached{Applied: attached.Applied, Incarnation: attached.Incarnation}
	}
	return m
}
