package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// version is set by the linker: -ldflags "-X main.version=1.2.3".
var version = "dev"

func newVersionCommand(globals *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long: `Print the version of this program. No daemon is asked.

With --json: {"version": string}`,
		Example: `  lockstep version`,
		Args:    wants(0, 0, "version takes no arguments"),
		RunE: func(*cobra.Command, []string) error {
			if globals.JSON {
				return printJSON(globals.streams.Out, map[string]string{"version": version})
			}
			fmt.Fprintf(globals.streams.Out, "lockstep %s\n", version)
			return nil
		},
	}
}
