package opcode

import (
	"encoding/json"
	"errors"

	"lockstep/core/rawjson"
	"lockstep/core/retry"
)

// retryKey is the parameter of all opcodes that run a command: whether a command that has failed is tried again (package retry).
const retryKey = "retry"

// retryParam is the parameter of an opcode that an operator declares, with the policy of the declaration; nil: none.
func retryParam(policy json.RawMessage) Param {
	p := Param{Name: retryKey, Type: retryPolicy, Default: json.RawMessage("null"),
		Doc: "Whether a command that has failed is tried again, how often and after which delay"}
	if policy != nil {
		p.Default = policy
	}
	return p
}

// nothingToRetry is the error for the parameter retry of an opcode that runs no command.
func nothingToRetry(op *Opcode) *Invalid {
	return &Invalid{Opcode: op.Name, Param: retryKey,
		Text: retryKey + ": " + op.Name + " runs no command, so it is not tried again; only OP_RUN_COMMAND and opcodes of opcodes.d are"}
}

// retryPolicyType is the type of policies.
type retryPolicyType struct{}

var retryPolicy retryPolicyType

func (retryPolicyType) String() string { return retry.Wanted }

func (t retryPolicyType) check(v json.RawMessage) *mismatch {
	_, err := retry.Parse(v)
	var mistake *retry.Mistake
	if !errors.As(err, &mistake) {
		return nil
	}
	return mismatchIn(v, mistake.Member, mistake.Want)
}

// mismatchIn says what is wanted of a member of an object; "": of the value itself.
func mismatchIn(v json.RawMessage, member, want string) *mismatch {
	bad := &mismatch{want: want, found: kindOf(v)}
	if member == "" {
		return bad
	}
	if start, end, _ := rawjson.MemberRange(v, member); end > 0 {
		bad.found = kindOf(v[start:end])
	} else {
		bad.found = "nothing"
	}
	return bad.in(member)
}
