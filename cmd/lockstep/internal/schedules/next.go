package schedules

import (
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
		Use:   "next --cron EXPRESSION|--every DURATION [flags]",
		Short: "Show the next times of a cron expression or of a period",
		Long: `Show the next times of a cron expression in a time zone, or of a period, which begins
at --from: when each is, and how long it is until then. No daemon is needed.

An expression has ` + calendar.CronHelp + `.
Without --tz it is in the zone of this machine or of the variable TZ. A time that the
clock skips when it is set forward is due right after it; one that it shows twice when
it is set back is due the first time. If the hour field begins with *, elapsed time
counts.

Exit code: 0; 1 if there is no time in eight years.
With --json: a list of times as RFC 3339`,
		Example: `  lockstep schedule next --cron '30 2 * * mon-fri' --tz Europe/Berlin
  lockstep schedule next --cron @monthly -n 12 --from 2027-01-01T00:00:00Z
  lockstep schedule next --every 90m --json`,
		Args: cli.WantArgs(0, 0, "schedule next takes no arguments, only flags; write the expression of --cron in quotes"),
		RunE: func(*cobra.Command, []string) error { return runNext(globals, opts) },
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

func runNext(globals *cli.Globals, opts nextOptions) error {
	if opts.Times < 1 || opts.Times > mostTimes {
		return cli.Usagef("-n is from 1 to %d, not %d", mostTimes, opts.Times)
	}
	now := globals.Streams.Now().Truncate(time.Second)
	from := now
	if opts.From != "" {
		var err error
		if from, err = parseInstant(opts.From); err != nil {
			return cli.Usagef("--from: %v", err)
		}
	}
	zone, err := zoneOf(globals, opts.Zone)
	if err != nil {
		return err
	}
	rule, err := opts.rule(from, zone)
	if err != nil {
		return err
	}
	return showTimes(globals, rule, zone, from, now, opts.Times)
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

// showTimes prints the next times of a rule after a moment.
func showTimes(globals *cli.Globals, rule calendar.Rule, zone *time.Location, from, now time.Time, most int) error {
	var times []string
	var rows []table.Row
	for next, ok := rule.Next(from); ok && len(times) < most; next, ok = rule.Next(next) {
		next = next.In(zone)
		until := "in " + term.Span(next.Sub(now))
		if !next.After(now) {
			until = term.Ago(now, next)
		}
		times = append(times, next.Format(time.RFC3339Nano))
		rows = append(rows, table.Row{next.Format("Mon " + time.RFC3339), zone.String(), until})
	}
	switch {
	case len(times) == 0:
		return fmt.Errorf("there is no time in the eight years after %s", from.In(zone).Format(time.RFC3339))
	case globals.JSON:
		return cli.PrintJSON(globals.Streams.Out, times)
	}
	fmt.Fprintln(globals.Streams.Out, term.TextTable(table.Row{"Due", "Zone", ""}, rows, nil, globals.Streams.Width))
	return nil
}
