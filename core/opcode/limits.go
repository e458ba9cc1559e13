package opcode

import (
	"encoding/json"
	"errors"

	"lockstep/core/limits"
)

// limitsKey is the parameter of all opcodes that run a command: what the command may use of its node (package limits).
const limitsKey = "limits"

// limitsParam is the parameter of an opcode that an operator declares, with the limits of the declaration; nil: none.
func limitsParam(declared json.RawMessage) Param {
	p := Param{Name: limitsKey, Type: commandLimits, Default: json.RawMessage("null"), Doc: "What the command may use of its node"}
	if declared != nil {
		p.Default = declared
	}
	return p
}

// nothingToLimit is the error for the parameter limits of an opcode that runs no command.
func nothingToLimit(op *Opcode) *Invalid {
	return &Invalid{Opcode: op.Name, Param: limitsKey,
		Text: limitsKey + ": " + op.Name + " runs no command, so it has no limits; only OP_RUN_COMMAND and opcodes of opcodes.d have"}
}

// limitsType is the type of limits.
type limitsType struct{}

var commandLimits limitsType

func (limitsType) String() string { return limits.Wanted }

func (t limitsType) check(v json.RawMessage) *mismatch {
	if string(v) == "null" {
		return nil
	}
	_, err := limits.Parse(v)
	var mistake *limits.Mistake
	if !errors.As(err, &mistake) {
		return nil
	}
	return mismatchIn(v, mistake.Member, mistake.Want)
}
