package opcode

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/core/demand"
)

// AsSubmitter is the User of a Definition whose command runs as the submitter of the job.
const AsSubmitter = "submitter"

// Submitters are the users who may submit a declared opcode without the role operate.
type Submitters struct {
	All    bool     // every user who may submit commands
	Users  []string // names of accounts
	Groups []string // names of groups
}

// Admit reports whether a user with this account and these groups is one of them.
func (s Submitters) Admit(user string, groups []string) bool {
	return s.All || user != "" && slices.Contains(s.Users, user) ||
		slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(s.Groups, g) })
}

// RunAs is as whom the command of the opcode runs: AsSubmitter, the name of an account, or "" for the daemon's user. An opcode without
// a command has "".
func (op *Opcode) RunAs() string {
	if op.Name == demand.RunCommand {
		return AsSubmitter
	}
	return op.user
}

// MaySubmit are the users who may submit the opcode without the role operate: those whom its declaration names. OP_RUN_COMMAND, and
// opcodes that are not declared, name none.
func (op *Opcode) MaySubmit() Submitters { return op.submitters }

// groupPrefix marks the name of a group in the list of `submit:`.
const groupPrefix = "group:"

// ParseSubmitters reads the elements of the list of `submit:` in a declaration: names of users, and group:NAME.
func ParseSubmitters(elements []string) (Submitters, error) {
	var s Submitters
	for _, element := range elements {
		list, name := &s.Users, element
		if group, is := strings.CutPrefix(element, groupPrefix); is {
			list, name = &s.Groups, group
		}
		if !isAccountName(name) {
			return Submitters{}, fmt.Errorf("%q names no user and no group: want a name, as alice, or group:NAME", element)
		}
		*list = append(*list, name)
	}
	return s, nil
}

// isAccountName reports whether a text can be the name of an account or a group. A number is none: tools take it for an id.
func isAccountName(name string) bool {
	return name != "" && len(name) <= 256 && !strings.ContainsAny(name, ":,/ \t\n\x00") && !strings.HasPrefix(name, "-") &&
		!strings.HasPrefix(name, "+") && strings.Trim(name, "0123456789") != ""
}

// checkUsers reports a User that is no name.
func (d *definitionCompiler) checkUsers() {
	if user := d.definition.User; user != "" && !isAccountName(user) {
		d.fail("user", fmt.Sprintf("%q is no name of a user: want the name of an account, or %s", user, AsSubmitter))
	}
}
