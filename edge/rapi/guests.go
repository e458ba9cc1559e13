package rapi

import (
	"bytes"
	"encoding/json"
	"slices"

	"lockstep/core/wire"
)

// hiddenCommandParams are parameters of opcodes that guests do not see.
var hiddenCommandParams = []string{"env", "stdin"}

// jobObject returns a row of a job's values as an object. A guest, if guests may see jobs at all,
// sees neither the input nor the output of a command. The keys are the same for all users.
func (c *call) jobObject(fields []string, row []raw) (raw, error) {
	if c.user.Name() != "" || len(row) != len(fields) {
		return rowObject(fields, row)
	}
	shown := append([]raw(nil), row...)
	for i, name := range fields {
		var err error
		switch name {
		case "ops":
			shown[i], err = redactOps(row[i])
		case "oplog":
			shown[i], err = replaceElements(row[i], raw("[]"))
		case "opresult":
			shown[i], err = replaceElements(row[i], raw("null"))
		}
		if err != nil {
			return nil, &wire.MalformedResponse{Err: err}
		}
	}
	return rowObject(fields, shown)
}

func redactOps(ops raw) (raw, error) {
	// Without escapes every name has only one spelling.
	hides := bytes.ContainsRune(ops, '\\') ||
		slices.ContainsFunc(hiddenCommandParams, func(name string) bool { return bytes.Contains(ops, []byte(name)) })
	if !hides {
		return ops, nil
	}
	var each []map[string]raw
	if err := json.Unmarshal(ops, &each); err != nil {
		return nil, err
	}
	for _, op := range each {
		for _, name := range hiddenCommandParams {
			delete(op, name)
		}
	}
	return encode(each)
}

// replaceElements returns a list in which every element is replaced.
func replaceElements(list, replacement raw) (raw, error) {
	var each []raw
	if err := json.Unmarshal(list, &each); err != nil {
		return nil, err
	}
	for i := range each {
		each[i] = replacement
	}
	return encode(each)
}
