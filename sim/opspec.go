package sim

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"lockstep/core/job"
)

// OpSpec is an opcode in the spelling of scenarios and workloads: "delay 5", "delay 5 NODE",
// "run run_for=5 exit=3", "jqueue" or "jqueue notify", or the name of an opcode without an executor.
//
// A run may have a limit in seconds, "timeout=2"; take locks, "locks=node/a,node/b:shared", or some of a list,
// "any=2:node/a,node/b"; a label of its kind, "kind=backup"; and a policy of tries, "retry=3" or "retry=TIMES:DELAY:LONGEST:CAUSES",
// "retry=2:0.3::75/timeout", with seconds. Any opcode may depend on jobs, "after=-1" or
// "after=12:success,error"; be one of at most so many that run,
// "limit=2:label"; give a reason, "reason=word"; have a "priority=-10"; name the
// submission that it belongs to, "request=word"; or say that the daemon's user has sent it, "claims".
type OpSpec string

// opInput is the input of an opcode in a submission.
type opInput struct {
	OpID     string        `json:"OP_ID"`
	Comment  string        `json:"comment"`
	Argv     []string      `json:"argv,omitempty"`
	Duration json.Number   `json:"duration,omitempty"`
	Kind     string        `json:"kind,omitempty"`
	Timeout  json.Number   `json:"timeout,omitempty"`
	Retry    any           `json:"retry,omitempty"`
	Notify   bool          `json:"notify_waitlock,omitempty"`
	OnNodes  []string      `json:"on_nodes,omitempty"`
	NoLocks  *bool         `json:"no_locks,omitempty"`
	Locks    [][2]string   `json:"locks,omitempty"`
	AnyCount json.Number   `json:"opportunistic_count,omitempty"`
	AnyLocks [][2]string   `json:"opportunistic_locks,omitempty"`
	Depends  [][]any       `json:"depends,omitempty"`
	Reason   []reasonEntry `json:"reason,omitempty"`
	Priority json.Number   `json:"priority,omitempty"`
}

type reasonEntry [3]any

// claimSource is the source of the entry in a reason trail that says who has submitted a job.
const claimSource = "lockstep:user"

// Encode encodes the opcode as a client sends it. The tag identifies its job. Words that are not known become the OP_ID.
func (o OpSpec) Encode(tag string) json.RawMessage {
	op := opInput{Comment: tag}
	words := op.commonWords(strings.Fields(string(o)))
	switch {
	case len(words) > 0 && words[0] == "run":
		op.OpID, op.Argv = "OP_RUN_COMMAND", []string{"sim"}
		for _, word := range words[1:] {
			switch key, value, _ := strings.Cut(word, "="); key {
			case "kind":
				op.Kind = value
			case "timeout":
				op.Timeout = json.Number(value)
			case "retry":
				op.Retry = retryPolicy(value)
			case "locks":
				op.Locks = lockSpecs(value)
			case "any":
				count, names, _ := strings.Cut(value, ":")
				op.AnyCount, op.AnyLocks = json.Number(count), lockSpecs(names)
			default:
				op.Argv = append(op.Argv, word)
			}
		}
	case len(words) > 0 && words[0] == "jqueue":
		op.OpID, op.Notify = "OP_TEST_JQUEUE", len(words) > 1
	case len(words) >= 2 && words[0] == "delay":
		op.OpID, op.Duration, op.OnNodes = "OP_TEST_DELAY", json.Number(words[1]), words[2:]
		if len(op.OnNodes) > 0 {
			op.NoLocks = new(false)
		}
	default:
		op.OpID = strings.Join(words, " ")
	}
	encoded, err := json.Marshal(op)
	if err != nil {
		panic(err)
	}
	return encoded
}

// commonWords sets the parameters that every opcode may have, and returns the other words.
func (op *opInput) commonWords(words []string) (others []string) {
	for _, word := range words {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "after":
			op.Depends = append(op.Depends, parseDependency(value))
		case "limit":
			op.Reason = append(op.Reason, reasonEntry{"sim", "rate-limit:" + value, 1})
		case "reason":
			op.Reason = append(op.Reason, reasonEntry{"sim", value, 1})
		case "request":
			op.Reason = append(op.Reason, reasonEntry{job.SubmissionSource, value, 1})
		case "claims":
			op.Reason = append(op.Reason, reasonEntry{claimSource, daemonAccount.by(), 1})
		case "priority":
			op.Priority = json.Number(value)
		default:
			others = append(others, word)
		}
	}
	return others
}

// parseDependency reads "12" or "-1:success,error".
func parseDependency(text string) []any {
	id, names, _ := strings.Cut(text, ":")
	statuses := []string{}
	if names != "" {
		statuses = strings.Split(names, ",")
	}
	return []any{json.Number(id), statuses}
}

// retryPolicy reads a policy of tries as the parameter retry.
func retryPolicy(text string) any {
	parts := strings.Split(text, ":")
	if len(parts) == 1 {
		return json.Number(text)
	}
	policy := map[string]any{"times": json.Number(parts[0])}
	for i, member := range []string{"delay", "max_delay"} {
		if i+1 < len(parts) && parts[i+1] != "" {
			policy[member] = json.Number(parts[i+1])
		}
	}
	if len(parts) > 3 {
		var causes []any
		for cause := range strings.SplitSeq(parts[3], "/") {
			if n, err := strconv.Atoi(cause); err == nil {
				causes = append(causes, n)
			} else {
				causes = append(causes, cause)
			}
		}
		policy["on"] = causes
	}
	return policy
}

// lockSpecs reads names of locks, each exclusive unless ":shared" follows.
func lockSpecs(text string) [][2]string {
	var locks [][2]string
	for name := range strings.SplitSeq(text, ",") {
		name, mode, given := strings.Cut(name, ":")
		if !given {
			mode = "exclusive"
		}
		locks = append(locks, [2]string{name, mode})
	}
	return locks
}

// jobsText is the reverse of parseJobs.
func jobsText(jobs [][]OpSpec) string {
	texts := make([]string, len(jobs))
	for i, ops := range jobs {
		words := make([]string, len(ops))
		for k, op := range ops {
			words[k] = string(op)
		}
		texts[i] = strings.Join(words, "; ")
	}
	return "[" + strings.Join(texts, " | ") + "]"
}

func predicate(about, field, operator, value string) json.RawMessage {
	var v any = value
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		v = n
	}
	var b bytes.Buffer
	plain := json.NewEncoder(&b)
	plain.SetEscapeHTML(false) // for human readers
	if err := plain.Encode([]any{about, []any{operator, field, v}}); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// predicateList joins predicates without encoding them again.
func predicateList(all []json.RawMessage) json.RawMessage {
	texts := make([][]byte, len(all))
	for i, p := range all {
		texts[i] = p
	}
	return slices.Concat([]byte("["), bytes.Join(texts, []byte(",")), []byte("]"))
}
