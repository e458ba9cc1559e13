package opcode

import (
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"

	"lockstep/core/rawjson"
)

// depthMax bounds how deep the value of a parameter may nest: [] is one level deep.
const depthMax = 64

// SizeMax is the greatest length of an opcode in bytes, both as submitted and as stored. The job file that contains it
// is rewritten at every change of the job.
const SizeMax = 4 << 20

// checkSyntax checks that raw is one JSON value in valid UTF-8 of at most SizeMax bytes. Its errors quote nothing.
func checkSyntax(raw []byte) error {
	switch {
	case len(raw) > SizeMax:
		return tooLarge("", len(raw))
	case !utf8.Valid(raw):
		return invalidf("an opcode must be valid UTF-8")
	case !json.Valid(raw):
		return invalidf("an opcode must be valid JSON")
	}
	return nil
}

// checkNesting checks that v is at most depthMax levels deep and that no object in it repeats a key: readers of the job
// file would not agree on which of the values counts. It returns what is wrong, "" if nothing is, and quotes nothing of
// the content.
func checkNesting(v []byte, depth int) string {
	if len(v) == 0 || v[0] != '{' && v[0] != '[' {
		return ""
	}
	if depth++; depth > depthMax {
		return "it is nested too deeply, at most " + strconv.Itoa(depthMax) + " levels are allowed"
	}
	for element := range rawjson.Elements(v) {
		if problem := checkNesting(element, depth); problem != "" {
			return problem
		}
	}
	var keys []string
	for key, value := range rawjson.Members(v) {
		keys = append(keys, string(rawjson.Unquote(key)))
		if problem := checkNesting(value, depth); problem != "" {
			return problem
		}
	}
	slices.Sort(keys)
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			return "an object in it has the same key twice"
		}
	}
	return ""
}
