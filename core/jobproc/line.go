package jobproc

import (
	"errors"
	"slices"
	"time"

	"lockstep/core/wire"
)

// Line names a sequence of calls to the daemon. The calls of a line are made one after the other; calls of different
// lines are made side by side.
type Line uint8

const (
	// ReportLine reports the content of the job file to the queue.
	ReportLine Line = iota
	// PermissionLine asks the queue for the permission to begin an opcode.
	PermissionLine
	// LockLine takes and releases locks at the lock manager.
	LockLine
)

// Call is one call to the daemon. It replaces the call under way on its line: the shell then closes the connection of
// the replaced call before it makes this one.
type Call struct {
	Line    Line
	Number  uint64 // for Process.Answered; rises within a line
	Method  string
	Args    []any
	Timeout time.Duration // for the connection and the answer
}

// Timeouts of calls.
const (
	// CallTimeout bounds a call whose answer may take hours, such as a question for a permission. It is repeated.
	CallTimeout = 3 * time.Minute
	// reportTimeout bounds one report. The daemon answers a report at once, so without an answer the report is lost.
	reportTimeout = 10 * time.Second
	// lockTimeout exceeds the time that the lock manager waits with its answer.
	lockTimeout = (CallWaitSeconds + 30) * time.Second
)

// line is the state of one Line.
//
// Invariant: at most one of inFlight and a non-zero at is set.
type line struct {
	name     Line
	number   uint64    // of the latest call; an answer to an earlier call is dropped
	inFlight bool      // the latest call has no answer yet
	at       time.Time // when the next call is due; zero: no call waits
	backoff  Backoff
}

func newLine(name Line) line { return line{name: name, backoff: DaemonBackoff()} }

func (l *line) call(out *Actions, method string, args []any, timeout time.Duration) {
	l.number++
	l.inFlight, l.at = true, time.Time{}
	out.Calls = append(out.Calls, Call{Line: l.name, Number: l.number, Method: method, Args: args, Timeout: timeout})
}

// accept reports whether an answer is that of the latest call, which has ended then.
func (l *line) accept(number uint64) bool {
	latest := l.inFlight && number == l.number
	l.inFlight = l.inFlight && !latest
	return latest
}

// stop drops the call under way and the call that waits.
func (l *line) stop() { l.inFlight, l.at = false, time.Time{} }

// busy reports whether a call is under way or waits.
func (l *line) busy() bool { return l.inFlight || !l.at.IsZero() }

// callAgain schedules the next call after the pause of the backoff.
func (l *line) callAgain(now time.Time) { l.at = now.Add(l.backoff.Pause()) }

func (l *line) isDue(now time.Time) bool { return !l.at.IsZero() && !now.Before(l.at) }

// Classes of errors by which a daemon has decided. After any other error the daemon is asked again, above all after that
// of a node that is not the master, or not yet.
var (
	reportFinal = []string{"GenericError", "ProgrammerError"}
	lockFinal   = []string{"GenericError", "ProgrammerError"}
	queryFinal  = []string{"GenericError", "ProgrammerError", "OpPrereqError", "ParameterError", "ConfigurationError", "JobLost"}
)

// isFinal reports whether the error of a call has one of the classes, or says that the request itself is wrong. To make
// the call again would not help.
func isFinal(err error, classes []string) bool {
	var refused *wire.Error
	var malformed *wire.RequestError
	return errors.As(err, &malformed) || errors.As(err, &refused) && slices.Contains(classes, refused.Class)
}

// QueryDecided reports whether the call of an executing opcode has its final result: no error, or an error after which
// the call must not be repeated.
func QueryDecided(err error) bool { return err == nil || isFinal(err, queryFinal) }
