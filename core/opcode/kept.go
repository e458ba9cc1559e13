package opcode

import (
	"encoding/json"
	"slices"

	"lockstep/core/job"
)

// Kept is what a job says of its kept output (--keep-output). The files with the job's id may be those of another job, after an older copy
// of the data directory was put back, or at another node. So output that no part accounts for is not the job's.
type Kept struct {
	Ended bool
	Mark  string     // the content of paths.KeptMark in the directory of the job's files
	Parts []KeptPart // by opcode; none: nothing is kept
	// Surely: files that no result vouches for yet were surely written, if a command has begun. Without it the setting keep_output may have
	// been another one at the start of the job.
	Surely bool
}

// KeptPart is what is known of the kept output of one opcode.
type KeptPart struct {
	Vouched bool  // Stdout and Stderr are known: the opcode has ended
	Stdout  int64 // bytes
	Stderr  int64 // bytes
}

// KeptOf is what a job says of its kept output. byDefault is the setting keep_output.
//
// An opcode that has ended vouches for what its result names. Without a result that the job process has written, the opcode runs, or
// the log says that the process died (job.LogCut). Then the files have a beginning of the output.
func KeptOf(j *job.Job, byDefault bool) Kept {
	k := Kept{Ended: j.Status().Final(), Mark: j.KeptMark()}
	if !JobKeepsOutput(j, true) {
		return k
	}
	may := false
	for i := range j.Ops {
		op := &j.Ops[i]
		p := KeptPart{Vouched: op.Status.Final() && !wasCut(op)}
		if stdout, stderr, ok := keptIn(op.Result); ok {
			p.Vouched, p.Stdout, p.Stderr = true, stdout, stderr
			may, k.Surely = true, true
		}
		may = may || KeepsOutput(op.Input, true)
		k.Surely = k.Surely || KeepsOutput(op.Input, byDefault)
		k.Parts = append(k.Parts, p)
	}
	if !may { // an opcode without a command has no output
		k.Parts = nil
	}
	return k
}

// wasCut reports whether the job process died before it had reported the end of an opcode.
func wasCut(op *job.Op) bool {
	return slices.ContainsFunc(op.Log, func(e job.LogEntry) bool {
		kind, _ := job.FromMessage(e.Type, e.Payload)
		return kind == job.LogCut
	})
}

// keptIn is what the result of an opcode says of its kept output, in bytes: {"kept": ...} or ["Class", [text, {"kept": ...}]].
func keptIn(result json.RawMessage) (stdout, stderr int64, ok bool) {
	var class string
	var arguments []json.RawMessage
	if json.Unmarshal(result, &[]any{&class, &arguments}) == nil && len(arguments) > 1 {
		result = arguments[1]
	}
	var object struct {
		Kept *struct{ Stdout, Stderr struct{ Bytes int64 } }
	}
	if json.Unmarshal(result, &object) != nil || object.Kept == nil {
		return 0, 0, false
	}
	return max(0, object.Kept.Stdout.Bytes), max(0, object.Kept.Stderr.Bytes), true
}

// Of is the size of a stream, job.LogStdout or job.LogStderr, in bytes, if it is known.
func (p KeptPart) Of(stream string) int64 {
	if stream == job.LogStderr {
		return p.Stderr
	}
	return p.Stdout
}

// MayHave reports whether another node than the one that runs the job may have output of a stream from a place on, which counts bytes
// over all opcodes.
func (k Kept) MayHave(stream string, from int64) bool {
	var vouched int64
	for _, p := range k.Parts {
		if !p.Vouched && k.Surely {
			return true
		}
		vouched += p.Of(stream)
	}
	return from < vouched
}
