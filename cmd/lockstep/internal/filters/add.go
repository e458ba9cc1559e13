package filters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/opcodes"
	"lockstep/core/answer"
	"lockstep/edge/luxiclient"
)

// ruleOptions are the conditions and the action of a rule.
type ruleOptions struct {
	Priority   int64
	Action     string
	Predicates string
	Opcodes    []string
	Jobs       []string
	JobNewer   bool
	Matches    []string
	Reason     string
	Locks      []string
	Users      []string
	Names      []string
	For        time.Duration
	Plan       bool
}

func (o *ruleOptions) register(flags *pflag.FlagSet) {
	flags.Int64Var(&o.Priority, "priority", 0, "`N` of the rule: small numbers apply first")
	flags.StringVar(&o.Action, "action", "", "`ACTION` of the rule: PAUSE, ACCEPT, REJECT, CONTINUE or RATE_LIMIT:N")
	flags.StringArrayVar(&o.Opcodes, "opcode", nil, "jobs with an opcode of this kind, like `OP_ID` OP_TEST_DELAY (repeatable: any of them)")
	flags.StringArrayVar(&o.Jobs, "job", nil, "the job with this `ID` (repeatable: any of them)")
	flags.BoolVar(&o.JobNewer, "job-newer", false, "jobs submitted after the rule")
	flags.StringArrayVar(&o.Matches, "reason-match", nil, "jobs with a reason whose text matches `REGEXP` (repeatable: any of them)")
	flags.StringVar(&o.Predicates, "predicates", "", "further conditions as `JSON`, in Ganeti's form")
	flags.StringArrayVar(&o.Locks, "lock", nil, "jobs whose next opcode takes this `LOCK`, like node/n3 (repeatable: any of them)")
	flags.StringArrayVar(&o.Users, "user", nil, "jobs of this submitter, a `NAME` or a uid (repeatable: any of them)")
	flags.StringArrayVar(&o.Names, "name-match", nil, "jobs whose name matches `REGEXP` (repeatable: any of them)")
	flags.StringVar(&o.Reason, "reason", "", "`TEXT`: the reason of the rule")
	flags.Var(term.DurationFlag{Value: &o.For}, "for", "the rule ends after `DURATION`, like 90s, 2h or 3d (default never)")
	flags.BoolVar(&o.Plan, "plan", false, "change nothing, and list the jobs that the rule would decide now")
}

// conditionsHelp is the part about conditions of the help of add and replace.
const conditionsHelp = `--opcode, --job, --job-newer, --lock, --user, --name-match and --reason-match say which
jobs the rule is about. Where there are several of these flags, all must hold; one that is repeated holds
for any of its values. Without any, the rule is about every job.

--predicates is a list of [PART, F], PART being jobid, opcode, reason, lock, user or name,
and F ["==", FIELD, VALUE], as well with !=, <, >, <=, >=, =~ (a text matches a pattern) or
=[] (a list has the element), ["&", F...], ["|", F...] or ["!", F]. Fields are id, of which "watermark" is the last id that
was given away when the rule was made; OP_ID and the parameters of an opcode; and
source, reason and timestamp of a reason; name and mode of a lock that the next opcode is
declared to take, a node being node/NAME and node/UUID; name and uid of the submitter; and
the name of the job. They must hold as well as the flags.

With --for the rule ends by itself, also while no client is connected. Rules with an end,
and those about locks, users or names, are lockstep's own: Ganeti's programs cannot read
them.

With --plan nothing is changed: the output says how many jobs the rule would decide now,
by status, and lists the first 20. With --json then: {"count": number, "jobs": [number],
"unfinished": number, "states": {STATUS: number}, "warnings": [string]}.`

func newAddCommand(globals *cli.Globals) *cobra.Command {
	opts := ruleOptions{}
	command := &cobra.Command{
		Use:   "add --action ACTION [flags]",
		Short: "Add a filter rule",
		Long: `Add a filter rule, and print its UUID. Standard error lists the jobs that the rule
decides now, and has warnings about unknown opcodes and parameters.

` + conditionsHelp + `

Exit code: 0, or 1 if the daemon refuses the rule.
With --json: {"uuid": string, "count": number, "jobs": [number], "warnings": [string]};
"jobs" are the first 20 of the jobs that the rule decides.`,
		Example: `  lockstep filter add --action PAUSE --job-newer --reason "power works in rack 4"
  lockstep filter add --action RATE_LIMIT:2 --opcode OP_INSTANCE_MIGRATE
  lockstep filter add --action PAUSE --lock node/n3 --for 2h --reason "new memory for n3"
  lockstep filter add --action PAUSE --lock node/n3 --plan
  lockstep filter add --action ACCEPT --reason-match '^maintenance 17' --priority 0
  lockstep filter add --action REJECT --predicates '[["opcode", ["==", "instance_name", "web1"]]]'`,
		Args: cli.WantArgs(0, 0, "filter add takes no arguments, only flags"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runReplace(command.Context(), opts, globals, "add", nil)
		},
	}
	opts.register(command.Flags())
	completion.Flag(command, "action", completion.Actions)
	completion.Flag(command, "opcode", completion.Opcodes(globals))
	return command
}

func newReplaceCommand(globals *cli.Globals) *cobra.Command {
	opts := ruleOptions{}
	command := &cobra.Command{
		Use:   "replace UUID --action ACTION [flags]",
		Short: "Replace a filter rule",
		Long: `Replace a filter rule as a whole: only its UUID is kept, and --job-newer refers to
the time of the replacement. A missing rule is made.

` + conditionsHelp + `

Exit code: 0, or 1 if the daemon refuses the rule.
With --json: {"uuid": string, "count": number, "jobs": [number], "warnings": [string]};
"jobs" are the first 20 of the jobs that the rule decides.`,
		Example: `  lockstep filter replace 5e7c0a3e-3c4f-4c43-8a36-1c8b0d9a2f10 --action CONTINUE`,
		Args:    cli.WantArgs(1, 1, "name one rule, by its UUID"),
		RunE: func(command *cobra.Command, args []string) error {
			if err := checkUUIDs(args); err != nil {
				return err
			}
			return runReplace(command.Context(), opts, globals, "replace", &args[0])
		},
		ValidArgsFunction: completion.Filters(globals),
	}
	opts.register(command.Flags())
	completion.Flag(command, "action", completion.Actions)
	completion.Flag(command, "opcode", completion.Opcodes(globals))
	return command
}

// runReplace makes or replaces a rule, or says with --plan what it would decide; uuid nil makes a new rule.
func runReplace(ctx context.Context, opts ruleOptions, globals *cli.Globals, subcommand string, uuid *string) error {
	if opts.Priority < 0 {
		return cli.Usagef("--priority must not be negative")
	}
	action, err := parseAction(opts.Action)
	if err != nil {
		return err
	}
	predicates, err := opts.predicates()
	if err != nil {
		return err
	}
	if len(predicates) == 0 && opts.Predicates == "" && action == ActionReject {
		return cli.Usagef("a rule without conditions would cancel every job in the queue; if you mean that, add --predicates '[]'")
	}
	if opts.For != 0 && opts.For < time.Second {
		return cli.Usagef("--for wants at least 1s")
	}
	trail := client.ReasonTrail(opts.Reason, "filter "+subcommand, globals.Streams.Now())
	daemon := globals.Connect()
	defer daemon.Close()
	if uuid != nil {
		whole, err := completeUUIDs(ctx, daemon, []string{*uuid})
		if err != nil {
			return err
		}
		uuid = &whole[0]
	}
	args := []any{uuid, opts.Priority, predicates, action, trail}
	if opts.For != 0 {
		args = append(args, int64(opts.For/time.Second))
	}
	warnings := warningsOf(ctx, daemon, predicates)
	if opts.Plan {
		return planRule(ctx, globals, daemon, args, action, warnings)
	}
	made := madeRule{Warnings: warnings}
	if err := daemon.Call(ctx, "LockstepReplaceFilter", args, &made.FilterReplaced); err != nil {
		var lost *luxiclient.ConnectionLostError
		if uuid == nil && errors.As(err, &lost) && lost.Sent {
			return fmt.Errorf("the daemon's answer was lost; the rule may exist:\ncheck \"lockstep filter list\" before you add it again (%w)", err)
		}
		return err
	}
	if globals.JSON {
		document, err := cli.Document(made, map[string][]string{"": {"uuid", "count", "jobs", "warnings"}})
		if err != nil {
			return err
		}
		return cli.PrintJSON(globals.Streams.Out, document)
	}
	fmt.Fprintln(globals.Streams.Out, term.Visible(made.UUID))
	for _, warning := range made.Warnings {
		cli.PrintError(globals.Streams.Err, "warning: "+warning)
	}
	if text := made.effect(action, runningAmong(ctx, daemon, made.Jobs)); text != "" {
		fmt.Fprintln(globals.Streams.Err, text)
	}
	return nil
}

// warningsOf are the warnings about conditions. Without the catalogue there are none.
func warningsOf(ctx context.Context, daemon client.Querier, predicates []any) []string {
	warnings := []string{}
	if mentionsOpcodes(predicates) {
		if opcodes, err := opcodes.Fetch(ctx, daemon); err == nil {
			warnings = append(warnings, predicateWarnings(predicates, opcodes)...)
		}
	}
	return warnings
}

// runningAmong returns the running jobs among ids. After an error it knows of none.
func runningAmong(ctx context.Context, daemon client.Querier, ids []int64) map[int64]bool {
	running := map[int64]bool{}
	if len(ids) == 0 {
		return running
	}
	rows, err := client.QueryJobs(ctx, daemon, ids, "status")
	if err != nil {
		return running
	}
	for i, row := range rows {
		var status string
		if client.Scan(row, &status) == nil && status == client.StatusRunning {
			running[ids[i]] = true
		}
	}
	return running
}

// madeRule is the daemon's answer to LockstepReplaceFilter, with the warnings.
type madeRule struct {
	answer.FilterReplaced
	Warnings []string `json:"warnings"`
}

// effect is a text about the jobs that the rule decides now, "" for actions without effect of
// their own.
func (m madeRule) effect(action any, running map[int64]bool) string {
	var verb string
	switch action {
	case ActionPause:
		verb = "holds back"
	case ActionReject:
		verb = "cancels"
	case ActionAccept, ActionContinue:
		return ""
	default:
		verb = "limits"
	}
	if m.Count == 0 {
		return fmt.Sprintf("the rule %s no job now", verb)
	}
	ids := make([]string, len(m.Jobs))
	for i, id := range m.Jobs {
		ids[i] = strconv.FormatInt(id, 10)
		if running[id] && verb != "limits" {
			ids[i] += " (running: its next opcode)"
		}
	}
	more := ""
	if m.Count > int64(len(ids)) {
		more = fmt.Sprintf(" and %d more", m.Count-int64(len(ids)))
	}
	return fmt.Sprintf("the rule %s %s now: %s%s", verb, term.Count(m.Count, "job"), strings.Join(ids, ", "), more)
}

// parseAction reads an action, in any case of letters, and returns its form on the wire. The error is a *UsageError.
func parseAction(text string) (any, error) {
	name, number, limited := strings.Cut(text, ":")
	name = strings.ReplaceAll(strings.ToUpper(name), "-", "_")
	plain := []string{ActionPause, ActionAccept, ActionReject, ActionContinue}
	switch {
	case text == "":
		return nil, cli.Usagef("--action is missing: %s or %s:N", strings.Join(plain, ", "), ActionRateLimit)
	case !limited && slices.Contains(plain, name):
		return name, nil
	case name != ActionRateLimit:
		return nil, cli.Usagef("--action is %s or %s:N, not %q", strings.Join(plain, ", "), ActionRateLimit, text)
	}
	limit, err := strconv.ParseInt(number, 10, 64)
	if err != nil || limit < 1 {
		return nil, cli.Usagef("--action %s:N wants a number of jobs, at least 1, not %q", ActionRateLimit, number)
	}
	return []any{ActionRateLimit, limit}, nil
}

// predicates are the conditions of all flags; all must hold. The error is a *UsageError.
func (o ruleOptions) predicates() ([]any, error) {
	predicates := []any{}
	if o.JobNewer && len(o.Jobs) > 0 {
		return nil, cli.Usagef("--job and --job-newer exclude each other: a job that has an id is not new")
	}
	if o.JobNewer {
		predicates = append(predicates, []any{"jobid", []any{">", "id", "watermark"}})
	}
	if len(o.Jobs) > 0 {
		ids, err := cli.ParseIDs(o.Jobs)
		if err != nil {
			return nil, err
		}
		predicates = append(predicates, []any{"jobid", anyOf("==", "id", ids)})
	}
	if len(o.Opcodes) > 0 {
		for i, id := range o.Opcodes {
			if !regexp.MustCompile(`^OP_[A-Z0-9_]+$`).MatchString(id) {
				return nil, cli.Usagef("--opcode number %d is no OP_ID like OP_TEST_DELAY: %q", i+1, id)
			}
		}
		predicates = append(predicates, []any{"opcode", anyOf("==", "OP_ID", o.Opcodes)})
	}
	if len(o.Matches) > 0 {
		for _, pattern := range o.Matches {
			if _, err := regexp.Compile(pattern); err != nil {
				return nil, cli.Usagef("--reason-match: %v", err)
			}
		}
		predicates = append(predicates, []any{"reason", anyOf("=~", "reason", o.Matches)})
	}
	own, err := o.ownPredicates()
	if err != nil {
		return nil, err
	}
	predicates = append(predicates, own...)
	for _, pattern := range o.Names {
		if _, err := regexp.Compile(pattern); err != nil {
			return nil, cli.Usagef("--name-match: %v", err)
		}
	}
	further, err := parsePredicates(o.Predicates)
	return append(predicates, further...), err
}

// anyOf is the expression that is true if the comparison holds for one of the values.
func anyOf[T any](operator, field string, values []T) []any {
	either := []any{"|"}
	for _, value := range values {
		either = append(either, []any{operator, field, value})
	}
	if len(values) == 1 {
		return either[1].([]any)
	}
	return either
}

// parsePredicates decodes --predicates; nil without it. It checks the outer form only; the daemon checks the expressions.
func parsePredicates(text string) ([]any, error) {
	if text == "" {
		return nil, nil
	}
	const form = `a list like [["opcode", ["==", "OP_ID", "OP_TEST_DELAY"]]]`
	var whole json.RawMessage
	if err := json.Unmarshal([]byte(text), &whole); err != nil {
		return nil, cli.Usagef("--predicates is not JSON: %v; it must be %s", err, form)
	}
	value, err := cli.DecodeAny(whole)
	list, ok := value.([]any)
	if err != nil || !ok {
		return nil, cli.Usagef("--predicates must be %s", form)
	}
	for i, element := range list {
		pair, ok := element.([]any)
		if !ok || len(pair) != 2 {
			return nil, cli.Usagef("--predicates: number %d is not a pair of a name and an expression; it must be %s", i+1, form)
		}
		switch pair[0] {
		case "jobid", "opcode", "reason", "lock", "user", "name":
		default:
			return nil, cli.Usagef("--predicates: number %d is about jobid, opcode, reason, lock, user or name, not %s", i+1, cli.JSONText(pair[0]))
		}
	}
	return list, nil
}
