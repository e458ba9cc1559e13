package filters

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/jobs"
	"lockstep/core/job"
	"lockstep/core/words"
)

func newListCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List filter rules, in the order in which they apply",
		Long: `List all filter rules, in the order in which they apply: by priority, then by
watermark, the highest job id when the rule was made. The first rule that matches a
job decides, except CONTINUE.

Exit code: 0, also if there are none.
` + ruleJSONHelp,
		Example: `  lockstep filter list
  lockstep filter list --json | jq -r '.[].uuid'`,
		Args: cli.WantArgs(0, 0, "filter list takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runList(command.Context(), globals)
		},
	}
}

func runList(ctx context.Context, globals *cli.Globals) error {
	daemon := globals.Connect()
	defer daemon.Close()
	rules, err := queryRules(ctx, daemon, nil)
	if err != nil {
		return err
	}
	slices.SortFunc(rules, func(a, b rule) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Watermark, b.Watermark), strings.Compare(a.UUID, b.UUID))
	})
	switch {
	case globals.JSON:
		return cli.PrintJSON(globals.Streams.Out, rules)
	case len(rules) == 0:
		fmt.Fprintln(globals.Streams.Err, "no filter rules: every job runs when its turn comes")
	default:
		fmt.Fprintln(globals.Streams.Out, ruleTable(rules, globals.Streams.Width))
	}
	return nil
}

func ruleTable(rules []rule, width int) string {
	rows := make([]table.Row, 0, len(rules))
	for _, rule := range rules {
		rows = append(rows, table.Row{strconv.FormatInt(rule.Priority, 10), rule.action(), rule.conditions(),
			term.OrDash(term.Visible(rule.why())), term.Visible(rule.UUID)})
	}
	return term.PlainTable(table.Row{"Priority", "Action", "Jobs", "Reason", "UUID"}, rows, []int{2, 3}, width)
}

func newInfoCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "info UUID...",
		Short: "Show everything about filter rules",
		Long: `Show everything about filter rules: their conditions, in words and as stored, their
authors, times and reasons. The beginning of a UUID may stand for it.

Exit code: 0; 1 if one of the rules does not exist.
` + ruleJSONHelp,
		Example: `  lockstep filter info 5e7c0a3e-3c4f-4c43-8a36-1c8b0d9a2f10`,
		Args:    cli.WantArgs(1, -1, "name at least one rule, by its UUID"),
		RunE: func(command *cobra.Command, args []string) error {
			return runInfo(command.Context(), globals, args)
		},
		ValidArgsFunction: completion.Filters(globals),
	}
}

func runInfo(ctx context.Context, globals *cli.Globals, uuids []string) error {
	if err := checkUUIDs(uuids); err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	uuids, err := completeUUIDs(ctx, daemon, uuids)
	if err != nil {
		return err
	}
	rules, err := queryRules(ctx, daemon, uuids)
	if err != nil {
		return err
	}
	found := []rule{}
	missing := false
	for _, uuid := range uuids {
		i := slices.IndexFunc(rules, func(rule rule) bool { return rule.UUID == uuid })
		if i < 0 {
			cli.PrintError(globals.Streams.Err, fmt.Sprintf(`there is no filter rule %s; "lockstep filter list" lists all rules`, uuid))
			missing = true
			continue
		}
		found = append(found, rules[i])
	}
	if globals.JSON {
		if err := cli.PrintJSON(globals.Streams.Out, found); err != nil {
			return err
		}
	} else {
		for i, rule := range found {
			if i > 0 {
				fmt.Fprintln(globals.Streams.Out)
			}
			rule.print(globals.Streams.Out, globals.Streams.Now(), globals.Palette())
		}
	}
	if missing {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return nil
}

func (r rule) print(out io.Writer, now time.Time, colours term.Palette) {
	line := func(name, value string) { fmt.Fprintf(out, "  %-11s %s\n", name+":", value) }
	fmt.Fprintln(out, colours.Title("Filter rule "+r.UUID))
	line("Priority", strconv.FormatInt(r.Priority, 10))
	line("Action", r.action())
	line("Jobs", r.conditions())
	line("Predicates", cli.RawText(r.Predicates))
	line("Made after", fmt.Sprintf("job %d", r.Watermark))
	if r.Until != 0 {
		line("Ends", term.FullClock(now, time.Unix(0, r.Until)))
	}
	if len(r.Reasons) > 0 {
		fmt.Fprintln(out, "  Reasons:")
	}
	for _, entry := range r.Reasons {
		source, said := jobs.SourceInWords(entry.Source, entry.Text)
		text := term.Visible(source)
		if said != "" {
			text += ": " + term.Visible(term.Shortened(said, term.ValueMax))
		}
		fmt.Fprintf(out, "    %s (%s)\n", text, term.FullClock(now, time.Unix(0, entry.Nanos)))
	}
}

// why is the reason given by the user, or else the last one in the trail.
func (r rule) why() string {
	text := ""
	for _, entry := range r.Reasons {
		if entry.Source == "gnt:user" {
			return term.Shortened(entry.Text, term.ValueMax)
		}
		if entry.Text != "" && entry.Source != job.UserSource && !strings.HasPrefix(entry.Source, "gnt:client:") {
			text = entry.Text
		}
	}
	return term.Shortened(text, term.ValueMax)
}

// action is the action in the form of --action.
func (r rule) action() string {
	value, err := cli.DecodeAny(r.Action)
	if err != nil {
		return term.Visible(string(r.Action))
	}
	if list, ok := value.([]any); ok && len(list) == 2 {
		return cli.PlainText(list[0]) + ":" + cli.PlainText(list[1])
	}
	return cli.PlainText(value)
}

// conditions describes in words the jobs that the rule matches.
func (r rule) conditions() string { return term.Visible(words.Conditions(r.Predicates, r.Watermark)) }
