// Package paths has the names of files below the data directory and of livelock files, which are Ganeti's (queue.md
// 3.1, locks.md 3). It turns job ids and serials into names and file contents, and back. It is pure, and linked into
// the job process.
package paths

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Paths below the data directory, slash-separated: Ganeti's layout, and
// queue/quarantine, which Ganeti's readers ignore because it matches no job
// file's name.
const (
	ConfigPath = "config.data"
	// TempResPath holds the temporary reservations, ConfigExtraPath what neither it nor config.data has fields for,
	// ConfigJournalPath all changes since these three were written.
	TempResPath       = "tempres.data"
	ConfigExtraPath   = "config.extra"
	ConfigJournalPath = "config.journal"
	// SettingsPath holds lockstep's own settings. Without the file they are the defaults.
	SettingsPath = "settings.json"
	// SessionsPath holds the sessions of the console (package session). Without the file there are none.
	SessionsPath = "sessions.json"
	// AccessPath holds the roles that were granted to users and groups (package access). Without the file there are none.
	AccessPath = "access.json"
	// FeaturesPath holds which features the versions of the members of a cluster know (replication.FeaturesKnown).
	FeaturesPath = "features.json"
	// AuditDir has the files of the audit log (package audit).
	AuditDir = "audit"
	// ScheduleDir has a file for each schedule (package schedule).
	ScheduleDir = "schedules"
	// RunDirPath names the run directory in which the job processes and lock owners of this data directory live.
	RunDirPath = "run-directory"
	// DurationsPath holds how long opcodes of each kind have taken. Without the file the scheduler learns it again.
	DurationsPath = "durations.json"
	// ConfigHistoryPath holds the newest changes of the configuration for people, one a line; ConfigHistoryOlderPath the ones
	// before (package history).
	ConfigHistoryPath      = "config.history"
	ConfigHistoryOlderPath = "config.history.older"
	// ConfdKeyPath is the key of queries about the configuration (confd.md 1). ConfdOtherKeyPath is a second key that is valid while
	// the key is rotated.
	ConfdKeyPath      = "hmac.key"
	ConfdOtherKeyPath = "hmac.key.other"
	// LocksPath holds the last snapshot of the locks, LocksJournalPath all changes since.
	LocksPath        = "locks.data"
	LocksJournalPath = "locks.journal"
	// FreeLocksPath and FreeLocksJournalPath are the same for the free locks, which Ganeti does not know. They exist once a
	// free lock has been used.
	FreeLocksPath        = "locks.free.data"
	FreeLocksJournalPath = "locks.free.journal"
	// SsconfPrefix begins the names of the ssconf files, ssconf_<key> (config.md 9).
	SsconfPrefix = "ssconf_"
	// GanetiCertificatePath is the certificate of Ganeti's node daemons. Every node of a Ganeti cluster has it, and
	// lockstep never makes it: it marks Ganeti's data directory.
	GanetiCertificatePath = "server.pem"
	// GanetiClientCertificatePath is the certificate that a node shows to node daemons.
	GanetiClientCertificatePath = "client.pem"

	QueueDir      = "queue"
	ArchiveDir    = "queue/archive"
	QuarantineDir = "queue/quarantine"

	// SerialPath holds the last job id that was given, see [ParseSerial].
	SerialPath = "queue/serial"
	// VersionPath holds the layout's version, checked at the daemon's start.
	VersionPath = "queue/version"
	// LockPath is locked by the daemon while it runs, so that there is one daemon.
	LockPath = "queue/lock"
	// MemberPath and LogQueuePath hold the same id on a node of a cluster: equal ids show that the log in raft/ and the
	// queue belong together. Each also holds the index of an entry of the log whose effects the queue has: a lower one in the queue
	// shows that it is an older copy.
	MemberPath   = "queue/member"
	LogQueuePath = "raft/queue"
	// NeedsLogPath exists on a node of a cluster while files of the queue may be lost with the power, and the log has them. It
	// holds the id of the boot since which that is so.
	NeedsLogPath = "queue/needs-log"
	// DrainPath is an empty file: while it exists the queue is drained.
	DrainPath = QueueDir + "/" + DrainName
	DrainName = "drain"

	// KeptDir has a directory for each job whose output is kept, with plain files that its process writes (--keep-output). While
	// KeptFullPath exists, job processes keep no more output.
	KeptDir      = "output"
	KeptFullPath = KeptDir + "/full"
	// KeptMark is in the directory of each job: when the job was submitted, as its file says it ("[1795175118, 595666]"). Where the ids of a
	// queue were given before, as after a restore, it tells the output of a job from that of a former job with the same id.
	KeptMark = "submitted"
)

const (
	jobPrefix = "job-"
	// recordPrefix begins the name of the file beside a job's, which Ganeti's readers
	// ignore because it matches no job file's name.
	recordPrefix = "lockstep-"
	// jobsPerArchiveDir is Ganeti's: archived job N lies in archive/(N div 10000).
	jobsPerArchiveDir = 10000
)

// JobPath is the path of a live job's file: "queue/job-12". Finished jobs stay
// there until they are archived. A negative id is a broken invariant: it panics.
func JobPath(id int64) string {
	return QueueDir + "/" + jobName(id)
}

// ArchivePath is the path of an archived job's file:
// "queue/archive/3/job-30012". A negative id panics.
func ArchivePath(id int64) string {
	return ArchiveDir + "/" + strconv.FormatInt(ArchiveDirOf(id), 10) + "/" + jobName(id)
}

// ArchiveDirOf is the number of the directory of an archived job: its path begins with "queue/archive/<number>/".
func ArchiveDirOf(id int64) int64 { return id / jobsPerArchiveDir }

// RecordPath is the path of the file beside a live job's, which need not exist: "queue/lockstep-12". It holds
// lockstep's data about the job (package record).
func RecordPath(id int64) string { return recordPathOf(JobPath(id)) }

// ArchivedRecordPath is RecordPath for an archived job: "queue/archive/3/lockstep-30012".
func ArchivedRecordPath(id int64) string { return recordPathOf(ArchivePath(id)) }

// recordPathOf is the path of the record of the job with that file.
func recordPathOf(file string) string {
	dir, base := path.Split(file)
	return dir + recordPrefix + strings.TrimPrefix(base, jobPrefix)
}

const auditPrefix = AuditDir + "/audit-"

// AuditPath is the path of the file of the audit log whose first entry has that number: "audit/audit-1".
func AuditPath(first uint64) string { return auditPrefix + strconv.FormatUint(first, 10) }

// ParseAuditPath is the inverse of [AuditPath]. Only what it returns for a number from 1 on is the path of such a file.
func ParseAuditPath(file string) (first uint64, ok bool) {
	digits, ok := strings.CutPrefix(file, auditPrefix)
	if !ok {
		return 0, false
	}
	n, ok := parseDecimal(digits)
	return uint64(max(n, 0)), ok && n > 0
}

const scheduleSuffix = ".json"

// SchedulePath is the path of the file of the schedule with that name: "schedules/nightly.json".
func SchedulePath(name string) string { return ScheduleDir + "/" + name + scheduleSuffix }

// ParseSchedulePath is the inverse of [SchedulePath]. The name is not checked.
func ParseSchedulePath(file string) (name string, ok bool) {
	base, inDir := strings.CutPrefix(file, ScheduleDir+"/")
	name, ok = strings.CutSuffix(base, scheduleSuffix)
	return name, inDir && ok && name != "" && !strings.Contains(name, "/")
}

// KeptDirOf is the directory of the kept output of a job: "output/12".
func KeptDirOf(id int64) string {
	if id < 0 {
		panic(fmt.Sprintf("paths: negative job id %d", id))
	}
	return KeptDir + "/" + strconv.FormatInt(id, 10)
}

// ParseKeptDirName is the inverse of the last element of [KeptDirOf].
func ParseKeptDirName(base string) (id int64, ok bool) { return parseDecimal(base) }

// KeptName is the name of the file in KeptDirOf for a stream of a try of an opcode, numbered from 1: "0.stdout", and from the second try
// on "0.try2.stdout". The output of a stream is the content of its files, in the order of the opcodes and of their tries; a try without
// output may have no file.
func KeptName(op, try int, stream string) string {
	if try > 1 {
		return fmt.Sprintf("%d.%s%d.%s", op, keptTry, try, stream)
	}
	return strconv.Itoa(op) + "." + stream
}

const keptTry = "try"

// ParseKeptName is the inverse of [KeptName].
func ParseKeptName(base string) (op, try int, stream string, ok bool) {
	digits, rest, _ := strings.Cut(base, ".")
	n, ok := parseDecimal(digits)
	op, try, stream = int(n), 1, rest
	if number, isLater := strings.CutPrefix(rest, keptTry); ok && isLater {
		number, stream, _ = strings.Cut(number, ".")
		n, ok = parseDecimal(number)
		try, ok = int(n), ok && n > 1
	}
	return op, try, stream, ok && (stream == "stdout" || stream == "stderr")
}

func jobName(id int64) string {
	if id < 0 {
		panic(fmt.Sprintf("paths: negative job id %d", id))
	}
	return jobPrefix + strconv.FormatInt(id, 10)
}

// ParseJobName is the inverse of the last element of [JobPath]. Only
// "job-<decimal>" without sign or padding, within int64, is a job file's name;
// temporary and foreign files are not.
func ParseJobName(base string) (id int64, ok bool) {
	digits, ok := strings.CutPrefix(base, jobPrefix)
	if !ok {
		return 0, false
	}
	return parseDecimal(digits)
}

// ParseRecordName is the inverse of the last element of [RecordPath], as strict as
// [ParseJobName].
func ParseRecordName(base string) (id int64, ok bool) {
	digits, ok := strings.CutPrefix(base, recordPrefix)
	if !ok {
		return 0, false
	}
	return parseDecimal(digits)
}

// parseDecimal accepts exactly what strconv.FormatInt writes for values >= 0, so that a number and its name stay one to one. The result
// is false for any other text.
func parseDecimal(s string) (int64, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' || (s[0] == '0' && len(s) > 1) {
		return 0, false
	}
	value, err := strconv.ParseInt(s, 10, 64)
	return value, err == nil
}

// ParseSerial reads the contents of [SerialPath]: a decimal number >= 0; spaces and newlines after it are ignored.
// Anything else is an error, because a serial that is too low would assign an id twice.
func ParseSerial(data []byte) (int64, error) {
	text := strings.TrimRight(string(data), " \t\r\n")
	serial, ok := parseDecimal(text)
	if !ok {
		return 0, fmt.Errorf("serial %.40q is not a decimal number", text)
	}
	return serial, nil
}

// FormatSerial is the inverse of [ParseSerial]: "12\n".
func FormatSerial(serial int64) []byte {
	return append(strconv.AppendInt(nil, serial, 10), '\n')
}

const jobLivelockPrefix = "job_"

// JobLivelockPattern matches the names of all job processes' livelocks.
const JobLivelockPattern = jobLivelockPrefix + "*"

// JobLivelockNameStart is the start of the name of a job process's livelock: Ganeti's job_%06d.
func JobLivelockNameStart(id int64) string { return fmt.Sprintf("%s%06d", jobLivelockPrefix, id) }

// JobLivelockName is the start of the name of the livelock that the process of a numbered start of a job makes: from the
// second start on it has the number. Numbers begin with 1.
func JobLivelockName(id, start int64) string {
	if start <= 1 {
		return JobLivelockNameStart(id)
	}
	return fmt.Sprintf("%s_%d", JobLivelockNameStart(id), start)
}

const undonePrefix = "undone_"

// UndoneLivelock is in the file of a job whose start with that number was undone: no process acts on the job.
func UndoneLivelock(start int64) string { return undonePrefix + strconv.FormatInt(start, 10) }

// StartOfLivelock is the number of the last start of a job whose file has the livelock; 0: it was never started. Ganeti's names
// and those of a job's first process have no number, and are of the first start.
func StartOfLivelock(file string) int64 {
	name := path.Base(file)
	if digits, undone := strings.CutPrefix(name, undonePrefix); undone {
		start, _ := strconv.ParseInt(digits, 10, 64)
		return max(0, start)
	}
	if !IsJobLivelock(name) {
		return 0
	}
	if parts := strings.Split(name, "_"); len(parts) == 6 { // job_ID_START_SECONDS_PID_RANDOM
		if start, err := strconv.ParseInt(parts[2], 10, 64); err == nil && start > 1 {
			return start
		}
	}
	return 1
}

// IsJobLivelock reports whether the name is that of a job process's livelock, not of a daemon's or a tool's, as Ganeti
// does. A job file without such a name was never confirmed, so the job can be started again (design.md "Start").
func IsJobLivelock(file string) bool {
	return strings.HasPrefix(path.Base(file), jobLivelockPrefix)
}

// JobIDOfLivelock is the id of the job whose process made the livelock of that name or path. ok is false for the livelock of anything
// else.
func JobIDOfLivelock(file string) (id int64, ok bool) {
	suffix, ok := strings.CutPrefix(path.Base(file), jobLivelockPrefix)
	digits, _, found := strings.Cut(suffix, "_")
	if !ok || !found {
		return 0, false
	}
	id, err := strconv.ParseInt(digits, 10, 64)
	return id, err == nil && id >= 0 && JobLivelockNameStart(id) == jobLivelockPrefix+digits
}
