package cli

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// NegativeNumbers marks commands that take -5 as an argument. The parser of flags would
// take it for the flag 5, so it gets it with something in front.
const (
	NegativeNumbers = "negative numbers"
	notAFlag        = " "
)

// UnshieldNumbers takes away what ShieldNumbers has added.
func UnshieldNumbers(args []string) []string {
	bare := make([]string, len(args))
	for i, arg := range args {
		bare[i] = strings.TrimPrefix(arg, notAFlag)
	}
	return bare
}

// ShieldNumbers puts notAFlag before the negative numbers among the arguments of a command
// that takes some.
func ShieldNumbers(root *cobra.Command, args []string) []string {
	command, _, err := root.Find(args)
	if err != nil { // execution will say so
		return args
	}
	if _, takes := command.Annotations[NegativeNumbers]; !takes {
		return args
	}
	number := regexp.MustCompile(`^-[0-9]+$`)
	shielded := make([]string, len(args))
	for i, arg := range args {
		if arg == "--" {
			copy(shielded[i:], args[i:])
			break
		}
		if number.MatchString(arg) {
			arg = notAFlag + arg
		}
		shielded[i] = arg
	}
	return shielded
}
