package jobs

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"

	"lockstep/core/job"
)

// keptOutput is what the result of an opcode says of its kept output (--keep-output), as the job process writes it.
type keptOutput struct {
	Stdout, Stderr struct{ Bytes, Missing int64 }
	Directory      string
	Reason         string // why output is missing
}

// extras is what the result of a command says beside its end. nil: it does not say that.
type extras struct {
	Kept  *keptOutput `json:"kept"`
	Usage *job.Usage  `json:"usage"`
}

// extrasIn finds the extras in a result, and returns a successful result without them.
func extrasIn(result json.RawMessage) (e extras, rest json.RawMessage) {
	details := job.Details(result)
	var object map[string]json.RawMessage
	if json.Unmarshal(details, &object) != nil || json.Unmarshal(details, &e) != nil || e == (extras{}) {
		return extras{}, result
	}
	delete(object, "kept")
	delete(object, "usage")
	rest, err := json.Marshal(object)
	if err != nil {
		return e, result
	}
	return e, rest
}

// keptOf is the kept output of an ended try, of which the log has the result; nil: there is none.
func (o opcodeInfo) keptOf(t tryInfo) *keptOutput {
	i := slices.IndexFunc(o.Log, func(l logLine) bool { return l.Serial == t.LogTo })
	if i < 0 {
		return nil
	}
	var ended job.EndedTry
	typ, payload := job.FromMessage(o.Log[i].Type, o.Log[i].Payload)
	if typ != job.LogTry || json.Unmarshal(payload, &ended) != nil {
		return nil
	}
	e, _ := extrasIn(ended.Result)
	return e.Kept
}

func (k *keptOutput) String() string {
	size := func(bytes int64) string { return humanize.Bytes(uint64(max(0, bytes))) }
	text := fmt.Sprintf("%s of stdout and %s of stderr, in %s of the node that ran it",
		size(k.Stdout.Bytes), size(k.Stderr.Bytes), k.Directory)
	if missing := k.Stdout.Missing + k.Stderr.Missing; missing > 0 {
		text += fmt.Sprintf("; %s are missing: %s", size(missing), k.Reason)
	}
	return text
}
