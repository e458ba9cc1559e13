// Package schedules has the commands schedule next and schedule import-crontab: the times of an expression, and a crontab as a plan of
// schedules.
package schedules

import (
	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
)

// NewCommand is the command schedule.
func NewCommand(globals *cli.Globals) *cobra.Command {
	command := &cobra.Command{
		Use:   "schedule next|import-crontab",
		Short: "Show the times of a cron expression, or read a crontab",
		Long: `A schedule has times: those of a cron expression in a time zone, or each period.
"next" shows the times of an expression or a period, "import-crontab" makes a plan of
schedules of a crontab. Both need no daemon.`,
		Example: `  lockstep schedule next --cron '0 3 * * *' --tz Europe/Berlin
  lockstep schedule import-crontab /etc/crontab`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("schedule next or import-crontab, not %q", args[0])
			}
			return cli.Usagef("say next or import-crontab")
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // without RunE cobra ignores Args
	}
	command.AddCommand(newNextCommand(globals), newImportCommand(globals))
	return command
}
