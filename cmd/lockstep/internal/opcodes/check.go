package opcodes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/opcodefiles"
	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/datadir"
)

func newCheckCommand(globals *cli.Globals) *cobra.Command {
	dataDir := ""
	command := &cobra.Command{
		Use:   "check [DIR|FILE]...",
		Short: "Check files that declare opcodes",
		Long: `Check files that declare opcodes, as the daemon does when it reads them, and print a
line "FILE:LINE: FIELD: MESSAGE" for each mistake. No daemon is needed.

A directory stands for its files *.yaml, as for the daemon. All named files are
checked together: a name must not be declared twice. Without an argument those of
opcodes.d in the daemon's data directory are checked.

Exit code: 0 if there are no mistakes, 1 otherwise.
With --json: {"opcodes": number, "mistakes": [string]}`,
		Example: `  lockstep opcode check
  lockstep opcode check drain.yaml`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return runCheck(globals, args)
			}
			dir := filepath.Join(datadir.Choose(dataDir), "opcodes.d")
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("there is no directory %s; name files, a directory or --data-dir", dir)
			}
			return runCheck(globals, []string{dir})
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", datadir.Help)
	return command
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

// opcodePaths are the files that an argument stands for. A missing directory is an error here,
// unlike in the daemon: the user has named it.
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
