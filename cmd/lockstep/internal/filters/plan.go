package filters

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
	"lockstep/core/lock"
)

// ownPredicates are the conditions that Ganeti does not have. The error is a *UsageError.
func (o ruleOptions) ownPredicates() ([]any, error) {
	var predicates []any
	if len(o.Locks) > 0 {
		names := make([]string, len(o.Locks))
		for i, name := range o.Locks {
			var err error
			if names[i], err = lock.Meant(name); err != nil {
				return nil, cli.Usagef("--lock %s: %v", name, err)
			}
		}
		predicates = append(predicates, []any{"lock", anyOf("==", "name", names)})
	}
	if len(o.Users) > 0 {
		var either []any
		for _, user := range o.Users {
			if uid, err := strconv.ParseInt(user, 10, 64); err == nil {
				either = append(either, []any{"==", "uid", uid})
			} else {
				either = append(either, []any{"==", "name", user})
			}
		}
		test := either[0]
		if len(either) > 1 {
			test = append([]any{"|"}, either...)
		}
		predicates = append(predicates, []any{"user", test})
	}
	if len(o.Names) > 0 {
		predicates = append(predicates, []any{"name", anyOf("=~", "name", o.Names)})
	}
	return predicates, nil
}

// plannedRule is the daemon's answer to LockstepTestFilter, with the warnings.
type plannedRule struct {
	answer.FilterPreview
	Warnings []string `json:"warnings"`
}

// planRule says what a rule would decide now, and changes nothing.
func planRule(ctx context.Context, globals *cli.Globals, daemon *client.Session, args []any, action any, warnings []string) error {
	planned := plannedRule{Warnings: warnings}
	if err := daemon.Call(ctx, "LockstepTestFilter", args, &planned.FilterPreview); err != nil {
		return err
	}
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, planned)
	}
	for _, warning := range planned.Warnings {
		cli.PrintError(globals.Streams.Err, "warning: "+warning)
	}
	fmt.Fprintln(globals.Streams.Out, planned.summary(action))
	return planned.printJobs(ctx, globals, daemon)
}

// summary is the number of the jobs by status.
func (p plannedRule) summary(action any) string {
	verb := verbOf(action)
	if verb == "" {
		return "the rule would hold back no job: it lets jobs run"
	}
	text := fmt.Sprintf("the rule would %s %d of %s", verb, p.Count, term.Count(p.Unfinished, "unfinished job"))
	var states []string
	for _, state := range slices.Sorted(maps.Keys(p.States)) {
		states = append(states, fmt.Sprintf("%d %s", p.States[state], state))
	}
	if len(states) == 0 {
		return text
	}
	return text + ": " + strings.Join(states, ", ")
}

// verbOf is what a rule does with jobs, "" for actions without effect of their own.
func verbOf(action any) string {
	switch action {
	case ActionPause:
		return "hold back"
	case ActionReject:
		return "cancel"
	case ActionAccept, ActionContinue:
		return ""
	}
	return "limit"
}

// printJobs lists the first jobs that a rule would decide, and counts the others.
func (p plannedRule) printJobs(ctx context.Context, globals *cli.Globals, daemon client.Querier) error {
	if len(p.Jobs) == 0 {
		return nil
	}
	rows, err := client.QueryJobs(ctx, daemon, p.Jobs, "id", "status", "summary")
	if err != nil {
		return err
	}
	for _, row := range rows {
		var id int64
		var status string
		var summary []string
		if client.Scan(row, &id, &status, &summary) == nil && status != "" {
			fmt.Fprintf(globals.Streams.Out, "  %d %s: %s\n", id, status, term.Visible(term.Shortened(strings.Join(summary, ", "), term.ValueMax)))
		}
	}
	if more := p.Count - int64(len(p.Jobs)); more > 0 {
		fmt.Fprintf(globals.Streams.Out, "  and %d more\n", more)
	}
	return nil
}
