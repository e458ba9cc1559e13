package jobproc

import (
	"encoding/json"
	"slices"

	"lockstep/core/job"
)

// LogLimit is the bound of one opcode's log in bytes, without the setting `log_limit`. A write of the log writes the whole job file, so
// the log of a command with endless output must be bounded: its first and its latest entries are kept. In a job of more than logShareOps
// opcodes, all opcodes together may have as much as logShareOps opcodes, but each opcode has at least 1/logSharesMax of the bound.
const (
	LogLimit     = 1_000_000
	logHeadPart  = 4 // the first entries have a quarter of the bound
	logShareOps  = 4
	logSharesMax = 32
	// logEntryBytes is the size of an entry beside its payload.
	logEntryBytes = 64
)

// logShare is the part of a bound that each opcode of a job has: of its first entries, and of its latest ones.
func logShare(limit, ops int) (head, tail int) {
	share := limit * logShareOps / min(max(ops, logShareOps), logShareOps*logSharesMax)
	return share / logHeadPart, share - share/logHeadPart
}

// logBounds keeps one opcode's log within its bounds.
//
// Invariant: entries [0,head) of the log are the first entries. If entries were dropped, entry head is the note about them.
// The entries after it are the tail. Output that is later than all of them is in raw and lines: its entries are made when the log is
// written, so that output which is dropped before that costs little.
type logBounds struct {
	limit     int          // of the opcode's log, in bytes
	head      int          // number of first entries
	headBytes int          // size of the first entries
	headFull  bool         // the tail has begun
	tailBytes int          // size of the tail, at most twice its bound
	tailOf    []job.Output // of each entry of the tail
	dropped   bool         // entries were dropped
	missing   job.Output   // of this opcode that was dropped
	beginning job.Output   // of the job before the tail began
	total     job.Output   // of the job, in all opcodes, without raw and lines
	ganeti    bool         // entries have types that Ganeti's daemon reads

	raw      []rawOutput
	rawBytes int
	lines    map[string]*LineSplitter // by stream: the line that is not complete, which is before raw
}

// rawOutput is output of a command as it was read.
type rawOutput struct {
	at     job.Timestamp
	stream string
	bytes  []byte
}

// next returns the bounds of the next opcode, whose log has entries already. limit 0 stands for LogLimit.
func (b *logBounds) next(entries, limit int) logBounds {
	if limit == 0 {
		limit = LogLimit
	}
	return logBounds{limit: limit, head: entries, total: b.total, ganeti: b.ganeti}
}

// output adds output of a stream, as it was read. Without a byte it says that the stream has ended.
func (b *logBounds) output(j *job.Job, op int, now job.Timestamp, stream string, output []byte) {
	if len(output) == 0 {
		b.encode(j, op)
		b.endLine(j, op, now, stream)
		return
	}
	b.raw = append(b.raw, rawOutput{now, stream, output})
	b.rawBytes += len(output) + logEntryBytes
	switch _, tail := logShare(b.limit, len(j.Ops)); {
	case b.rawBytes <= 2*tail:
	case !b.headFull:
		b.encode(j, op)
	default:
		b.dropRaw(j, op, tail)
	}
}

// encode makes the entries of the latest output. The end of it that is no complete line stays with its stream.
func (b *logBounds) encode(j *job.Job, op int) {
	for _, r := range b.raw {
		s := b.lines[r.stream]
		if s == nil {
			s = &LineSplitter{}
			if b.lines == nil {
				b.lines = map[string]*LineSplitter{}
			}
			b.lines[r.stream] = s
		}
		s.Emit = func(piece []byte) { b.addOutput(j, op, r.at, r.stream, piece) }
		s.Write(r.bytes)
	}
	b.raw, b.rawBytes = nil, 0
}

// endLine makes the entry of a stream's last line, which has no newline.
func (b *logBounds) endLine(j *job.Job, op int, now job.Timestamp, stream string) {
	if s := b.lines[stream]; s != nil {
		s.Emit = func(piece []byte) { b.addOutput(j, op, now, stream, piece) }
		s.Flush()
	}
}

// end makes the entries of all output: the opcode has ended.
func (b *logBounds) end(j *job.Job, op int, now job.Timestamp) {
	b.encode(j, op)
	b.endLine(j, op, now, job.LogStdout)
	b.endLine(j, op, now, job.LogStderr)
}

func (b *logBounds) addOutput(j *job.Job, op int, at job.Timestamp, stream string, piece []byte) {
	kind, payload := job.EncodeOutput(stream, piece)
	b.addCounted(j, op, at, kind, payload, job.AmountOf(stream, piece))
}

// add adds an entry to the log of the current opcode. Output that came before the entry has its entries already.
func (b *logBounds) add(j *job.Job, op int, now job.Timestamp, kind string, payload json.RawMessage) {
	b.addCounted(j, op, now, kind, payload, job.OutputOf(kind, payload))
}

// addCounted adds an entry whose amount of output is known. If the log exceeds its bound, the oldest entries of the tail are dropped.
func (b *logBounds) addCounted(j *job.Job, op int, now job.Timestamp, kind string, payload json.RawMessage, amount job.Output) {
	if b.ganeti {
		kind, payload = job.AsMessage(kind, payload)
	}
	j.AppendLog(op, now, kind, payload)
	before := b.total
	b.total = before.Plus(amount)
	size := len(payload) + logEntryBytes
	head, tail := logShare(b.limit, len(j.Ops))
	if !b.headFull && b.headBytes+size <= head {
		b.head++
		b.headBytes += size
		return
	}
	if !b.headFull {
		b.headFull, b.beginning = true, before
	}
	b.tailBytes += size
	b.tailOf = append(b.tailOf, amount)
	// To cut at twice the bound keeps the cost of an entry constant.
	if b.tailBytes > 2*tail {
		b.dropOldest(&j.Ops[op], tail)
	}
}

// dropOldest replaces the oldest entries of the tail by a note, which takes the serial and time of the last dropped entry,
// so that serials keep rising.
//
// The note says how much output was dropped and how much the job had written up to the note. A reader that follows the
// log may have some of the dropped entries. The second number less what this reader has is what this reader misses.
func (b *logBounds) dropOldest(op *job.Op, bytesMax int) {
	first := b.tail()
	last := first
	for b.tailBytes > bytesMax && last < len(op.Log)-1 {
		b.drop(op.Log[last], b.tailOf[last-first])
		last++
	}
	if last == first {
		return
	}
	b.tailOf = slices.Delete(b.tailOf, 0, last-first)
	op.Log = slices.Replace(op.Log, b.head, last, b.note(op.Log[last-1]))
}

// dropRaw replaces the tail and the oldest output that has no entries by a note.
func (b *logBounds) dropRaw(j *job.Job, op int, bytesMax int) {
	for i, entry := range j.Ops[op].Log[b.tail():] {
		b.drop(entry, b.tailOf[i])
	}
	b.tailOf = nil
	for stream, s := range b.lines { // these lines are older than raw
		b.dropUncounted(stream, s.partial)
		s.partial = nil
	}
	oldest := 0
	for ; b.rawBytes > bytesMax && oldest < len(b.raw)-1; oldest++ {
		r := b.raw[oldest]
		b.rawBytes -= len(r.bytes) + logEntryBytes
		b.dropUncounted(r.stream, r.bytes)
	}
	last := j.AppendLog(op, b.raw[oldest].at, job.LogMissing, nil)
	b.raw = slices.Clone(b.raw[oldest:])
	j.Ops[op].Log = append(j.Ops[op].Log[:b.head], b.note(last))
}

// tail is the index of the first entry of the tail.
func (b *logBounds) tail() int {
	if b.dropped {
		return b.head + 1
	}
	return b.head
}

// drop counts an entry of the tail as dropped.
func (b *logBounds) drop(entry job.LogEntry, amount job.Output) {
	b.tailBytes -= len(entry.Payload) + logEntryBytes
	b.missing = b.missing.Plus(amount)
}

// dropUncounted counts output without an entry as dropped.
func (b *logBounds) dropUncounted(stream string, output []byte) {
	amount := job.AmountOf(stream, output)
	b.missing, b.total = b.missing.Plus(amount), b.total.Plus(amount)
}

// note is the note about all that was dropped, in the place of an entry.
func (b *logBounds) note(place job.LogEntry) job.LogEntry {
	b.dropped = true
	place.Type = job.LogMissing
	place.Payload = missingPayload(job.MissingOutput{Missing: b.missing, Written: b.beginning.Plus(b.missing)})
	if b.ganeti {
		place.Type, place.Payload = job.AsMessage(place.Type, place.Payload)
	}
	return place
}

func missingPayload(m job.MissingOutput) json.RawMessage {
	payload, err := json.Marshal(m)
	if err != nil { // numbers can always be encoded
		panic(err)
	}
	return payload
}
