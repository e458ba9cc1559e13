package sim

import (
	"encoding/json"
	"fmt"
	"strings"
)

// opSpec is an opcode as scenarios and workloads spell it: "delay 5",
// "run run_for=5 exit=3", or the name of an opcode without an executor.
type opSpec string

func (o opSpec) encode(tag string) json.RawMessage {
	words := strings.Fields(string(o))
	op := map[string]any{"comment": tag}
	switch {
	case len(words) > 0 && words[0] == "run":
		op["OP_ID"] = "OP_RUN_COMMAND"
		op["argv"] = append([]string{"sim"}, words[1:]...)
	case len(words) == 2 && words[0] == "delay":
		op["OP_ID"] = "OP_TEST_DELAY"
		op["duration"] = json.Number(words[1])
	default:
		op["OP_ID"] = string(o)
	}
	encoded, err := json.Marshal(op)
	if err != nil {
		panic(err)
	}
	return encoded
}

// describe is the reverse of parseJobs.
func describe(jobs [][]opSpec) string {
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

// parseJobs reads one job a line, its opcodes separated by semicolons.
func parseJobs(text string) ([][]opSpec, error) {
	var jobs [][]opSpec
	for line := range strings.Lines(text) {
		var ops []opSpec
		for op := range strings.SplitSeq(line, ";") {
			op = strings.TrimSpace(op)
			if op == "" {
				return nil, fmt.Errorf("an empty opcode in %q", line)
			}
			ops = append(ops, opSpec(op))
		}
		jobs = append(jobs, ops)
	}
	return jobs, nil
}
