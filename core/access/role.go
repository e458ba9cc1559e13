package access

import "fmt"

// Role is what a user may do; each role has what those before it have (docs/security.md). The zero Role permits nothing.
type Role uint8

// Roles.
const (
	None    Role = iota
	Read         // see everything
	Submit       // commands, declared opcodes that allow it, own jobs
	Operate      // all jobs, filter rules, drain, declared opcodes, audit
	Admin        // settings, configuration, nodes, all opcodes, grants
)

var roleNames = [...]string{None: "none", Read: "read", Submit: "submit", Operate: "operate", Admin: "admin"}

// String is the name of a role.
func (r Role) String() string { return roleNames[r] }

// ParseRole is the inverse of Role.String. "none" is no role that can be given.
func ParseRole(text string) (Role, error) {
	for r := Read; r <= Admin; r++ {
		if roleNames[r] == text {
			return r, nil
		}
	}
	return None, fmt.Errorf("there is no role %q; the roles are read, submit, operate and admin", text)
}

// MarshalText is part of encoding.TextMarshaler.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is part of encoding.TextUnmarshaler. A role that this version does not know permits nothing.
func (r *Role) UnmarshalText(text []byte) error {
	parsed, err := ParseRole(string(text))
	if err != nil {
		parsed = None
	}
	*r = parsed
	return nil //nolint:nilerr // as said above
}
