package jobproc

import (
	"encoding/json"
	"slices"

	"lockstep/core/job"
)

// Bounds of one opcode's log, in bytes of payload. Every log write rewrites
// the whole job file, so a command that never stops talking must not make it
// grow for ever: the first lines are kept, then the latest. Opcodes beyond the
// fourth share what four may have, but each has a little.
const (
	logHeadBytes = 256 << 10
	logTailBytes = 768 << 10
	logShareOps  = 4
	logSharesMax = 32 // each opcode has at least one part of so many
	// logEntryBytes is what an entry costs beside its payload.
	logEntryBytes = 64
)

// logShare is what an opcode may have of a bound, in a job of that many.
func logShare(bound, ops int) int {
	return bound * logShareOps / min(max(ops, logShareOps), logShareOps*logSharesMax)
}

// logBounds keeps one opcode's log within its bounds.
//
// Invariant: entries [0,head) of the log are the kept beginning; if anything was
// dropped, entry head is the note that says so; what follows is the tail.
type logBounds struct {
	head      int
	headBytes int
	tailBytes int
	dropped   bool
	missing   job.Output // what was dropped
	beginning job.Output // what the job had written when the tail began
	total     job.Output // what the job has written, in all opcodes
}

// next are the bounds of the next opcode, whose log has that many entries already.
func (b *logBounds) next(entries int) logBounds {
	return logBounds{head: entries, total: b.total}
}

func (b *logBounds) add(j *job.Job, op int, now job.Timestamp, kind string, payload json.RawMessage) {
	j.AppendLog(op, now, kind, payload)
	before := b.total
	b.total = before.Plus(job.OutputOf(kind, payload))
	size := len(payload) + logEntryBytes
	if b.tailBytes == 0 && b.headBytes+size <= logShare(logHeadBytes, len(j.Ops)) {
		b.head++
		b.headBytes += size
		return
	}
	if b.tailBytes == 0 {
		b.beginning = before
	}
	b.tailBytes += size
	// Cutting in bulk, at twice the bound, keeps the cost of a line constant.
	if bytesMax := logShare(logTailBytes, len(j.Ops)); b.tailBytes > 2*bytesMax {
		b.dropOldest(&j.Ops[op], bytesMax)
	}
}

// dropOldest drops the oldest of the tail and leaves a note in their place, which
// takes the serial and time of the last entry dropped: serials keep rising.
//
// A reader who follows the log may have had some of what is dropped. What misses
// to a reader is what the note says was written up to it, less what the reader
// has: so the note is exact for each of them.
func (b *logBounds) dropOldest(op *job.Op, bytesMax int) {
	first := b.head
	if b.dropped {
		first++
	}
	last := first
	for b.tailBytes > bytesMax && last < len(op.Log)-1 {
		entry := &op.Log[last]
		b.tailBytes -= len(entry.Payload) + logEntryBytes
		b.missing = b.missing.Plus(job.OutputOf(entry.Type, entry.Payload))
		last++
	}
	if last == first {
		return
	}
	b.dropped = true
	gap := op.Log[last-1]
	gap.Type = job.LogMissing
	gap.Payload = missingPayload(job.MissingOutput{Missing: b.missing, Written: b.beginning.Plus(b.missing)})
	op.Log = slices.Replace(op.Log, b.head, last, gap)
}

func missingPayload(m job.MissingOutput) json.RawMessage {
	payload, err := json.Marshal(m)
	if err != nil { // numbers can always be encoded
		panic(err)
	}
	return payload
}
