package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/buildinfo"
	"lockstep/cmd/lockstep/internal/cli"
)

func newVersionCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long: `Print the version of this program, the commit of its build and the date of that
commit. No daemon is asked; "lockstep status" shows the daemon's version.

With --json: {"version": string, "revision": string, "date": string, "modified": bool,
"go": string}`,
		Example: `  lockstep version
  lockstep --version`,
		Args: cli.WantArgs(0, 0, "version takes no arguments"),
		RunE: func(*cobra.Command, []string) error {
			if globals.JSON {
				return cli.PrintJSON(globals.Streams.Out, globals.Streams.Build)
			}
			fmt.Fprintf(globals.Streams.Out, "lockstep %s\n", globals.Streams.Build)
			return nil
		},
	}
}

// versionTemplate is the output of --version, that of the version command.
func versionTemplate(build buildinfo.Build) string { return fmt.Sprintf("lockstep %s\n", build) }
