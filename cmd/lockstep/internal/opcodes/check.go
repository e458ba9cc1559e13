package opcodes

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/opcodefiles"
	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
)

func newCheckCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "check DIR|FILE...",
		Short: "Look for mistakes in files that declare opcodes",
		Long: `Look for mistakes in files that declare opcodes, as the daemon does when it reads
them, and print a line "FILE:LINE: FIELD: MESSAGE" for each. No daemon is needed.

A directory stands for its files *.yaml, which is what the daemon reads of one. All
that are named are checked together: a name must not be declared twice.

Exit code: 0 if there are no mistakes, 1 otherwise.
With --json: {"opcodes": number, "mistakes": [string]}`,
		Example: `  lockstep opcode check /var/lib/lockstep/opcodes.d
  lockstep opcode check drain.yaml`,
		Args: cli.WantArgs(1, -1, "name the directory, which is opcodes.d in the one for data of the daemon, or files"),
		RunE: func(_ *cobra.Command, args []string) error {
			return runCheck(globals, args)
		},
	}
}

func runCheck(globals *cli.Globals, args []string) error {
	var paths []string
	for _, arg := range args {
		found, err := opcodePaths(arg)
		if err != nil {
			return err
		}
		for _, path := range found {
			if !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	definitions, err := opcodefiles.LoadFiles(paths)
	mistakes := []string{}
	if err != nil {
		mistakes = strings.Split(err.Error(), "\n")
	}
	out := globals.Streams.Out
	switch {
	case globals.JSON:
		result := struct {
			Opcodes  int      `json:"opcodes"`
			Mistakes []string `json:"mistakes"`
		}{len(definitions), mistakes}
		if err := cli.PrintJSON(out, result); err != nil {
			return err
		}
	case len(mistakes) > 0:
		for _, mistake := range mistakes {
			fmt.Fprintln(out, term.Visible(mistake))
		}
	case len(definitions) == 1:
		fmt.Fprintln(out, "1 opcode, no mistakes")
	default:
		fmt.Fprintf(out, "%d opcodes, no mistakes\n", len(definitions))
	}
	if len(mistakes) > 0 {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return nil
}

// opcodePaths is the files that an argument stands for. One that is not there is an error:
// the daemon does without the directory, but who names it means it.
func opcodePaths(arg string) ([]string, error) {
	info, err := os.Stat(arg)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{arg}, nil
	}
	return opcodefiles.Files(arg)
}
