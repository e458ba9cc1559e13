package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/buildinfo"
)

func newVersionCommand(globals *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long: `Print the version of this program and the commit that it was built from. No daemon
is asked; "lockstep status" shows the daemon's version.

With --json: {"version": string, "revision": string, "modified": bool, "go": string}`,
		Example: `  lockstep version
  lockstep --version`,
		Args: wants(0, 0, "version takes no arguments"),
		RunE: func(*cobra.Command, []string) error {
			if globals.JSON {
				return printJSON(globals.streams.Out, globals.streams.Build)
			}
			fmt.Fprintf(globals.streams.Out, "lockstep %s\n", globals.streams.Build)
			return nil
		},
	}
}

// versionTemplate makes --version print what the version command prints.
func versionTemplate(build buildinfo.Build) string { return fmt.Sprintf("lockstep %s\n", build) }
