package opcode

import (
	"encoding/json"
	"slices"

	"lockstep/core/demand"
	"lockstep/core/job"
)

// keepOutputKey is the parameter of all opcodes that run a command: their output is kept whole, in files. Unset, the setting keep_output
// decides.
const keepOutputKey = "keep_output"

// keepOutputParam is the parameter of an opcode that an operator declares. always: the declaration says that output is kept.
func keepOutputParam(always bool) Param {
	p := Param{Name: keepOutputKey, Type: union{null, boolean}, Default: json.RawMessage("null"),
		Doc: "Keep all output in files; unset, the setting keep_output decides"}
	if always {
		p.Default = json.RawMessage("true")
	}
	return p
}

// KeepsOutput reports whether the output of an opcode is kept, from its stored input. byDefault is the setting keep_output.
func KeepsOutput(input json.RawMessage, byDefault bool) bool {
	if !RunsCommand(job.OpID(input)) {
		return false
	}
	switch string(demand.Read(input, nil).Value(keepOutputKey)) {
	case "true":
		return true
	case "false":
		return false
	}
	return byDefault
}

// JobKeepsOutput reports whether the output of a job is kept. If one opcode asks for it, that of all is: a place in the output counts the
// bytes of all opcodes, and must be found in the files.
func JobKeepsOutput(j *job.Job, byDefault bool) bool {
	return slices.ContainsFunc(j.Ops, func(op job.Op) bool { return KeepsOutput(op.Input, byDefault) })
}

// nothingToKeep is the error for the parameter keep_output of an opcode that runs no command.
func nothingToKeep(op *Opcode) *Invalid {
	return &Invalid{Opcode: op.Name, Param: keepOutputKey,
		Text: keepOutputKey + ": " + op.Name + " runs no command, so it has no output to keep; only OP_RUN_COMMAND and opcodes of opcodes.d have"}
}
