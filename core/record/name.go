package record

import (
	"fmt"
	"strings"
)

// nameKey holds the name that the submitter gave the job: "nightly".
const nameKey = "name"

// nameMax is the maximum length of a name, in bytes.
const nameMax = 100

// nameBytes are the characters of a name.
const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// CheckName returns why a text cannot be the name of a job, or nil. A name has 1 to 100 letters of ASCII, digits, dots,
// underscores and hyphens. Digits alone are an id, and a first hyphen is a flag.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name of a job is empty")
	case len(name) > nameMax:
		return fmt.Errorf("the name of a job has at most %d characters, this has %d", nameMax, len(name))
	case strings.Trim(name, nameBytes) != "" || strings.ContainsFunc(name, func(c rune) bool { return !strings.ContainsRune(nameBytes, c) }):
		return fmt.Errorf("the name of a job has letters, digits, '.', '_' and '-' only, not %q", name)
	case strings.Trim(name, "0123456789") == "":
		return fmt.Errorf("the name %s would be the id of a job: add a letter", name)
	case name[0] == '-':
		return fmt.Errorf("the name %s would be a flag: begin with another character", name)
	}
	return nil
}

// Name is the name that the submitter gave the job; "" if the job has none.
func (r Record) Name() string {
	name, _ := member[string](r, nameKey)
	return name
}

// WithName sets the name of the job. It panics unless CheckName accepts it.
func (r Record) WithName(name string) Record {
	if err := CheckName(name); err != nil {
		panic(fmt.Sprintf("record: %v", err))
	}
	return r.with(nameKey, name)
}
