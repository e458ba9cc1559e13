package run

import (
	"encoding/json"
	"fmt"
	"slices"

	"lockstep/actors/core/job"
)

// Bounds of one opcode's log, in bytes of payload. Every log write rewrites
// the whole job file, so a command that never stops talking must not make it
// grow for ever: the first lines are kept, then the latest. Opcodes beyond the
// fourth share what four may have, but each has a little.
const (
	logHeadBytes = 256 << 10
	logTailBytes = 768 << 10
	logSharers   = 4
	logLeast     = 32 // each opcode has at least one part of so many
	// logEntryBytes is what an entry costs beside its payload.
	logEntryBytes = 64
)

// share is what an opcode may have of a bound, in a job of that many.
func share(bound, ops int) int {
	return bound * logSharers / min(max(ops, logSharers), logSharers*logLeast)
}

// logBounds keeps one opcode's log within its bounds.
//
// Invariant: entries [0,head) of the log are the kept beginning; if dropped is
// not 0, entry head is the note that says so; what follows is the tail.
type logBounds struct {
	head      int
	headBytes int
	tailBytes int
	dropped   int
}

func (b *logBounds) add(j *job.Job, op int, now job.Timestamp, kind string, payload json.RawMessage) {
	j.AppendLog(op, now, kind, payload)
	size := len(payload) + logEntryBytes
	if b.tailBytes == 0 && b.headBytes+size <= share(logHeadBytes, len(j.Ops)) {
		b.head++
		b.headBytes += size
		return
	}
	b.tailBytes += size
	// Cutting in bulk, at twice the bound, keeps the cost of a line constant.
	if most := share(logTailBytes, len(j.Ops)); b.tailBytes > 2*most {
		b.cut(&j.Ops[op], most)
	}
}

// cut drops the oldest of the tail and leaves a note in their place, which
// takes the serial and time of the last entry dropped: serials keep rising.
func (b *logBounds) cut(op *job.Op, most int) {
	first := b.head
	if b.dropped > 0 {
		first++
	}
	last := first
	for b.tailBytes > most && last < len(op.Log)-1 {
		b.tailBytes -= len(op.Log[last].Payload) + logEntryBytes
		last++
	}
	if last == first {
		return
	}
	b.dropped += last - first
	note := op.Log[last-1]
	note.Type = "message"
	note.Payload = job.Quote(fmt.Sprintf("[%d lines left out here: the log of one opcode is bounded]", b.dropped))
	op.Log = slices.Replace(op.Log, b.head, last, note)
}
