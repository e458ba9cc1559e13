package demand

import (
	"encoding/json"

	"lockstep/core/config"
	"lockstep/core/rawjson"
)

// Params are the parameters of one opcode, for the prediction of its locks.
//
// The syntax may be wrong: a malformed parameter counts as absent.
type Params struct {
	Opcode    string // OP_ID, "" if there is none
	members   []rawMember
	resources *config.Resources
}

// rawMember is a member of an object; the key has its quotes.
type rawMember struct{ key, value []byte }

// membersUsual is the number of members that most opcodes do not exceed.
const membersUsual = 24

// Read finds the name and the parameters of an opcode in its JSON. It decodes none of the values.
func Read(input json.RawMessage, resources *config.Resources) *Params {
	g := &Params{members: make([]rawMember, 0, membersUsual), resources: resources}
	for key, value := range rawjson.Members(input) {
		if string(key) == `"OP_ID"` {
			g.Opcode = string(rawjson.Unquote(value))
			continue
		}
		g.members = append(g.members, rawMember{key, value})
	}
	return g
}

// Value is the JSON of a parameter, nil if it is absent or null.
func (g *Params) Value(param string) json.RawMessage {
	for _, m := range g.members {
		if len(m.key) == len(param)+2 && string(m.key[1:len(m.key)-1]) == param && !rawjson.IsNull(m.value) {
			return m.value
		}
	}
	return nil
}

// text is the value of a string parameter, "" if it is unset.
func (g *Params) text(param string) string { return string(rawjson.Unquote(g.Value(param))) }

// appendTexts adds the strings of a parameter that is a string or a list of strings. It ignores empty strings.
func (g *Params) appendTexts(names []string, param string) []string {
	v := g.Value(param)
	if text := rawjson.Unquote(v); len(text) > 0 {
		return append(names, string(text))
	}
	for element := range rawjson.Elements(v) {
		if text := rawjson.Unquote(element); len(text) > 0 {
			names = append(names, string(text))
		}
	}
	return names
}

// flag is a parameter that is true or false. For anything else, and if it is absent, the result is unset.
func (g *Params) flag(param string, unset bool) bool {
	switch string(g.Value(param)) {
	case "true":
		return true
	case "false":
		return false
	}
	return unset
}

// Replace replaces the JSON of a parameter that the opcode has.
func (g *Params) Replace(param string, value json.RawMessage) {
	for i := range g.members {
		if string(g.members[i].key) == `"`+param+`"` {
			g.members[i].value = value
		}
	}
}
