package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ArgumentError says which argument of a call is invalid, and why.
type ArgumentError struct {
	Number int // 1 is the first argument
	Err    error
}

func (e *ArgumentError) Error() string {
	if errors.Is(e.Err, errNull) {
		return fmt.Sprintf("argument %d is null", e.Number)
	}
	return fmt.Sprintf("argument %d: %v", e.Number, e.Err)
}

func (e *ArgumentError) Unwrap() error { return e.Err }

var errNull = errors.New("null")

// Arguments decodes positional arguments strictly (queue.md 1.4): one for each target. It decodes null as encoding/json
// does. The error for an argument is an *ArgumentError.
func Arguments(args []json.RawMessage, into ...any) error { return arguments(args, true, into) }

// RequiredArguments is Arguments, and refuses null.
func RequiredArguments(args []json.RawMessage, into ...any) error {
	return arguments(args, false, into)
}

func arguments(args []json.RawMessage, nullable bool, into []any) error {
	if len(args) != len(into) {
		return fmt.Errorf("%d arguments, expected %d", len(args), len(into))
	}
	for i, target := range into {
		if !nullable && string(args[i]) == "null" {
			return &ArgumentError{i + 1, errNull}
		}
		if err := json.Unmarshal(args[i], target); err != nil {
			return &ArgumentError{i + 1, plainTypeError(err)}
		}
	}
	return nil
}

// plainTypeError replaces the error of encoding/json for a value of the wrong type, which names types of Go.
func plainTypeError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("a %s is not what belongs here", wrong.Value)
	}
	return err
}
