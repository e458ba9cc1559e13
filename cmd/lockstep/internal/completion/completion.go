// Package completion completes arguments and flags on the command line of a shell: ids and names of jobs, statuses,
// opcodes, settings, filter rules and nodes. It asks the daemon and waits a second at most. Without an answer it
// completes nothing. It has no command.
package completion

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
)

// patience is how long a shell waits for the daemon.
const patience = time.Second

// Func is a completion of cobra: the candidates for the word toComplete.
type Func = cobra.CompletionFunc

const only = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder

// Flag sets the completion of a flag of a command, which must have the flag: else it panics.
func Flag(command *cobra.Command, name string, f Func) {
	if err := command.RegisterFlagCompletionFunc(name, f); err != nil {
		panic(err)
	}
}

// Nothing completes nothing, not even names of files.
func Nothing(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { return nil, only }

// candidate is a word and its description, as the shell scripts of cobra want it.
func candidate(word, description string) string {
	return word + "\t" + strings.ReplaceAll(term.Visible(term.Shortened(description, 60)), "\t", " ")
}

// query makes a query for a completion with a bounded wait. It prints nothing.
func query(globals *cli.Globals, method string, args []any, result any) error {
	daemon := globals.Connect()
	defer daemon.Close()
	daemon.Notice, daemon.AnswerTimeout = nil, patience
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return daemon.Query(ctx, method, args, result)
}

// jobsMax is the maximum number of candidates of ids and of names.
const jobsMax = 200

// Jobs completes ids, newest first, and names of jobs with one of the statuses, or of all jobs of the queue. A word that
// begins with a letter is completed to names only.
func Jobs(globals *cli.Globals, statuses ...string) Func {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		var list answer.JobList
		if query(globals, "LockstepListJobs", []any{answer.JobSelection{Statuses: statuses, Limit: jobsMax}}, &list) != nil {
			return nil, only
		}
		slices.Reverse(list.Jobs)
		var ids, names []string
		seen := map[string]bool{}
		for _, job := range list.Jobs {
			about := job.Status + " " + cli.Work(job.Summary)
			if id := fmt.Sprint(job.ID); strings.HasPrefix(id, word) && !slices.Contains(args, id) {
				ids = append(ids, candidate(id, strings.TrimSpace(job.Name+" "+about)))
			}
			if job.Name != "" && strings.HasPrefix(job.Name, word) && !seen[job.Name] && !slices.Contains(args, job.Name) {
				seen[job.Name] = true
				names = append(names, candidate(job.Name, fmt.Sprintf("job %d, %s", job.ID, about)))
			}
		}
		return append(ids, names...), only
	}
}

// Names completes the names of jobs of the queue. Ids are no candidates.
func Names(globals *cli.Globals) Func {
	jobs := Jobs(globals)
	return func(command *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		all, directive := jobs(command, args, word)
		return slices.DeleteFunc(all, func(c string) bool { return strings.Trim(strings.SplitN(c, "\t", 2)[0], "0123456789") == "" }), directive
	}
}

// Statuses completes statuses of jobs.
func Statuses(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{
		candidate(client.StatusQueued, "waits for its turn"),
		candidate(client.StatusWaiting, "waits for other jobs or for locks"),
		candidate(client.StatusRunning, "an opcode executes"),
		candidate(client.StatusCanceling, "is being canceled"),
		candidate(client.StatusSuccess, "has succeeded"),
		candidate(client.StatusError, "has failed"),
		candidate(client.StatusCanceled, "was canceled"),
	}, only
}

// Priorities completes the named priorities.
func Priorities(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{candidate("high", "-10, first"), candidate("normal", "0"), candidate("low", "10, last")}, only
}

// Causes completes what a command may be tried again after.
func Causes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{candidate("failure", "every failure of the command"), candidate("timeout", "it reached its time limit"),
		candidate("lost", "the job's process died, or its node")}, only
}

// Times completes the forms of a time.
func Times(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{candidate("now", "at once"), candidate("+2h", "after a duration"),
		candidate("03:00", "the next time the clock shows this"),
		candidate("tomorrow 03:00", "or today, or the name of a weekday"), candidate("2026-12-01 03:00", "a date")}, only
}

// Opcodes completes OP_IDs of opcodes that the daemon executes.
func Opcodes(globals *cli.Globals) Func {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		var catalogue []answer.Opcode
		if query(globals, "LockstepOpcodes", []any{}, &catalogue) != nil {
			return nil, only
		}
		var all []string
		for _, op := range catalogue {
			if op.Runs && strings.HasPrefix(op.Name, strings.ToUpper(word)) && !slices.Contains(args, op.Name) {
				first, _, _ := strings.Cut(op.Doc, ". ")
				all = append(all, candidate(op.Name, first))
			}
		}
		return all, only
	}
}

// Settings completes names of settings, followed by end, with their present values. With an end no space follows.
func Settings(globals *cli.Globals, end string) Func {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		var settings map[string]json.RawMessage
		if query(globals, "LockstepGetSettings", []any{}, &settings) != nil {
			return nil, only
		}
		var all []string
		for name, value := range settings {
			if strings.HasPrefix(name, word) {
				all = append(all, candidate(name+end, "now "+string(value)))
			}
		}
		slices.Sort(all)
		if end != "" {
			return all, only | cobra.ShellCompDirectiveNoSpace
		}
		return all, only
	}
}

// Nodes completes names of the nodes of the cluster that are not among the arguments yet.
func Nodes(globals *cli.Globals) Func {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		var nodes answer.Nodes
		if query(globals, "LockstepNodes", []any{}, &nodes) != nil {
			return nil, only
		}
		var all []string
		for _, node := range nodes.Nodes {
			if strings.HasPrefix(node.Name, word) && !slices.Contains(args, node.Name) {
				all = append(all, candidate(node.Name, node.Address))
			}
		}
		return all, only
	}
}

// Filters completes the uuids of filter rules that are not among the arguments yet, with what they do.
func Filters(globals *cli.Globals) Func {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		var rows [][]json.RawMessage
		if query(globals, "QueryFilters", []any{nil, []string{"uuid", "action", "predicates"}}, &rows) != nil {
			return nil, only
		}
		var all []string
		for _, row := range rows {
			var uuid string
			if len(row) == 3 && json.Unmarshal(row[0], &uuid) == nil && strings.HasPrefix(uuid, word) && !slices.Contains(args, uuid) {
				all = append(all, candidate(uuid, string(row[1])+" "+string(row[2])))
			}
		}
		return all, only
	}
}

// Parameters completes the parameters of an opcode that are not among the arguments yet, as NAME=.
func Parameters(globals *cli.Globals, opcode string) Func {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		var known []answer.Opcode
		if strings.Contains(word, "=") || query(globals, "LockstepOpcodes", []any{opcode}, &known) != nil || len(known) == 0 {
			return nil, only
		}
		var all []string
		for _, p := range known[0].Params {
			given := slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, p.Name+"=") })
			if strings.HasPrefix(p.Name, word) && !given {
				all = append(all, candidate(p.Name+"=", p.Type))
			}
		}
		return all, only | cobra.ShellCompDirectiveNoSpace
	}
}

// Actions completes the actions of filter rules.
func Actions(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{
		candidate("ACCEPT", "the jobs start; later rules do not apply"), candidate("PAUSE", "the jobs stay queued"),
		candidate("REJECT", "the jobs are canceled"), candidate("RATE_LIMIT:", "at most N of the jobs run: RATE_LIMIT:N"),
		candidate("CONTINUE", "the next rule decides"),
	}, only
}

// Schedules completes the names of schedules.
func Schedules(globals *cli.Globals) Func {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		var all answer.Schedules
		if query(globals, "LockstepSchedules", []any{nil}, &all) != nil {
			return nil, only
		}
		var names []string
		for _, s := range all.Schedules {
			if strings.HasPrefix(s.Name, word) && !slices.Contains(args, s.Name) {
				names = append(names, candidate(s.Name, s.State+" "+s.Cron))
			}
		}
		return names, only
	}
}
