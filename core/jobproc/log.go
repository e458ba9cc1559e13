package jobproc

import (
	"encoding/json"
	"slices"

	"lockstep/core/job"
)

// Bounds of one opcode's log, in bytes. A write of the log writes the whole job file, so the log of a command with endless
// output must be bounded: its first and its latest entries are kept. In a job of more than logShareOps opcodes, all
// opcodes together may have as much as logShareOps opcodes, but each opcode has at least 1/logSharesMax of a bound.
const (
	logHeadBytes = 256 << 10 // of the first entries
	logTailBytes = 768 << 10 // of the latest entries
	logShareOps  = 4
	logSharesMax = 32
	// logEntryBytes is the size of an entry beside its payload.
	logEntryBytes = 64
)

// logShare is the part of a bound that each opcode of a job has.
func logShare(bound, ops int) int {
	return bound * logShareOps / min(max(ops, logShareOps), logShareOps*logSharesMax)
}

// logBounds keeps one opcode's log within its bounds.
//
// Invariant: entries [0,head) of the log are the first entries. If entries were dropped, entry head is the note about them.
// The entries after it are the tail.
type logBounds struct {
	head      int        // number of first entries
	headBytes int        // size of the first entries
	tailBytes int        // size of the tail, at most twice its bound
	dropped   bool       // entries were dropped
	missing   job.Output // of this opcode that was dropped
	beginning job.Output // of the job before the tail began
	total     job.Output // of the job, in all opcodes
	ganeti    bool       // entries have types that Ganeti's daemon reads
}

// next returns the bounds of the next opcode, whose log has entries already.
func (b *logBounds) next(entries int) logBounds {
	return logBounds{head: entries, total: b.total, ganeti: b.ganeti}
}

func (b *logBounds) add(j *job.Job, op int, now job.Timestamp, kind string, payload json.RawMessage) {
	if b.ganeti {
		kind, payload = job.AsMessage(kind, payload)
	}
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
	// To cut at twice the bound keeps the cost of an entry constant.
	if bytesMax := logShare(logTailBytes, len(j.Ops)); b.tailBytes > 2*bytesMax {
		b.dropOldest(&j.Ops[op], bytesMax)
	}
}

// dropOldest replaces the oldest entries of the tail by a note, which takes the serial and time of the last dropped entry,
// so that serials keep rising.
//
// The note says how much output was dropped and how much the job had written up to the note. A reader that follows the
// log may have some of the dropped entries. The second number less what this reader has is what this reader misses.
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
	if b.ganeti {
		gap.Type, gap.Payload = job.AsMessage(gap.Type, gap.Payload)
	}
	op.Log = slices.Replace(op.Log, b.head, last, gap)
}

func missingPayload(m job.MissingOutput) json.RawMessage {
	payload, err := json.Marshal(m)
	if err != nil { // numbers can always be encoded
		panic(err)
	}
	return payload
}
