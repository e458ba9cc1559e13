package selection

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
	"lockstep/core/record"
)

// ArgsHelp describes the arguments of commands that show jobs.
const ArgsHelp = `A job is given by its id or by its name. A name stands for the newest job that has
it, archived jobs included.`

// List asks the daemon for the selected jobs.
func List(ctx context.Context, from client.Querier, s answer.JobSelection) (answer.JobList, error) {
	var list answer.JobList
	err := from.Query(ctx, "LockstepListJobs", []any{s}, &list)
	return list, err
}

// knownMax bounds the jobs that Known asks for.
const knownMax = 1000

// Known returns what lists show of the first thousand of some jobs, by id. It is for texts that are complete without: what an error leaves
// out is missing.
func Known(ctx context.Context, from client.Querier, ids []int64) map[int64]answer.ListedJob {
	known := map[int64]answer.ListedJob{}
	if len(ids) == 0 {
		return known
	}
	list, err := List(ctx, from, answer.JobSelection{IDs: ids[:min(len(ids), knownMax)]})
	if err != nil {
		return known
	}
	for _, job := range list.Jobs {
		known[job.ID] = job
	}
	return known
}

// parseID reads an id; false if the text is not one.
func parseID(arg string) (int64, bool) {
	id, err := strconv.ParseInt(arg, 10, 64)
	return id, err == nil && id >= 0 && strings.Trim(arg, "0123456789") == ""
}

// checkArg returns why an argument is neither an id nor a name; nil if it is one.
func checkArg(arg string) error {
	if _, is := parseID(arg); is {
		return nil
	}
	if err := record.CheckName(arg); err != nil {
		return cli.Usagef("a job is given by its id, a number, or by its name, not by %q: %v", arg, err)
	}
	return nil
}

// Newest returns the ids of the jobs that the arguments name; a name stands for its newest job. Repeated jobs are
// returned once. Ids are not looked up.
func Newest(ctx context.Context, from client.Querier, args []string) ([]int64, error) {
	for _, arg := range args {
		if err := checkArg(arg); err != nil {
			return nil, err
		}
	}
	var ids []int64
	seen := map[int64]bool{}
	for _, arg := range args {
		id, is := parseID(arg)
		if !is {
			list, err := List(ctx, from, answer.JobSelection{Names: []string{arg}, Archived: true, Limit: 1})
			if err != nil {
				return nil, err
			}
			if len(list.Jobs) == 0 {
				return nil, ErrUnknownName(arg)
			}
			id = list.Jobs[0].ID
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// ErrUnknownName is the error for a name that no job has.
func ErrUnknownName(name string) error {
	return fmt.Errorf(`no job has the name %s; "lockstep list --all --archived" lists all jobs`, name)
}

// Ambiguous is the error for a name that several jobs have, for a command that changes one.
type Ambiguous struct {
	Name string
	Jobs []answer.ListedJob
}

func (e *Ambiguous) Error() string {
	const shown = 20
	text := fmt.Sprintf("%s have the name %s; nothing was changed. Give the ids:", term.Count(len(e.Jobs), "job"), e.Name)
	for i, job := range e.Jobs {
		if i == shown {
			return fmt.Sprintf("%s\n  and %d more", text, len(e.Jobs)-shown)
		}
		text += fmt.Sprintf("\n  %d  %s  %s", job.ID, job.Status, cli.Work(job.Summary))
	}
	return text
}

// one returns the job that an argument of a changing command names. A name stands for the only one of the jobs of scope
// that has it.
func one(ctx context.Context, from client.Querier, arg string, scope Scope) (int64, error) {
	if id, is := parseID(arg); is {
		return id, nil
	}
	list, err := List(ctx, from, answer.JobSelection{Names: []string{arg}, Statuses: scope.statuses()})
	switch {
	case err != nil:
		return 0, err
	case len(list.Jobs) == 0:
		return 0, fmt.Errorf("no %s has the name %s", scope.noun(), arg)
	case len(list.Jobs) > 1:
		return 0, &Ambiguous{arg, list.Jobs}
	}
	return list.Jobs[0].ID, nil
}
