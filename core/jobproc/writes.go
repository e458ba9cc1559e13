package jobproc

import (
	"errors"
	"time"
)

// A Visible change waits for visibleDelay, so that the next change can supersede it, and longer where a write costs
// more: ten times the duration of the last write, at most visibleDelayMax, which people do not notice.
const (
	visibleDelay    = 5 * time.Millisecond
	visibleDelayMax = 40 * time.Millisecond
)

// A Logged change waits longer the longer the opcode has been logging, in proportion to the size of the file. The first
// lines of an opcode are seen within visibleDelayMax. In the long run about logWriteMax bytes a second are written, or
// one file a second if the file is larger.
const (
	logDelayMax = time.Second
	logWriteMax = 1 << 20
	// logDelayShare: the delay is at most this part of the duration of the burst. A delay of 1 s is reached after 10 s.
	logDelayShare = 10
	// logBurstGap without a log entry ends a burst.
	logBurstGap = 2 * logDelayMax
	// logFlood is how much output makes a burst count as old, in bytes: who wants to see so much at once has a connection for it (package
	// outflow).
	logFlood = 64 << 10
)

// Pauses between attempts to write the job file.
const (
	writeRetryFirst = 100 * time.Millisecond
	writeRetryMax   = 5 * time.Second
)

// queueLossMax is how long the queue's directory may be missing before the process abandons the job.
const queueLossMax = time.Minute

// queueProbe is the age of the file at which a process whose daemon does not answer writes it again: a process that waits
// has nothing else to write, and would not notice that the directory is gone for ever.
const queueProbe = time.Minute

// FileWrite is one write of the job file: the file is replaced, and then its directory is synced if Durable is set.
type FileWrite struct {
	Content []byte
	Durable bool
	// Ended: an earlier attempt has replaced the file by this content, with which the job has ended. A daemon may have archived
	// it since: if the file is gone it is not made again, or the job would be in the queue and in the archive.
	Ended bool
}

// UnsyncedError is the error of a write that has replaced the file. A power loss may undo that.
type UnsyncedError struct{ Err error }

func (e *UnsyncedError) Error() string { return e.Err.Error() }
func (e *UnsyncedError) Unwrap() error { return e.Err }

// writes decides when the job file is written. A write that fails is repeated until it succeeds.
//
// Invariant: at most one of pending and writing is set.
type writes struct {
	pending bool      // a change waits for its write
	due     time.Time // of the pending write

	writing bool
	write   FileWrite // under way
	began   time.Time // the first attempt of the write under way
	retryAt time.Time // of the next attempt; zero: an attempt is under way, or no write is
	backoff Backoff
	loss    queueLoss
	failure WriteFailure // of the write under way; the zero value: no attempt has failed

	lastTook time.Duration // duration of the last write
	lastSize int           // size of the file at the last write, in bytes
	burst    logBurst      // of the executing opcode
}

// schedule schedules a write for a change that only serves to be seen. An earlier pending write stays.
func (w *writes) schedule(now time.Time, urgency Write) {
	delay := max(visibleDelay, min(10*w.lastTook, visibleDelayMax))
	if urgency == Logged {
		delay = logDelay(w.lastSize, w.burst.extend(now), w.lastTook)
	}
	at := now.Add(delay)
	if !w.pending || at.Before(w.due) {
		w.pending, w.due = true, at
	}
}

// begin begins a write, which includes the pending change. What was known of a failure of the former write is forgotten.
func (w *writes) begin(now time.Time, out *Actions, write FileWrite) {
	w.pending, w.writing = false, true
	w.write, w.began = write, now
	w.backoff = Backoff{First: writeRetryFirst, Max: writeRetryMax}
	w.loss, w.failure = queueLoss{}, WriteFailure{}
	w.attempt(out)
}

func (w *writes) attempt(out *Actions) {
	w.retryAt = time.Time{}
	out.Write = &w.write
}

// failed handles an attempt that failed. It reports whether the error differs from that of the attempt before.
func (w *writes) failed(now time.Time, err error, final bool) (differs bool) {
	w.loss.observe(err, now)
	if unsynced := (*UnsyncedError)(nil); final && errors.As(err, &unsynced) {
		w.write.Ended = true
	}
	w.retryAt = now.Add(w.backoff.Pause())
	if w.failure.SinceUS == 0 {
		w.failure.SinceUS = now.UnixMicro()
	}
	differs = w.failure.Error != err.Error()
	w.failure.Error = err.Error()
	return differs
}

// failedFor is how long the write under way has been failing; 0: no attempt has failed.
func (w *writes) failedFor(now time.Time) time.Duration {
	if w.failure == (WriteFailure{}) {
		return 0
	}
	return now.Sub(time.UnixMicro(w.failure.SinceUS))
}

// succeeded notes that the write under way is done, and how long it took, from which logDelay follows.
func (w *writes) succeeded(now time.Time) {
	w.writing = false
	w.lastTook, w.lastSize = now.Sub(w.began), len(w.write.Content)
	w.loss, w.failure = queueLoss{}, WriteFailure{}
}

// logDelay is how long a Logged change may wait, for a file of size bytes, an opcode that has been logging for the
// duration talking, and a last write that took cost.
func logDelay(size int, talking, cost time.Duration) time.Duration {
	usual := max(visibleDelay, min(10*cost, visibleDelayMax))
	sparing := time.Duration(float64(size) / logWriteMax * float64(time.Second))
	return max(usual, min(sparing, talking/logDelayShare, logDelayMax))
}

// logBurst is a time in which an opcode logs without a gap of logBurstGap.
type logBurst struct {
	start, last time.Time
	output      int // bytes
}

// extend records a log entry and returns how old the burst is, for logDelay.
func (b *logBurst) extend(now time.Time) time.Duration {
	if now.Sub(b.last) > logBurstGap {
		b.start, b.output = now, 0
	}
	b.last = now
	if b.output > logFlood {
		return logDelayShare * logDelayMax
	}
	return now.Sub(b.start)
}

// QueueMissingError is the error of a write that finds no queue directory: it was removed, or its file system is not
// mounted. A full disk is no such error: the write waits until the disk has room.
type QueueMissingError struct{ Err error }

func (e *QueueMissingError) Error() string { return e.Err.Error() }
func (e *QueueMissingError) Unwrap() error { return e.Err }

// queueLoss measures for how long the queue's directory has been missing.
type queueLoss struct {
	since time.Time // zero: the directory exists
	last  time.Time // latest failure
}

// observe takes the error of a write: it begins, continues or ends the time for which the queue's directory has been missing.
func (l *queueLoss) observe(err error, now time.Time) {
	var missing *QueueMissingError
	switch {
	case !errors.As(err, &missing):
		*l = queueLoss{}
	case l.since.IsZero():
		*l = queueLoss{since: now, last: now}
	default:
		l.last = now
	}
}

// isLost reports whether the directory was missing at the latest failure.
func (l *queueLoss) isLost() bool { return !l.since.IsZero() }

// duration is for how long the directory was missing at the latest failure.
func (l *queueLoss) duration() time.Duration { return l.last.Sub(l.since) }
