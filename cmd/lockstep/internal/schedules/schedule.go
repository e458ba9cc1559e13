// Package schedules has the command schedule: commands that run again and again, the times of an expression, and a crontab as a plan of
// schedules.
package schedules

import (
	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
)

const needsCommand = "schedule needs a command: add, list, show, history, next, run, pause, resume, remove, apply or import-crontab"

// NewCommand is the command schedule.
func NewCommand(globals *cli.Globals) *cobra.Command {
	command := &cobra.Command{
		Use:   "schedule",
		Short: "Run commands again and again, by a cron expression or a period",
		Long: `A schedule submits jobs at its due times: those of a cron expression in a time zone, or
each period. The jobs have its name, and run as its owner. Each due time has its jobs
once, also if the daemon or its node fails; "history" says what became of it.

Who has the role submit adds schedules, and changes own ones; operate changes all.
"next" with an expression and "import-crontab" need no daemon.`,
		Example: `  lockstep schedule add nightly --cron '0 3 * * *' --tz Europe/Berlin -- ./backup
  lockstep schedule list
  lockstep schedule history nightly
  lockstep schedule apply --plan schedules.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("%s, not %q", needsCommand, args[0])
			}
			return cli.Usagef("%s", needsCommand)
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // without RunE cobra ignores Args
	}
	command.AddCommand(newAddCommand(globals), newListCommand(globals), newShowCommand(globals), newHistoryCommand(globals),
		newNextCommand(globals), newRunCommand(globals), newPauseCommand(globals), newResumeCommand(globals), newRemoveCommand(globals),
		newApplyCommand(globals), newImportCommand(globals))
	return command
}
