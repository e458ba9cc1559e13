package opcode

import (
	"encoding/json"

	"lockstep/core/config"
	"lockstep/core/rawjson"
)

// opcodeParams is the parameters of a submitted or stored opcode, by name, and the resources of the cluster to which
// they refer.
//
// The syntax may be wrong: as for Summary, a malformed parameter counts as absent.
type opcodeParams struct {
	opcode    string // OP_ID, "" if there is none
	members   []rawMember
	resources *config.Resources
}

// rawMember is a member of an object; the key has its quotes.
type rawMember struct{ key, value []byte }

// membersUsual is the number of members that most opcodes do not exceed.
const membersUsual = 24

func readParams(input json.RawMessage, resources *config.Resources) *opcodeParams {
	g := &opcodeParams{members: make([]rawMember, 0, membersUsual), resources: resources}
	for key, value := range rawjson.Members(input) {
		if string(key) == `"OP_ID"` {
			g.opcode = string(rawjson.Unquote(value))
			continue
		}
		g.members = append(g.members, rawMember{key, value})
	}
	return g
}

// value is the JSON of a parameter, nil if it is absent or null.
func (g *opcodeParams) value(param string) json.RawMessage {
	for _, m := range g.members {
		if len(m.key) == len(param)+2 && string(m.key[1:len(m.key)-1]) == param && !rawjson.IsNull(m.value) {
			return m.value
		}
	}
	return nil
}

// text is the value of a string parameter, "" if it is unset.
func (g *opcodeParams) text(param string) string { return string(rawjson.Unquote(g.value(param))) }

// appendTexts adds the strings of a parameter that is a string or a list of strings. It ignores empty strings.
func (g *opcodeParams) appendTexts(names []string, param string) []string {
	v := g.value(param)
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

// flag is a parameter that is true or false.
func (g *opcodeParams) flag(param string, unset bool) bool {
	switch string(g.value(param)) {
	case "true":
		return true
	case "false":
		return false
	}
	return unset
}
