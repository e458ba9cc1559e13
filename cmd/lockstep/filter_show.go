package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"lockstep/core/job"
)

func newFilterListCommand(globals *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List filter rules, in the order in which they are looked at",
		Long: `List all filter rules, in the order in which they are looked at: by priority, then
by age, which is the last job id that was given away when they were made. The
first one that fits a job decides, unless it says CONTINUE.

Exit code: 0, also if there are none.
` + filterJSONHelp,
		Example: `  lockstep filter list
  lockstep filter list --json | jq -r '.[].uuid'`,
		Args: wants(0, 0, "filter list takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runFilterList(command.Context(), globals)
		},
	}
}

func runFilterList(ctx context.Context, globals *globalOptions) error {
	daemon := globals.connect()
	defer daemon.close()
	rules, err := queryFilters(ctx, daemon, nil)
	if err != nil {
		return err
	}
	slices.SortFunc(rules, func(a, b filterRule) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Watermark, b.Watermark), strings.Compare(a.UUID, b.UUID))
	})
	switch {
	case globals.JSON:
		return printJSON(globals.streams.Out, rules)
	case len(rules) == 0:
		fmt.Fprintln(globals.streams.Err, "no filter rules: every job runs when its turn comes")
	default:
		fmt.Fprintln(globals.streams.Out, filterTable(rules, globals.streams.Width))
	}
	return nil
}

func filterTable(rules []filterRule, width int) string {
	rows := make([]table.Row, 0, len(rules))
	for _, rule := range rules {
		rows = append(rows, table.Row{strconv.FormatInt(rule.Priority, 10), rule.action(), rule.conditions(),
			orDash(visible(rule.why())), visible(rule.UUID)})
	}
	return plainTable(table.Row{"Priority", "Action", "Jobs", "Reason", "UUID"}, rows, []int{2, 3}, width)
}

func newFilterInfoCommand(globals *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "info UUID...",
		Short: "Show everything about filter rules",
		Long: `Show everything about filter rules: what they are about, in words and as they are
kept, and who has made them, when and why. The beginning of a UUID may stand for it.

Exit code: 0; 1 if one of the rules does not exist.
` + filterJSONHelp,
		Example: `  lockstep filter info 5e7c0a3e-3c4f-4c43-8a36-1c8b0d9a2f10`,
		Args:    wants(1, -1, "name at least one rule, by its UUID"),
		RunE: func(command *cobra.Command, args []string) error {
			return runFilterInfo(command.Context(), globals, args)
		},
	}
}

func runFilterInfo(ctx context.Context, globals *globalOptions, uuids []string) error {
	if err := checkUUIDs(uuids); err != nil {
		return err
	}
	daemon := globals.connect()
	defer daemon.close()
	uuids, err := wholeUUIDs(ctx, daemon, uuids)
	if err != nil {
		return err
	}
	rules, err := queryFilters(ctx, daemon, uuids)
	if err != nil {
		return err
	}
	found := []filterRule{}
	missing := false
	for _, uuid := range uuids {
		i := slices.IndexFunc(rules, func(rule filterRule) bool { return rule.UUID == uuid })
		if i < 0 {
			complain(globals.streams.Err, fmt.Sprintf(`there is no filter rule %s; "lockstep filter list" shows which there are`, uuid))
			missing = true
			continue
		}
		found = append(found, rules[i])
	}
	if globals.JSON {
		if err := printJSON(globals.streams.Out, found); err != nil {
			return err
		}
	} else {
		for i, rule := range found {
			if i > 0 {
				fmt.Fprintln(globals.streams.Out)
			}
			rule.print(globals.streams.Out, globals.streams.Now(), globals.palette())
		}
	}
	if missing {
		return &exitError{code: exitFailure}
	}
	return nil
}

func (r filterRule) print(out io.Writer, now time.Time, colours palette) {
	line := func(name, value string) { fmt.Fprintf(out, "  %-11s %s\n", name+":", value) }
	fmt.Fprintln(out, colours.title("Filter rule "+r.UUID))
	line("Priority", strconv.FormatInt(r.Priority, 10))
	line("Action", r.action())
	line("Jobs", r.conditions())
	line("Predicates", rawText(r.Predicates))
	line("Made after", fmt.Sprintf("job %d", r.Watermark))
	if len(r.Reasons) > 0 {
		fmt.Fprintln(out, "  Reasons:")
	}
	for _, entry := range r.Reasons {
		text := visible(entry.Source)
		if entry.Text != "" {
			text += ": " + visible(shortened(entry.Text, infoValueSize))
		}
		fmt.Fprintf(out, "    %s (%s)\n", text, fullClock(now, time.Unix(0, entry.Nanos)))
	}
}

// rawText is JSON as it was sent, safe to print.
func rawText(raw json.RawMessage) string {
	value, err := decodeAny(raw)
	if err != nil {
		return visible(string(raw))
	}
	encoded, err := encodeJSON(value)
	if err != nil {
		return visible(string(raw))
	}
	return visible(string(encoded))
}

// why is the reason that a person gave for the rule, or else the last one that anybody did.
func (r filterRule) why() string {
	text := ""
	for _, entry := range r.Reasons {
		if entry.Source == "gnt:user" {
			return shortened(entry.Text, infoValueSize)
		}
		if entry.Text != "" && entry.Source != job.UserSource && !strings.HasPrefix(entry.Source, "gnt:client:") {
			text = entry.Text
		}
	}
	return shortened(text, infoValueSize)
}

// action is the form that --action takes.
func (r filterRule) action() string {
	value, err := decodeAny(r.Action)
	if err != nil {
		return visible(string(r.Action))
	}
	if list, ok := value.([]any); ok && len(list) == 2 {
		return plainText(list[0]) + ":" + plainText(list[1])
	}
	return plainText(value)
}

// conditions says in words which jobs the rule is about.
func (r filterRule) conditions() string {
	value, err := decodeAny(r.Predicates)
	list, ok := value.([]any)
	if err != nil || !ok {
		return rawText(r.Predicates)
	}
	if len(list) == 0 {
		return "all"
	}
	var words []string
	for _, predicate := range list {
		words = append(words, predicateText(predicate, r.Watermark))
	}
	return strings.Join(words, "; ")
}
