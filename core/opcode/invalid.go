package opcode

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/core/rawjson"
)

// Invalid says why a submitted opcode is refused. If Ganeti's text is known, Text begins with it (queue.md 1.5). It
// never repeats the value of a secret parameter.
type Invalid struct {
	Opcode string // OP_ID, "" if the opcode has none
	Param  string // the invalid parameter, "" if there is none or several
	Text   string // a sentence for the client: what is wrong and what is allowed
}

func (e *Invalid) Error() string { return e.Text }

func invalidf(format string, args ...any) *Invalid {
	return &Invalid{Text: fmt.Sprintf(format, args...)}
}

// typeError is the error for a parameter whose value does not belong to its type.
func typeError(opcode, param string, bad *mismatch) *Invalid {
	return &Invalid{
		Opcode: opcode, Param: param,
		Text: "Can't parse value for '" + param + "': " + bad.text(),
	}
}

// secretTypeError names the allowed type. It reveals neither the value nor the place, because keys may be secret, too.
func secretTypeError(opcode string, p *Param) *Invalid {
	return &Invalid{
		Opcode: opcode, Param: p.Name,
		Text: "Can't parse value for '" + p.Name + "': want " + p.Type.String() + ", found something else (not shown, it is secret)",
	}
}

// paramError is the error for the value of a parameter that passes its type.
func paramError(param, text string) *Invalid {
	return &Invalid{Param: param, Text: "Can't parse value for '" + param + "': " + text}
}

func tooLarge(opcode string, size int) *Invalid {
	e := invalidf("an opcode of %d bytes is too large, at most %d are allowed", size, SizeMax)
	e.Opcode = opcode
	return e
}

func missingKey(opcode, param string, found []member) *Invalid {
	names := make([]string, len(found))
	for i, m := range found {
		names[i] = m.key
	}
	return &Invalid{
		Opcode: opcode, Param: param,
		Text: "key '" + param + "' not found, object contains only " + nameList(names),
	}
}

func unknownParams(op *Opcode, names []string) *Invalid {
	if slices.Contains(names, keepOutputKey) { // Ganeti has no such name
		return nothingToKeep(op)
	}
	if slices.Contains(names, retryKey) {
		return nothingToRetry(op)
	}
	if slices.Contains(names, limitsKey) {
		return nothingToLimit(op)
	}
	e := &Invalid{Opcode: op.Name}
	if len(names) == 1 {
		e.Param = names[0]
	}
	allowed := append([]string{idKey}, slices.Sorted(maps.Keys(op.index))...) // in order, because the other names are in lower case
	e.Text = "Superfluous dictionary keys: " + nameList(names) + ", but only " + nameList(allowed) + " allowed."
	return e
}

// Limits of the text that an error repeats of a client's keys.
const (
	namesMax = 100
	nameMax  = 100 // bytes
)

// nameList is a list of names in Ganeti's form: ["a","b"].
func nameList(names []string) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		if i == namesMax {
			b.WriteString("…")
			break
		}
		b.WriteString(rawjson.Quoted(name))
	}
	b.WriteByte(']')
	return b.String()
}
