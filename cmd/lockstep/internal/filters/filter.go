// Package filters has the commands filter list, info, add, replace and delete, the texts for rules
// and predicates, and the warnings about predicates that match no job.
package filters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/core/wire"
)

// The actions of filter rules (queue.md 5.2). RATE_LIMIT has a number.
const (
	ActionAccept    = "ACCEPT"
	ActionPause     = "PAUSE"
	ActionReject    = "REJECT"
	ActionContinue  = "CONTINUE"
	ActionRateLimit = "RATE_LIMIT"
)

// NewCommand is the command filter.
func NewCommand(globals *cli.Globals) *cobra.Command {
	command := &cobra.Command{
		Use:   "filter add|replace|list|info|delete",
		Short: "Pause, reject or limit jobs by rules",
		Long: `Filter rules control jobs before they run. They apply in the order of their
priorities, small numbers first; the first rule that matches a job, other than
CONTINUE, decides:
  ACCEPT        it runs; no later rule applies
  PAUSE         it stays in the queue until the rule is changed or deleted; a
                running job does not begin its next opcode
  REJECT        it is canceled
  RATE_LIMIT:N  it waits while N jobs that the rule decides are running
  CONTINUE      no effect; the next rule applies
A job that matches no rule runs. No rule ends a running opcode. Rules last until they
are deleted, or until the end that --for has set, also over restarts of the daemon.

"lockstep why ID" names the rule that delays a job.`,
		Example: `  lockstep filter add --action PAUSE --job-newer --reason "power works in rack 4"
  lockstep filter add --action RATE_LIMIT:2 --opcode OP_INSTANCE_MIGRATE
  lockstep filter list
  lockstep filter delete 5e7c0a3e-3c4f-4c43-8a36-1c8b0d9a2f10`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("filter add, replace, list, info or delete, not %q", args[0])
			}
			return cli.Usagef("say one of add, replace, list, info and delete")
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // without RunE cobra ignores Args
	}
	command.AddCommand(
		newAddCommand(globals),
		newReplaceCommand(globals),
		newListCommand(globals),
		newInfoCommand(globals),
		newDeleteCommand(globals),
	)
	return command
}

// rule is a filter rule, in the daemon's answer and in JSON output.
type rule struct {
	UUID       string          `json:"uuid"`
	Priority   int64           `json:"priority"`
	Watermark  int64           `json:"watermark"`
	Action     json.RawMessage `json:"action"`
	Predicates json.RawMessage `json:"predicates"`
	Reasons    []trailEntry    `json:"reason_trail"`
	Until      int64           `json:"until,omitempty"` // nanoseconds since 1970; 0: it has no end
}

// trailEntry is a step of a reason trail, [source, text, ns] on the wire (queue.md 3.6).
type trailEntry struct {
	Source string `json:"source"`
	Text   string `json:"reason"`
	Nanos  int64  `json:"timestamp"` // since 1970
}

func (e *trailEntry) UnmarshalJSON(data []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if len(parts) != 3 {
		return errors.New("an entry of a reason trail is not [source, reason, nanoseconds]")
	}
	return client.Scan(parts, &e.Source, &e.Text, &e.Nanos)
}

// ruleJSONHelp describes rules in JSON output.
const ruleJSONHelp = `With --json: a list of {"uuid": string, "priority": number, "watermark": number,
"action": "PAUSE" or ["RATE_LIMIT", number], "predicates": list,
"reason_trail": [{"source": string, "reason": string, "timestamp": number}],
"until": number, absent without an end}, timestamps in nanoseconds since 1970.`

// queryRules returns the rules with the given UUIDs, or all for nil, in the order in which
// they apply. It omits unknown rules.
func queryRules(ctx context.Context, daemon client.Querier, uuids []string) ([]rule, error) {
	var all []rule
	if err := daemon.Query(ctx, "LockstepListFilters", []any{}, &all); err != nil {
		return nil, err
	}
	rules := []rule{}
	for _, r := range all {
		if uuids == nil || slices.Contains(uuids, r.UUID) {
			if r.Reasons == nil {
				r.Reasons = []trailEntry{}
			}
			rules = append(rules, r)
		}
	}
	return rules, nil
}

func newDeleteCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "delete UUID...",
		Short: "Delete filter rules",
		Long: `Delete filter rules, one after the other. Jobs that they delayed become eligible. The
beginning of a UUID stands for it if no other rule has it.

Exit code: 0 if every rule was deleted, 1 otherwise.
With --json: a list of {"uuid": string, "done": bool, "message": string}`,
		Example: `  lockstep filter delete 5e7c0a3e`,
		Args:    cli.WantArgs(1, -1, "name at least one rule, by its UUID"),
		RunE: func(command *cobra.Command, args []string) error {
			return runDelete(command.Context(), globals, args)
		},
		ValidArgsFunction: completion.Filters(globals),
	}
}

// deleteAnswer is the result of the deletion of one rule.
type deleteAnswer struct {
	UUID    string `json:"uuid"`
	Done    bool   `json:"done"`
	Message string `json:"message"`
}

// runDelete deletes the rules and prints an answer for each. It continues after a refusal; a lost daemon ends the loop.
func runDelete(ctx context.Context, globals *cli.Globals, uuids []string) error {
	if err := checkUUIDs(uuids); err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	uuids, err := completeUUIDs(ctx, daemon, uuids)
	if err != nil {
		return err
	}
	answers := []deleteAnswer{}
	var stopped error
	refused := false
	for _, uuid := range uuids {
		answer := deleteAnswer{UUID: uuid, Done: true, Message: "deleted"}
		stopped = daemon.Call(ctx, "DeleteFilter", []any{uuid}, nil)
		var failed *wire.Error
		if errors.As(stopped, &failed) {
			answer.Done, answer.Message = false, failed.Error()
			refused, stopped = true, nil
		}
		if stopped != nil {
			break
		}
		answers = append(answers, answer)
		switch {
		case globals.JSON:
		case answer.Done:
			fmt.Fprintf(globals.Streams.Out, "filter rule %s: deleted\n", uuid)
		default:
			cli.PrintError(globals.Streams.Err, fmt.Sprintf("filter rule %s was not deleted: %s", uuid, answer.Message))
		}
	}
	if globals.JSON && (stopped == nil || len(answers) > 0) {
		if err := cli.PrintJSON(globals.Streams.Out, answers); err != nil {
			return err
		}
	}
	if refused && stopped == nil {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return stopped
}

// uuidPrefixMin is the minimum length of a beginning of a UUID that stands for it.
const uuidPrefixMin = 4

// checkUUIDs accepts UUIDs and beginnings of UUIDs, in lower case as in the daemon: a rule has one
// name.
func checkUUIDs(uuids []string) error {
	for _, uuid := range uuids {
		if !isUUID(uuid) && !isUUIDPrefix(uuid) {
			return cli.Usagef("a UUID is groups of 8, 4, 4, 4 and 12 digits or letters a to f, or at least the first %d of them, not %q",
				uuidPrefixMin, uuid)
		}
	}
	return nil
}

func isUUIDPrefix(text string) bool {
	const zero = "00000000-0000-0000-0000-000000000000"
	return len(text) >= uuidPrefixMin && len(text) < len(zero) && isUUID(text+zero[len(text):])
}

// completeUUIDs replaces beginnings of UUIDs by the UUIDs. It queries the daemon only if there are beginnings. A beginning of no rule or
// of several is an error.
func completeUUIDs(ctx context.Context, daemon client.Querier, args []string) ([]string, error) {
	if !slices.ContainsFunc(args, isUUIDPrefix) {
		return args, nil
	}
	rules, err := queryRules(ctx, daemon, nil)
	if err != nil {
		return nil, err
	}
	uuids := slices.Clone(args)
	for i, arg := range args {
		var found []string
		for _, rule := range rules {
			if strings.HasPrefix(rule.UUID, arg) {
				found = append(found, rule.UUID)
			}
		}
		slices.Sort(found)
		switch {
		case len(found) == 1:
			uuids[i] = found[0]
		case len(found) > 1:
			return nil, cli.Usagef("%s is the beginning of several rules: %s", arg, term.Enumerate(found, "and"))
		case !isUUID(arg):
			return nil, fmt.Errorf(`there is no filter rule %s; "lockstep filter list" lists all rules`, arg)
		}
	}
	return uuids, nil
}

func isUUID(text string) bool {
	groups := strings.Split(text, "-")
	lengths := []int{8, 4, 4, 4, 12}
	if len(groups) != len(lengths) {
		return false
	}
	for i, group := range groups {
		if len(group) != lengths[i] || strings.Trim(group, "0123456789abcdef") != "" {
			return false
		}
	}
	return true
}
