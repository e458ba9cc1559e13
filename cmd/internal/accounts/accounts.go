// Package accounts looks up users and groups of the machine by name or number, for the owners of files in Ganeti mode. The daemon
// and the commands that work on its files without it share it.
package accounts

import (
	"fmt"
	"os/user"
	"strconv"

	"lockstep/core/ownership"
)

// Ganeti are the names that Ganeti's packages make.
var Ganeti = ownership.Accounts{Daemon: "gnt-masterd", ConfdGroup: "gnt-confd", DaemonsGroup: "gnt-daemons"}

// Resolve returns the rules of Ganeti mode for the accounts. Its error names a missing user or group.
func Resolve(a ownership.Accounts) (ownership.Rules, error) {
	return ownership.Ganeti(a).Resolve(userNumber, GroupNumber)
}

func userNumber(name string) (int, error) {
	digits := name
	if found, err := user.Lookup(name); err == nil {
		digits = found.Uid
	}
	return number("user", name, digits)
}

// GroupNumber returns the number of a group, which may be given by its name or its number.
func GroupNumber(name string) (int, error) {
	digits := name
	if found, err := user.LookupGroup(name); err == nil {
		digits = found.Gid
	}
	return number("group", name, digits)
}

func number(kind, name, digits string) (int, error) {
	number, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("there is no %s %q", kind, name)
	}
	return int(number), nil
}
