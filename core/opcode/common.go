package opcode

import (
	"encoding/json"
	"slices"
	"strconv"

	"lockstep/core/rawjson"
)

// Keys of an opcode that need special treatment.
const (
	idKey       = "OP_ID"
	priorityKey = "priority"
	dependsKey  = "depends"
)

// commonParams are the parameters that every opcode has, in the order of the job file (queue.md 8.1). A missing reason
// is the empty trail, although other readers of the same request refuse it.
func commonParams() []Param {
	unset := json.RawMessage("null")
	return []Param{
		{Name: "dry_run", Type: union{null, boolean}, Default: unset, Doc: "Take the locks and check, but execute nothing"},
		{Name: "debug_level", Type: union{null, nonNegativeInt}, Default: unset, Doc: "For Ganeti's opcodes only"},
		{Name: priorityKey, Type: submitPriority, Default: json.RawMessage("0"),
			Doc: "Jobs with a lower number start first; a file may say low, normal or high"},
		{Name: dependsKey, Type: dependencies, Default: unset, storedUnset: true,
			Doc: "The jobs that must have ended before, each with the statuses with which it may end"},
		{Name: "comment", Type: union{null, text}, Default: unset, storedUnset: true, Doc: "A remark, which the job keeps"},
		{Name: "reason", Type: list{tuple{text, text, integer}}, Default: json.RawMessage("[]"),
			Doc: "Who submitted the job and why: sources, texts and times in nanoseconds"},
	}
}

// submitPriority is the type of priorities that a client may submit. Later changes of priority have a wider range
// (queue.md 1.5 and 4.8).
var submitPriority = &scalarType{
	description: "-10 (high), 0 (normal) or 10 (low)",
	accepts: func(v json.RawMessage) bool {
		return string(v) == "-10" || string(v) == "0" || string(v) == "10"
	},
	ganeti: func(v json.RawMessage) string {
		if _, ok := parseFloat(v); !ok {
			return ""
		}
		return "Invalid string value for type OpSubmitPriority: " + shown(v)
	},
}

// Dependency is a job that must end before the opcode may begin.
type Dependency struct {
	Job      int64    // negative: relative to the id of the dependent job, -1 is the job before it (queue.md 1.5)
	Statuses []string // of "canceled", "success", "error", in which the job may have ended; empty: any
}

var dependencies = union{
	null,
	list{tuple{dependsOn, list{oneOf{"canceled", "success", "error"}}}},
}

var dependsOn = &scalarType{
	description: "a job id (an integer or a decimal string, negative for a relative one)",
	accepts:     func(v json.RawMessage) bool { _, ok := parseDependsOn(v); return ok },
	showValue:   true,
}

func parseDependsOn(v json.RawMessage) (int64, bool) {
	if rawjson.IsString(v) {
		v = rawjson.Unquote(v)
	}
	if len(v) == 0 || v[0] == '+' {
		return 0, false
	}
	return parseInteger(v)
}

// Depends are the dependencies of an opcode, from its stored input, which must be a JSON value. The error, an *Invalid,
// says that the input is not an object or that the dependencies are malformed (queue.md 1.5).
func Depends(input json.RawMessage) ([]Dependency, error) {
	if !rawjson.IsObject(input) {
		return nil, invalidf("an opcode must be an object")
	}
	var depends json.RawMessage
	for key, value := range rawjson.Members(input) {
		if string(key) == `"depends"` {
			depends = value
		}
	}
	if depends == nil {
		return nil, nil
	}
	if !json.Valid(depends) {
		return nil, invalidf("the dependencies of an opcode must be valid JSON")
	}
	if bad := dependencies.check(depends); bad != nil {
		return nil, typeError("", dependsKey, bad)
	}
	return decodeDepends(depends), nil
}

// decodeDepends reads dependencies that have been checked.
func decodeDepends(v json.RawMessage) []Dependency {
	var all []Dependency
	for pair := range rawjson.Elements(v) {
		var d Dependency
		first := true
		for part := range rawjson.Elements(pair) {
			if first {
				d.Job, _ = parseDependsOn(part)
			}
			for status := range rawjson.Elements(part) {
				d.Statuses = append(d.Statuses, string(rawjson.Unquote(status)))
			}
			first = false
		}
		all = append(all, d)
	}
	return all
}

// appendDepends writes dependencies in the form of job files, in which ids are numbers.
func appendDepends(dst []byte, all []Dependency) []byte {
	dst = append(dst, '[')
	for i, d := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		dst = strconv.AppendInt(dst, d.Job, 10)
		dst = append(dst, ",["...)
		for j, status := range d.Statuses {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, '"')
			dst = append(dst, status...)
			dst = append(dst, '"')
		}
		dst = append(dst, "]]"...)
	}
	return append(dst, ']')
}

// ResolveDepends makes the relative dependencies in the stored input of an opcode absolute: -1 is the job with the id
// before the given one (queue.md 1.5). Without relative dependencies it returns the input. The error is an *Invalid for
// a dependency on a job before the first job.
func ResolveDepends(input json.RawMessage, id int64) (json.RawMessage, error) {
	if !rawjson.IsObject(input) {
		return input, nil
	}
	for w := rawjson.Walk(input); w.More(); {
		key := w.Key()
		start, end := w.Value()
		if string(key) != `"depends"` {
			continue
		}
		all, relative := decodeDepends(input[start:end]), false
		for i := range all {
			if all[i].Job >= 0 {
				continue
			}
			relative = true
			if all[i].Job += id; all[i].Job < 0 {
				return input, invalidf("a dependency reaches back beyond the first job: %d before job %d", id-all[i].Job, id)
			}
		}
		if !relative {
			return input, nil
		}
		return slices.Concat(input[:start], appendDepends(nil, all), input[end:]), nil
	}
	return input, nil
}

// WithDepends adds dependencies to the stored input of an opcode, which draft has written.
func WithDepends(input json.RawMessage, more []Dependency) json.RawMessage {
	for w := rawjson.Walk(input); w.More(); {
		key := w.Key()
		start, end := w.Value()
		if string(key) == `"depends"` {
			all := append(decodeDepends(input[start:end]), more...)
			return slices.Concat(input[:start], appendDepends(nil, all), input[end:])
		}
	}
	member := appendDepends([]byte(`{"depends":`), more)
	return slices.Concat(member, []byte{','}, input[1:])
}
