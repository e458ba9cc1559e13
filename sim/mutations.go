package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"lockstep/actors/jobs"
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
	{"forgotten-programs", "the locks of programs are not written to the journal", Mutations{Alter: dropsLockRecords(`"program-`)}},
	{"no-marks", "nothing is taken for the proof that a process has not begun its job", Mutations{NoMarks: true}},
	{"late-mark", "a job process says until its first write that it has not begun the job", Mutations{LateMark: true}},
	{"stale-mark", "the daemon believes after a boot what a lock file said before the boot, which a power loss may have changed",
		Mutations{StaleMark: true}},
	{"missing-mark", "a missing lock file is taken for the proof that a process has not begun its job", Mutations{MissingIsProof: true}},
	{"marker-only", "orphans of a process whose end the daemon did not see are found by their marker only, not by their session",
		Mutations{MarkerOnly: true}},
	{"forgotten-group", "the next daemon does not kill the control groups of dead jobs", Mutations{ForgottenGroups: true}},
	{"idle-guard", "the guard does not kill the control groups of dead jobs", Mutations{IdleGuard: true}},
	{"no-deaths", "the lock manager does not learn that an owner has died",
		Mutations{Alter: drops("daemon/core/locks", &messages.OwnerDied{}, &messages.OwnersProbed{}, &messages.JobCleanedUp{})}},
	{"unwritten-release", "a release of all locks is not written to the journal",
		Mutations{Alter: dropsLockRecords(`"locks":[],"pending":null`)}},
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
	{"lost-piece", "a job process loses half of some pieces of output on their way to its readers", Mutations{LosesPieces: true}},
	{"doubled-piece", "a job process passes some pieces of output to its readers twice", Mutations{DoublesPieces: true}},
	{"dropped-rest", "a job process ends without the rest of the output for its readers", Mutations{DropsRest: true}},
	{"endless-reader", "a job process waits without end for a reader that takes nothing, or does not come", Mutations{EndlessReader: true}},
	{"lost-logins", "the table of sessions is not written", Mutations{Disk: simdisk.Mutations{Loses: "sessions"}}},
	{"lost-logouts", "a log-out is acknowledged, and the session stays", Mutations{Alter: losesLogouts}},
	{"ageless-logins", "the sessions that a daemon finds when it starts seem to be in use", Mutations{Alter: renewsSessions}},
	{"lost-audit", "entries of the audit log are not written", Mutations{Disk: simdisk.Mutations{Loses: "audit"}}},
	{"unaudited", "a change is answered before its entry of the audit log is written", Mutations{Alter: answersUnaudited}},
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
	{"lasting-progress", "the progress of a command is shown until another command of its job says something",
		Mutations{NewAlter: keepsProgress}},
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
}, userMutations, tryMutations, scheduleMutations, timeMutations, configMutations)

// findMutation returns the mutations of a name, and none for "". An unknown name is an error that
// lists the names.
func findMutation(name string) (Mutations, error) {
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

// drops returns a mutation that drops all messages of these types to this actor.
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
