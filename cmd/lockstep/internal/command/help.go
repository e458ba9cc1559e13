package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/cli"
)

// suggestFlag adds the flags with similar names to the error about an unknown flag. It returns any other error as it is.
func suggestFlag(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var names []string
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			names = append(names, flag.Name)
		}
	})
	similar := cli.SimilarNames(unknown.GetSpecifiedName(), names)
	if len(similar) == 0 {
		return err
	}
	return fmt.Errorf("%w\n\nDid you mean this?\n  --%s", err, strings.Join(similar, "\n  --"))
}

// helpWidth is how many columns a help text has.
const helpWidth = 80

// flow makes the lines of each paragraph of a command's description equally long. Indented lines are tables, and stay.
func flow(long string) string {
	var lines, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			for _, line := range strings.Split(text.WrapSoft(strings.Join(paragraph, " "), helpWidth), "\n") {
				lines = append(lines, strings.TrimRight(line, " ")) // WrapSoft fills them
			}
		}
		paragraph = nil
	}
	for _, line := range strings.Split(long, "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, " "):
			end()
			lines = append(lines, line)
		default:
			if strings.HasPrefix(line, "Exit code") || strings.HasPrefix(line, "With --json") {
				end()
			}
			paragraph = append(paragraph, line)
		}
	}
	end()
	return strings.Join(lines, "\n")
}

// newHelpCommand returns the help command, with an error for an unknown topic.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		Long:  `Print the help of a command, as "lockstep COMMAND --help" does.`,
		RunE: func(command *cobra.Command, args []string) error {
			topic, rest, err := command.Root().Find(args)
			if err != nil {
				return cli.Usagef("%s", err)
			}
			if len(rest) > 0 {
				return cli.Usagef("unknown command %q for %q", rest[0], topic.CommandPath())
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
	}
}
