package submit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/jobfile"
	"lockstep/cmd/lockstep/internal/opcodes"
	"lockstep/core/answer"
	"lockstep/core/limits"
	"lockstep/core/retry"
	"lockstep/core/words"
)

// opcodeName is the first argument of submit if it names an opcode and no file.
var opcodeName = regexp.MustCompile(`^OP_[A-Z0-9_]+$`)

// opcodeJob returns the job of one opcode whose parameters are arguments NAME=VALUE. The opcode must be one that the daemon executes;
// wrong arguments are *UsageErrors.
func opcodeJob(ctx context.Context, daemon client.Querier, name string, args []string, trail [][]any) ([]json.RawMessage, error) {
	known, err := opcodes.Fetch(ctx, daemon, name)
	if err != nil {
		return nil, err
	}
	if len(known) == 0 {
		return nil, fmt.Errorf(`there is no opcode %s; "lockstep opcode list --all" lists all opcodes`, name)
	}
	if err := known[0].CheckRuns(); err != nil {
		return nil, err
	}
	parameters := map[string]any{"OP_ID": name, "reason": trail}
	for _, arg := range args {
		key, text, given := strings.Cut(arg, "=")
		if !given {
			return nil, cli.Usagef("%s has no value; write %s=VALUE", arg, arg)
		}
		i := slices.IndexFunc(known[0].Params, func(p answer.OpcodeParam) bool { return p.Name == key })
		switch _, twice := parameters[key]; {
		case i < 0 || key == "reason":
			return nil, cli.Usagef(`%s has no parameter %q; "lockstep opcode show %s" lists them`, name, key, name)
		case twice:
			return nil, cli.Usagef("%s is given twice", key)
		}
		if !utf8.ValidString(text) { // JSON would have another text
			return nil, cli.Usagef("%s is not UTF-8: %q", key, text)
		}
		if parameters[key], err = parameterValue(known[0].Params[i].Type, text); err != nil {
			return nil, cli.Usagef("%s: %v", key, err)
		}
	}
	for _, p := range known[0].Params {
		if _, given := parameters[p.Name]; p.Required && !given {
			return nil, cli.Usagef("%s needs the parameter %s, %s", name, p.Name, p.Type)
		}
	}
	encoded, err := cli.EncodeJSON(parameters)
	return []json.RawMessage{encoded}, err
}

// checkDeclared finds the mistakes in a file about opcodes that only the daemon knows: one that it cannot execute, and parameters that a
// declared one does not have.
func checkDeclared(ctx context.Context, daemon client.Querier, file jobfile.Submission) error {
	var unanswered error // has no place in the file
	lost := false
	mistakes := file.CheckDeclared(func(name string) (params []answer.OpcodeParam, mistake error) {
		if opcodes.IsBuiltin(name) || !opcodeName.MatchString(name) || lost {
			return nil, nil
		}
		var known []opcodes.Opcode
		known, unanswered = opcodes.Fetch(ctx, daemon, name)
		lost = unanswered != nil
		switch {
		case len(known) > 0:
			return known[0].Params, known[0].CheckRuns()
		case !lost:
			mistake = fmt.Errorf(`there is no opcode %s; "lockstep opcode list" lists them`, name)
		}
		return nil, mistake
	})
	return cmp.Or(unanswered, mistakes)
}

// parameterValue reads the value of a parameter by the daemon's text for its type (see core/opcode). The daemon checks
// the value; here its form is decided: a string, a list, or JSON.
func parameterValue(kind, text string) (any, error) {
	if rest, optional := strings.CutPrefix(kind, "null or "); optional {
		if text == "null" {
			return nil, nil
		}
		kind = rest
	}
	isJSON := json.Valid([]byte(text))
	switch {
	case (kind == retry.Wanted || kind == limits.Wanted) && isJSON:
		return json.RawMessage(text), nil
	case strings.HasPrefix(kind, "a list, each element "):
		if isJSON && strings.HasPrefix(text, "[") {
			return json.RawMessage(text), nil
		}
		return commaList(strings.TrimPrefix(kind, "a list, each element "), text)
	case strings.HasPrefix(kind, "a list of at least one string"):
		if isJSON && strings.HasPrefix(text, "[") {
			return json.RawMessage(text), nil
		}
		return strings.Split(text, ","), nil
	case strings.HasPrefix(kind, "a number of seconds"):
		duration, err := words.ParseDuration(text)
		return duration.Seconds(), err
	case strings.HasPrefix(kind, "a number") && !isJSON:
		duration, err := words.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("want %s, or a duration like 90s, not %s", kind, strconv.Quote(text))
		}
		return duration.Seconds(), nil
	case kind == "true or false",
		strings.HasPrefix(kind, "an integer"),
		strings.HasPrefix(kind, "a number"),
		strings.HasPrefix(kind, "a job id"),
		strings.HasPrefix(kind, "an object"),
		strings.HasPrefix(kind, "a list"):
		if !isJSON {
			return nil, fmt.Errorf("want %s, not %s", kind, strconv.Quote(text))
		}
		return json.RawMessage(text), nil
	case kind == "any value" && isJSON:
		return json.RawMessage(text), nil
	}
	return text, nil
}

// commaList reads elements with commas between them; an empty text is an empty list.
func commaList(words, text string) (any, error) {
	list := []any{}
	if text == "" {
		return list, nil
	}
	for element := range strings.SplitSeq(text, ",") {
		value, err := parameterValue(words, element)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}
