package opcode

import (
	"encoding/json"

	"lockstep/core/config"
)

// given is an opcode, submitted or stored, that is asked for its parameters by name, and the cluster that they speak of.
//
// Its syntax need not be good: as for Summary, what cannot be read is not there.
type given struct {
	opcode  string // OP_ID, "" if there is none
	members []spelledMember
	known   *config.Resources
}

// spelledMember is a member of an object; the key has its quotes.
type spelledMember struct{ key, value []byte }

// giveMembersMax is how many members most opcodes have at most.
const giveMembersMax = 24

func give(input json.RawMessage, known *config.Resources) *given {
	g := &given{members: make([]spelledMember, 0, giveMembersMax), known: known}
	for key, value := range members(input) {
		if string(key) == `"OP_ID"` {
			g.opcode = string(unquoted(value))
			continue
		}
		g.members = append(g.members, spelledMember{key, value})
	}
	return g
}

// value is a parameter as it is spelled, nil if it is unset: absent or null.
func (g *given) value(param string) json.RawMessage {
	for _, m := range g.members {
		if len(m.key) == len(param)+2 && string(m.key[1:len(m.key)-1]) == param && !isNull(m.value) {
			return m.value
		}
	}
	return nil
}

// text is a parameter that is a string, "" if it is unset.
func (g *given) text(param string) string { return string(unquoted(g.value(param))) }

// appendTexts adds the strings of a parameter that is a string or a list of such. Empty ones name nothing.
func (g *given) appendTexts(names []string, param string) []string {
	v := g.value(param)
	if text := unquoted(v); len(text) > 0 {
		return append(names, string(text))
	}
	for element := range elements(v) {
		if text := unquoted(element); len(text) > 0 {
			names = append(names, string(text))
		}
	}
	return names
}

// flag is a parameter that is true or false.
func (g *given) flag(param string, unset bool) bool {
	switch string(g.value(param)) {
	case "true":
		return true
	case "false":
		return false
	}
	return unset
}
