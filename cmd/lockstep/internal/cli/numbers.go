package cli

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// NegativeNumbers marks commands that take an argument such as -5. The flag parser would read
// it as the flag 5, so ShieldNumbers adds a prefix.
const (
	NegativeNumbers = "negative numbers"
	notAFlag        = " "
)

// UnshieldNumbers removes the prefixes of ShieldNumbers.
func UnshieldNumbers(args []string) []string {
	bare := make([]string, len(args))
	for i, arg := range args {
		bare[i] = strings.TrimPrefix(arg, notAFlag)
	}
	return bare
}

// ShieldNumbers puts notAFlag before negative numbers if the command is marked with NegativeNumbers, so that they are no flags. Arguments
// after -- stay.
func ShieldNumbers(root *cobra.Command, args []string) []string {
	command, _, err := root.Find(args)
	if err != nil { // Execute reports the error
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
