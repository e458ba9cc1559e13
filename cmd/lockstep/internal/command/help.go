package command

import (
	"errors"
	"fmt"
	"strings"

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
