package schedules

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/submit"
	"lockstep/core/access"
	"lockstep/core/calendar"
	"lockstep/core/schedule"
	"lockstep/core/words"
)

type addOptions struct {
	Cron    string
	Every   time.Duration
	Zone    string
	Overlap string
	CatchUp string
	Within  time.Duration
	Jitter  time.Duration
	File    string

	command submit.ScheduledCommand
}

// policyHelp says what --overlap and --catch-up mean.
const policyHelp = `--overlap says what happens at a due time while jobs of former ones have not ended:
  skip     no job is submitted (the default)
  queue    the job waits for their ends, unless another one waits already
  replace  they are killed, and the job waits for their ends
  allow    the job is submitted beside them

--catch-up says what happens to due times that were missed: the daemon was down, the
queue was drained or full, a role was taken away.
  none     nothing
  last     the newest of them gets its job, late (the default)
  all      each of them does, at most 100
Due times older than --catch-up-within are not made up for.`

func newAddCommand(globals *cli.Globals) *cobra.Command {
	opts := addOptions{}
	command := &cobra.Command{
		Use:   "add NAME (--cron EXPRESSION [--tz ZONE] | --every DURATION) [flags] (-- COMMAND [ARGUMENT...] | --file FILE)",
		Short: "Run a command, or the jobs of a file, again and again",
		Long: `Add a schedule: at each due time the daemon submits a job that runs the command, or the
jobs of a file (see "lockstep submit"). They have the name of the schedule, and run as
you. The command's flags are those of "lockstep run".

A cron expression has ` + calendar.CronHelp + `.
It is in the time zone --tz, or in that of this machine, whose name is stored. A period
counts from now. The output says when the schedule fires next.

` + policyHelp + `

A schedule takes no secrets, since they are never on a disk.

Exit code: 0; 1 if the schedule exists already, or the daemon refuses it.
With --json: {"name": string, "next": RFC 3339 or null}`,
		Example: `  lockstep schedule add nightly --cron '0 3 * * *' --tz Europe/Berlin --lock backup -- ./backup
  lockstep schedule add poll --every 90m --timeout 10m -- ./poll
  lockstep schedule add report --cron '0 8 * * mon' --overlap queue --file report.yaml`,
		Args: func(command *cobra.Command, args []string) error { return opts.checkArgs(command, args) },
		RunE: func(command *cobra.Command, args []string) error {
			return runAdd(command.Context(), opts, globals, args[0], args[1:])
		},
		ValidArgsFunction: completion.Nothing,
	}
	flags := command.Flags()
	flags.StringVar(&opts.Cron, "cron", "", "the cron `EXPRESSION`")
	flags.Var(term.DurationFlag{Value: &opts.Every}, "every", "the period: "+words.DurationHelp)
	zoneFlag(command, &opts.Zone)
	flags.StringVar(&opts.Overlap, "overlap", string(schedule.Skip),
		"`WHAT` happens while former jobs have not ended: skip, queue, replace, allow")
	flags.StringVar(&opts.CatchUp, "catch-up", string(schedule.Last), "`WHICH` missed due times are made up for: none, last, all")
	flags.Var(term.DurationFlag{Value: &opts.Within}, "catch-up-within", "make up for due times that are at most `DURATION` old (default 1d)")
	flags.Var(term.DurationFlag{Value: &opts.Jitter}, "jitter",
		"submit later by less than `DURATION`, always the same for a name, so that many schedules do not start together")
	flags.StringVar(&opts.File, "file", "", "submit the jobs of this `FILE`, or of standard input if it is -")
	opts.command.Register(command)
	for name, values := range map[string][]string{"overlap": {"skip", "queue", "replace", "allow"}, "catch-up": {"none", "last", "all"}} {
		completion.Flag(command, name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	return command
}

func (o *addOptions) checkArgs(command *cobra.Command, args []string) error {
	dash := command.ArgsLenAtDash()
	switch given := o.command.Given(command.Flags()); {
	case len(args) == 0 || dash == 0:
		return cli.Usagef("name the schedule, before --")
	case o.File != "" && len(args) > 1:
		return cli.Usagef("give a command or --file, not both")
	case o.File != "" && given != "":
		return cli.Usagef("--%s is about a command; the jobs of a file have it as a key", given)
	case o.File == "" && dash != 1:
		return cli.Usagef("write the command after --: schedule add %s [flags] -- COMMAND", args[0])
	case o.File == "" && len(args) == 1:
		return cli.Usagef("name the command, or --file with jobs")
	}
	return nil
}

// definition is the schedule without its jobs. The zone of an expression is named.
func (o *addOptions) definition(globals *cli.Globals, name string) (schedule.Definition, error) {
	d := schedule.Definition{Name: name, Cron: o.Cron, EveryUs: o.Every.Microseconds(), Overlap: schedule.Overlap(o.Overlap),
		CatchUp: schedule.CatchUp(o.CatchUp), WithinUs: o.Within.Microseconds(), JitterUs: o.Jitter.Microseconds(), Jobs: make([]schedule.Job, 1)}
	switch {
	case o.Cron == "" && o.Every == 0:
		return d, cli.Usagef("say when: --cron EXPRESSION or --every DURATION")
	case o.Cron != "" && o.Every != 0:
		return d, cli.Usagef("--cron and --every are two schedules: give one of them")
	case o.Cron == "" && o.Zone != "":
		return d, cli.Usagef("--every counts elapsed time, and takes no --tz")
	case o.Cron != "":
		zone, err := zoneOf(globals, o.Zone)
		if err != nil {
			return d, err
		}
		d.Zone = zone.String()
	}
	if err := d.Complete(calendar.LoadZone); err != nil {
		return d, cli.Usagef("%v", err)
	}
	return d, nil
}

func runAdd(ctx context.Context, opts addOptions, globals *cli.Globals, name string, argv []string) error {
	d, err := opts.definition(globals, name)
	if err != nil {
		return err
	}
	as, err := opts.command.Account()
	if err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	if opts.File != "" {
		file, err := submit.ScheduledJobs(ctx, globals, daemon, opts.File)
		if err != nil {
			return err
		}
		if d.Jobs, err = file.ScheduledJobs(); err != nil {
			return err
		}
	} else {
		op, err := opts.command.Opcode(globals.Streams, argv)
		if err != nil {
			return err
		}
		d.Jobs = []schedule.Job{{Ops: []json.RawMessage{op}}}
	}
	if err := put(ctx, daemon, d, as, false); err != nil {
		return err
	}
	globals.SayWhose(daemon)
	s, _, err := fetch(ctx, daemon, name)
	if err != nil {
		return fmt.Errorf("%s is added, but its next time is unknown: %w", name, err)
	}
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, struct {
			Name string  `json:"name"`
			Next *string `json:"next"`
		}{name, instantIn(s.Next.Time, zoneOfSchedule(globals, s))})
	}
	fmt.Fprintf(globals.Streams.Out, "%s fires next %s\n", name, nextText(globals, s))
	return nil
}

// put defines a schedule; as is the account to which it belongs, nil for the caller's.
func put(ctx context.Context, daemon *client.Session, d schedule.Definition, as *access.Submitter, replace bool) error {
	options := map[string]any{"replace": replace}
	if as != nil {
		options["as"] = as
	}
	return daemon.Call(ctx, "LockstepPutSchedule", []any{d, options}, nil)
}
