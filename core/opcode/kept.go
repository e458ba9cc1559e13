package opcode

import (
	"encoding/json"

	"lockstep/core/job"
)

// Kept is what a job says of the output that one of its processes has kept (--keep-output). A job has a process for each try. The files
// with the job's id may be those of another job, after an older copy of the data directory was put back, or at another node. So output that
// no part accounts for is not the job's.
type Kept struct {
	Ended bool       // the process has ended
	Mark  string     // the content of paths.KeptMark in the directory of the job's files
	Begin job.Output // of the job, before the process
	Op    int        // index of the first opcode of the process
	Try   int        // number of its try of that opcode, from 1
	Parts []KeptPart // by opcode from Op on; none: nothing is kept
	// Surely: files that no result vouches for yet were surely written, if a command has begun. Without it the setting keep_output may have
	// been another one at the start of the job.
	Surely bool
}

// KeptPart is what is known of the kept output of one try of an opcode.
type KeptPart struct {
	Vouched bool  // Stdout and Stderr are known: the try has ended
	Stdout  int64 // bytes
	Stderr  int64 // bytes
}

// KeptOf is what a job says of the kept output of the process that it had when so many tries had ended (job.LogTry). byDefault is the
// setting keep_output. known is false if the job has had no such process.
//
// A try that has ended vouches for what its result names. Without a result that the job process has written, the opcode runs, or
// the log says that the process died (job.LogCut). Then the files have a beginning of the output.
func KeptOf(j *job.Job, byDefault bool, tries int) (k Kept, known bool) {
	all, named := keptByProcess(j)
	if tries < 0 || tries >= len(all) {
		return Kept{}, false
	}
	k = all[tries]
	k.Mark = j.KeptMark()
	if !JobKeepsOutput(j, true) {
		k.Parts = nil
		return k, true
	}
	k.Surely = named || JobKeepsOutput(j, byDefault)
	return k, true
}

// keptByProcess is what the results in a job's file say, for each process of the job in turn. named: at least one of them names kept
// output.
func keptByProcess(j *job.Job) (all []Kept, named bool) {
	all = []Kept{{Try: 1}}
	var log job.OutputAccount
	add := func(result json.RawMessage, vouched bool) {
		p := KeptPart{Vouched: vouched}
		if stdout, stderr, ok := keptIn(result); ok {
			p, named = KeptPart{true, stdout, stderr}, true
		}
		last := &all[len(all)-1]
		last.Parts = append(last.Parts, p)
	}
	for i := range j.Ops {
		op, try, cut := &j.Ops[i], 1, false
		for _, e := range op.Log {
			kind, payload := job.FromMessage(e.Type, e.Payload)
			log.Add(kind, payload)
			cut = cut || kind == job.LogCut
			var ended job.EndedTry
			if kind != job.LogTry || json.Unmarshal(payload, &ended) != nil {
				continue
			}
			add(ended.Result, !cut)
			all[len(all)-1].Ended = true
			try, cut = try+1, false
			all = append(all, Kept{Begin: log.Delivered.Plus(log.Missing), Op: i, Try: try})
		}
		add(op.Result, op.Status.Final() && !cut)
	}
	all[len(all)-1].Ended = j.Status().Final()
	return all, named
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

// BeginOf is the place of a stream, job.LogStdout or job.LogStderr, at which the output of the process begins, in bytes.
func (k Kept) BeginOf(stream string) int64 {
	if stream == job.LogStderr {
		return k.Begin.Stderr.Bytes
	}
	return k.Begin.Stdout.Bytes
}

// MayHave reports whether another node than the one that runs the process may have output of a stream from a place on, which counts bytes
// over all opcodes.
func (k Kept) MayHave(stream string, from int64) bool {
	vouched := k.BeginOf(stream)
	for _, p := range k.Parts {
		if !p.Vouched && k.Surely {
			return true
		}
		vouched += p.Of(stream)
	}
	return from < vouched
}
