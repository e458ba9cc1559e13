package job

import (
	"bytes"
	"encoding/json"
)

// A failed opcode that is to be tried again is waiting until its last try. Its times tell its two states: from the end of a try
// until the daemon has noted the try, it has the end and the result of the try; from then on until a process takes up the next
// try, it has neither start nor end.

// EndTry ends a try of the opcode with a result, which says how it has failed. Another try follows.
func (op *Op) EndTry(result json.RawMessage, now Timestamp) {
	op.Take(Retry)
	op.Result, op.End = result, now
}

// TryEnded reports whether a try of the opcode has ended that the daemon has not noted yet.
func (op *Op) TryEnded() bool { return op.Status == Waiting && !op.End.IsZero() }

// AwaitTry clears what the former try has left in the opcode. It panics unless TryEnded.
func (op *Op) AwaitTry() {
	if !op.TryEnded() {
		panic("job: no try of the opcode has ended")
	}
	op.Result, op.Start, op.Exec, op.End = nil, Timestamp{}, Timestamp{}, Timestamp{}
}

// AwaitsTry reports whether the opcode waits for a process that takes up its next try. An opcode without the parameter retry does not,
// whatever its file says: to run it twice is worse than not to run it.
func (op *Op) AwaitsTry() bool {
	return op.Status == Waiting && op.Start.IsZero() && op.End.IsZero() && bytes.Contains(op.Input, []byte(`"retry"`))
}

// LoggedTries is how many tries of the opcode have ended according to its log, without the last one.
func (op *Op) LoggedTries() int {
	tries := 0
	for _, e := range op.Log {
		if kind, _ := FromMessage(e.Type, e.Payload); kind == LogTry {
			tries++
		}
	}
	return tries
}

// TryEnded reports whether a try of the job's first unfinished opcode has ended that the daemon has not noted yet.
func (j *Job) TryEnded() bool {
	return len(j.Ops) > 0 && j.Ops[j.FirstUnfinished()].TryEnded()
}

// IsPending reports whether no process has taken up what is left of the job: the job is queued, or waits for another try.
func (j *Job) IsPending() bool {
	return j.Status() == Queued || len(j.Ops) > 0 && j.Ops[j.FirstUnfinished()].AwaitsTry()
}
