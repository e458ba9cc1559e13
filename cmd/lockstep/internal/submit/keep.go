package submit

import (
	"strconv"

	"github.com/spf13/pflag"
)

// keepFlag adds the flag --keep-output, whose value is nil if it is not given.
func keepFlag(flags *pflag.FlagSet, value **bool, of string) {
	flags.Var(&optionalBool{value}, "keep-output",
		"keep all output of "+of+" in files on the daemon's node (default: the setting keep_output); --keep-output=false keeps none")
	flags.Lookup("keep-output").NoOptDefVal = "true"
}

// optionalBool is true, false, or not given.
type optionalBool struct{ value **bool }

// String is part of pflag.Value.
func (o *optionalBool) String() string {
	if o.value == nil || *o.value == nil {
		return ""
	}
	return strconv.FormatBool(**o.value)
}

// Set is part of pflag.Value.
func (o *optionalBool) Set(text string) error {
	value, err := strconv.ParseBool(text)
	*o.value = &value
	return err
}

// Type is part of pflag.Value.
func (o *optionalBool) Type() string { return "bool" }
