package schedules

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/core/calendar"
	"lockstep/core/words"
	"lockstep/edge/zones"
)

// The number of times that next shows without -n, and at most.
const (
	shownTimes = 5
	mostTimes  = 10_000
)

type nextOptions struct {
	Cron  string
	Every time.Duration
	Zone  string
	From  string
	Times int
}

func newNextCommand(globals *cli.Globals) *cobra.Command {
	opts := nextOptions{}
	command := &cobra.Command{
		Use:   "next NAME|--cron EXPRESSION|--every DURATION [flags]",
		Short: "Show the next times of a schedule, a cron expression or a period",
		Long: `Show the next times at which a schedule submits its jobs, those of a cron expression in a
time zone, or those of a period, which begins at --from: when each is, and how long it is
until then. Only with the NAME of a schedule the daemon is asked. Its pauses do not count.

An expression has ` + calendar.CronHelp + `.
Without --tz it is in the zone of this machine or of the variable TZ. A time that the
clock skips when it is set forward is due right after it; one that it shows twice when
it is set back is due the first time. If the hour field begins with *, elapsed time
counts.

Exit code: 0; 1 if there is no time in eight years, or no such schedule.
With --json: a list of times as RFC 3339`,
		Example: `  lockstep schedule next nightly
  lockstep schedule next --cron '30 2 * * mon-fri' --tz Europe/Berlin
  lockstep schedule next --cron @monthly -n 12 --from 2027-01-01T00:00:00Z
  lockstep schedule next --every 90m --json`,
		Args: cli.WantArgs(0, 1, "schedule next takes the name of one schedule, or flags; write the expression of --cron in quotes"),
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 1 {
				return runNextOf(command.Context(), globals, opts, args[0])
			}
			return runNext(globals, opts)
		},
		ValidArgsFunction: oneSchedule(globals),
	}
	flags := command.Flags()
	flags.StringVar(&opts.Cron, "cron", "", "the cron `EXPRESSION`")
	flags.Var(term.DurationFlag{Value: &opts.Every}, "every", "the period: "+words.DurationHelp)
	zoneFlag(command, &opts.Zone)
	flags.StringVar(&opts.From, "from", "", "show times after this `TIME`, like 2027-03-27T12:00:00Z, not after now")
	flags.IntVarP(&opts.Times, "number", "n", shownTimes, "how many times to show")
	return command
}

// zoneFlag adds the flag --tz to a command.
func zoneFlag(command *cobra.Command, name *string) {
	command.Flags().StringVar(name, "tz", "", "the time `ZONE`, like Europe/Berlin, not that of this machine")
	completion.Flag(command, "tz", func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return zones.Names(word), cobra.ShellCompDirectiveNoFileComp
	})
}

// begin checks the number of times, and returns after which time they are shown.
func (o nextOptions) begin(now time.Time) (from time.Time, err error) {
	if o.Times < 1 || o.Times > mostTimes {
		return from, cli.Usagef("-n is from 1 to %d, not %d", mostTimes, o.Times)
	}
	if o.From == "" {
		return now, nil
	}
	if from, err = parseInstant(o.From); err != nil {
		return from, cli.Usagef("--from: %v", err)
	}
	return from, nil
}

// runNextOf shows the next times of a schedule that exists.
func runNextOf(ctx context.Context, globals *cli.Globals, opts nextOptions, name string) error {
	if opts.Cron != "" || opts.Every != 0 || opts.Zone != "" {
		return cli.Usagef("a schedule has its times: give its name, or --cron or --every, and --tz, not both")
	}
	now := globals.Streams.Now().Truncate(time.Second)
	from, err := opts.begin(now)
	if err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	s, _, err := fetch(ctx, daemon, name)
	if err != nil {
		return err
	}
	file := fileOf(s)
	rule, err := file.Rule(calendar.LoadZone)
	if err != nil {
		return err
	}
	return showTimes(globals, delayed(rule, file.Jitter()), zoneOfSchedule(globals, s), from, now, opts.Times)
}

// times returns the first time after another one; false: there is none.
type times func(after time.Time) (time.Time, bool)

// delayed are the times of a rule, each later by a jitter.
func delayed(rule calendar.Rule, by time.Duration) times {
	return func(after time.Time) (time.Time, bool) {
		next, ok := rule.Next(after.Add(-by))
		return next.Add(by), ok
	}
}

func runNext(globals *cli.Globals, opts nextOptions) error {
	now := globals.Streams.Now().Truncate(time.Second)
	from, err := opts.begin(now)
	if err != nil {
		return err
	}
	zone, err := zoneOf(globals, opts.Zone)
	if err != nil {
		return err
	}
	rule, err := opts.rule(from, zone)
	if err != nil {
		return err
	}
	return showTimes(globals, rule.Next, zone, from, now, opts.Times)
}

// rule is the rule of --cron or --every. A period begins at a time.
func (o nextOptions) rule(from time.Time, zone *time.Location) (calendar.Rule, error) {
	var rule calendar.Rule
	var err error
	switch {
	case o.Cron != "" && o.Every != 0:
		return rule, cli.Usagef("--cron and --every are two schedules: give one of them")
	case o.Cron != "":
		rule, err = calendar.ParseCron(o.Cron, zone)
	case o.Every != 0:
		rule, err = calendar.Every(o.Every, from)
	default:
		return rule, cli.Usagef("give --cron EXPRESSION or --every DURATION")
	}
	if err != nil {
		return rule, cli.Usagef("%v", err)
	}
	return rule, nil
}

// parseInstant reads a moment.
func parseInstant(text string) (time.Time, error) {
	instant, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time: write it like 2027-03-27T12:00:00Z or 2027-03-27T12:00:00+01:00", text)
	}
	return instant, nil
}

// zoneOf returns a zone by its name, or the zone of this process for "".
func zoneOf(globals *cli.Globals, name string) (*time.Location, error) {
	if name == "" {
		var err error
		if name, err = zones.Local(globals.Streams.LookupEnv); err != nil {
			return nil, fmt.Errorf("%w, with --tz", err)
		}
	}
	zone, err := calendar.LoadZone(name)
	if err != nil {
		return nil, cli.Usagef("--tz: %v", err)
	}
	return zone, nil
}

// showTimes prints times after a moment.
func showTimes(globals *cli.Globals, following times, zone *time.Location, from, now time.Time, most int) error {
	var shown []string
	var rows []table.Row
	for next, ok := following(from); ok && len(shown) < most; next, ok = following(next) {
		next = next.In(zone)
		until := "in " + term.Span(next.Sub(now))
		if !next.After(now) {
			until = term.Ago(now, next)
		}
		shown = append(shown, next.Format(time.RFC3339Nano))
		rows = append(rows, table.Row{next.Format("Mon " + time.RFC3339), zone.String(), until})
	}
	switch {
	case len(shown) == 0:
		return fmt.Errorf("there is no time in the eight years after %s", from.In(zone).Format(time.RFC3339))
	case globals.JSON:
		return cli.PrintJSON(globals.Streams.Out, shown)
	}
	fmt.Fprintln(globals.Streams.Out, term.TextTable(table.Row{"Due", "Zone", ""}, rows, nil, globals.Streams.Width))
	return nil
}
