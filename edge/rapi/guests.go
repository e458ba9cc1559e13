package rapi

import (
	"bytes"
	"encoding/json"
	"slices"

	"lockstep/core/wire"
)

// hiddenCommandParams are the parameters of opcodes that guests are not shown.
var hiddenCommandParams = []string{"env", "stdin"}

// jobObject is what a row of values tells of a job to who asks: a guest, where
// guests may look at jobs at all, sees neither what a command is given nor what it
// says. The form is the same for all.
func (c *call) jobObject(fields []string, row []raw) (raw, error) {
	if c.user != "" || len(row) != len(fields) {
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
	// Without an escape a name is spelled in one way only.
	hides := bytes.ContainsRune(ops, '\\') || slices.ContainsFunc(hiddenCommandParams, func(name string) bool { return bytes.Contains(ops, []byte(name)) })
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

// replaceElements is a list with each element replaced.
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
