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
)

// Plant is a fault that breaks a promise on which the daemon rests, on purpose: to
// see a checker find it, and what a run that fails looks like.
type Plant struct {
	Name, About string
	Plants      Plants
}

// AllPlants are those that can be asked for by name.
var AllPlants = []Plant{
	{"lying-sync", "the sync of a directory does nothing", Plants{Disk: DiskPlants{LyingSync: true}}},
	{"late-data-sync", "a file is renamed over another before its data is synced", Plants{Disk: DiskPlants{SkipDataSync: true}}},
	{"kept-files", "a file that is removed stays", Plants{Disk: DiskPlants{KeepsRemoved: true}}},
	{"torn-appends", "every third append leaves its last byte out", Plants{Disk: DiskPlants{TornAppends: true}}},
	{"late-writes", "a job's writes change places, two by two", Plants{Disk: DiskPlants{LateWrites: true}}},
	{"lost-serial", "the last id is not written", Plants{Disk: DiskPlants{Loses: "serial"}}},
	{"started-twice", "nothing of a job's start is written, and its process does not look", Plants{Disk: DiskPlants{Loses: "start-job,run-job"}, Trusting: true}},
	{"nameless", "a submission that comes twice is not known again", Plants{Alter: forgetsNames}},
	{"unsynced-ends", "the last write of a job is not synced", Plants{UnsyncedEnds: true}},
	{"blind-adoption", "the process of a former daemon is taken for dead", Plants{BlindAdoption: true}},
	{"silent-ends", "nobody is told of the end of a process", Plants{SilentEnds: true}},
	{"more-slots", "the daemon counts a run slot too many", Plants{MoreSlots: 1}},
	{"early-release", "the locks of a process are free when it dies, whatever it has left", Plants{Alter: freesTooSoon}},
	{"survivors", "a forced end leaves what has left the command's group", Plants{Survivors: true}},
	{"marker-only", "what has no marker is not found where the daemon did not see the process end", Plants{MarkerOnly: true}},
	{"no-deaths", "the lock manager hears of no death", Plants{Alter: drops("daemon/core/locks", &messages.OwnerDead{}, &messages.OwnersDead{}, &messages.JobOver{})}},
	{"unwritten-release", "it is not written when locks are given back", Plants{Alter: forgetsReleases}},
	{"no-lock-bound", "requests for locks are overtaken without end", Plants{Alter: overtakesForEver}},
	{"unrecorded-ends", "how an archived job has ended is not recorded beside those that depend on it, and one that the master lacks never was", Plants{Alter: recordsNoEnds}},
	{"all-succeed", "every end of a job is told as a success", Plants{Alter: allSucceed}},
	{"burnt-starts", "a job is failed by the first start that comes to nothing", Plants{Patience: jobs.Patience{Tries: 1}}},
	{"no-verdicts", "the scheduler hears of no change of the rules", Plants{Alter: drops("daemon/core/scheduler", &messages.VerdictsChanged{})}},
	{"unjudged", "new jobs are not judged by the rules", Plants{Alter: judgesNobody}},
	{"paused-get-locks", "the lock manager is not told of who is paused", Plants{Alter: drops("daemon/core/locks", &messages.WithholdLocks{})}},
	{"greater-limits", "a rule's number is greater than it says", Plants{Alter: allowsMore}},
	{"no-reason-limits", "the limits in reason trails are not seen", Plants{Alter: seesNoLimits}},
	{"no-ageing", "waiting jobs do not age", Plants{Alter: neverAges}},
	{"held-reports", "a job process that asks for permission reports nothing until it has it", Plants{HeldReports: true}},
	{"unheard-progress", "the queue does not hear how far a job's process has come", Plants{Alter: drops("daemon/queue", &messages.JobProgress{})}},
	{"lost-wishes", "who wants something of a job that has just ended is not answered", Plants{Alter: losesWishes}},
	{"untold-progress", "the other nodes do not hear how far a job's process has come before it asks to go on", Plants{Alter: tellsEndsOnly}},
	{"hasty-log", "an entry counts as committed before a majority has it", Plants{Log: LogPlants{Hasty: true}}},
	{"skipped-entry", "the second node leaves an entry of the log out", Plants{Log: LogPlants{Skips: "n2"}}},
	{"forgotten-jobs", "a node forgets which jobs run", Plants{Alter: forgetsRunning}},
	{"no-fence", "a new master does not wait for the jobs of the old one", Plants{Alter: noFence}},
	{"lets-in", "a node that has lost its queue, and not its log, starts as if nothing were missing", Plants{LetsIn: true}},
	{"no-master", "nobody is told to be the master", Plants{Alter: drops("node/master", &messages.BecomeMaster{})}},
}

// clusterPlants are those that need several nodes.
var clusterPlants = []string{"hasty-log", "skipped-entry", "forgotten-jobs", "no-fence", "lets-in", "no-master", "untold-progress"}

// FindPlant finds one by its name; "" is none.
func FindPlant(name string) (Plants, error) {
	names := make([]string, len(AllPlants))
	for i, p := range AllPlants {
		if p.Name == name {
			return p.Plants, nil
		}
		names[i] = p.Name
	}
	if name == "" {
		return Plants{}, nil
	}
	return Plants{}, fmt.Errorf("unknown plant %q: there are %s", name, strings.Join(names, ", "))
}

// drops has messages of some types not reach an actor.
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

// freesTooSoon makes the death of a process the end of its job, for the locks.
func freesTooSoon(to string, m any) any {
	dead, is := m.(*messages.OwnerDead)
	var id int64
	if is {
		if _, err := fmt.Sscanf(path.Base(dead.Livelock), "job_%d_", &id); err == nil {
			return &messages.JobOver{Id: id}
		}
	}
	return m
}

// recordsNoEnds leaves records out of what is written, and has what a node does not know
// count as what there is not.
func recordsNoEnds(_ string, m any) any {
	switch m := m.(type) {
	case *messages.JobOutcome:
		return &messages.JobOutcome{Id: m.Id, Status: m.Status, Missing: m.Missing || m.Unknown}
	case *messages.StoreRequest:
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
	if left, is := m.(*messages.JobLeft); is && left.Ended && strings.HasSuffix(to, "/scheduler") {
		return &messages.JobLeft{Id: left.Id, Ended: true, Status: int32(job.Success)}
	}
	return m
}

func judgesNobody(_ string, m any) any {
	if judged, is := m.(*messages.JobsJudged); is && judged.Request != 0 {
		return &messages.JobsJudged{Request: judged.Request}
	}
	return m
}

func allowsMore(to string, m any) any {
	var verdicts []*messages.Verdict
	switch m := m.(type) {
	case *messages.JobsJudged:
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

func seesNoLimits(_ string, m any) any {
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
	if c, is := m.(*messages.ConfigChanged); is && strings.HasSuffix(to, "/scheduler") {
		return &messages.ConfigChanged{Request: c.Request, Content: c.Content, Settings: []byte(`{"predictive_ticks": 1000000}`)}
	}
	return m
}

// forgetsReleases leaves out of the locks' journal that somebody has none any more.
func forgetsReleases(_ string, m any) any {
	request, is := m.(*messages.StoreRequest)
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

// forgetsNames hides how clients call their submissions.
func forgetsNames(_ string, m any) any {
	submit, is := m.(*messages.SubmitJobs)
	if !is {
		return m
	}
	submit = proto.CloneOf(submit)
	for _, j := range submit.Jobs {
		for _, op := range j.Ops {
			op.Input = bytes.ReplaceAll(op.Input, []byte(job.RequestSource), []byte("somebody"))
		}
	}
	return submit
}

func overtakesForEver(to string, m any) any {
	if c, is := m.(*messages.ConfigChanged); is && to == "daemon/core/locks" {
		return &messages.ConfigChanged{Request: c.Request, Content: c.Content, Settings: []byte(`{"lock_bypass_after": 0}`)}
	}
	return m
}

// losesWishes drops the answer to a wish that comes to the queue after the job's end.
func losesWishes(_ string, m any) any {
	if answered, is := m.(*messages.JobAnswered); is && strings.Contains(answered.Text, "not found in queue") {
		return nil
	}
	return m
}

// tellsEndsOnly drops what is observed without that anybody waits for it.
func tellsEndsOnly(_ string, m any) any {
	if observe, is := m.(*messages.ObserveJob); is && observe.Request == 0 {
		return nil
	}
	return m
}

// noFence has a new master start jobs at once.
func noFence(_ string, m any) any {
	if order, is := m.(*messages.BecomeMaster); is && order.FenceMs > 0 {
		return &messages.BecomeMaster{Term: order.Term}
	}
	return m
}

// forgetsRunning has nodes forget which jobs run where when they start.
func forgetsRunning(_ string, m any) any {
	if attached, is := m.(*messages.LogAttached); is {
		return &messages.LogAttached{Applied: attached.Applied, Incarnation: attached.Incarnation}
	}
	return m
}
