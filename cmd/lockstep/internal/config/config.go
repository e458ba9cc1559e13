// Package config is the command lockstep config: the settings of the queue (get and set), and the configuration of the cluster.
//
// The daemon answers show, history, diff and check, with secrets redacted. With --file they read the files of a dead daemon instead,
// and redact themselves. With adopt and discard the user decides about a config.data of another program. fold completes config.data
// while no daemon runs.
package config

import (
	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
)

// NewCommand is the command config.
func NewCommand(globals *cli.Globals) *cobra.Command {
	command := &cobra.Command{
		Use:   "config get|set|show|history|diff|check|adopt|discard|fold",
		Short: "Show or change the settings of the queue, show the configuration of the cluster",
		Long: `Show or change the settings of the running queue (get and set), which survive restarts
of the daemon. Show the configuration of the cluster, its history and the changes of
one serial number, and check it (show, history, diff and check). Decide about a file
that another program has changed (adopt and discard). Complete the file after a crash,
while no lockstepd runs (fold).`,
		Example: `  lockstep config get
  lockstep config set max_running_jobs=40
  lockstep config show instances/web1
  lockstep config history --since 1h`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("config get, set, show, history, diff, check, adopt, discard or fold, not %q", args[0])
			}
			return cli.Usagef("say one of get, set, show, history, diff, check, adopt, discard and fold")
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // without RunE cobra ignores Args
	}
	command.AddCommand(
		newGetCommand(globals), newSetCommand(globals), newFoldCommand(globals),
		newShowCommand(globals), newHistoryCommand(globals), newDiffCommand(globals), newCheckCommand(globals),
		newAdoptCommand(globals), newDiscardCommand(globals),
	)
	return command
}
