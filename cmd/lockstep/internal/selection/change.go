package selection

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/core/answer"
)

// Scope are the jobs that a changing command can change.
type Scope uint8

const (
	Unfinished Scope = iota // jobs that have not ended
	Ended                   // jobs that have ended and are not archived
)

func (s Scope) noun() string {
	if s == Ended {
		return "ended job"
	}
	return "unfinished job"
}

func (s Scope) statuses() []string {
	var all []string
	for _, status := range client.AllStatuses() {
		if client.Final(status) == (s == Ended) {
			all = append(all, status)
		}
	}
	return all
}

// ChangeFlags are the flags of a command that changes jobs.
type ChangeFlags struct {
	Flags
	Yes bool
}

// ChangeHelp describes arguments and flags of such a command.
const ChangeHelp = `Jobs are given by id or by name, or selected with flags. A name must belong to
exactly one job that the command can change; otherwise nothing is changed.
` + Help + `

Before several jobs that flags select are changed, the command prints their number
and asks. Without a terminal it needs --yes. It changes exactly the jobs that it has
counted.`

// Register adds the flags to a command that changes the jobs of a scope.
func (f *ChangeFlags) Register(globals *cli.Globals, command *cobra.Command, scope Scope) {
	f.Flags.Register(globals, command)
	command.Flags().BoolVarP(&f.Yes, "yes", "y", false, "do not ask before several selected jobs are changed")
	command.ValidArgsFunction = completion.Jobs(globals, scope.statuses()...)
}

// CheckGiven is the check that a command has arguments or flags.
func (f *ChangeFlags) CheckGiven(args []string) error {
	if len(args) == 0 && !f.Given() {
		return cli.Usagef(`name at least one job, by its id or its name, or select jobs, for example with --name`)
	}
	return nil
}

// Jobs returns the ids of the jobs to change. If flags select and more than one is changed, the user must agree, unless
// --yes is given. doing is the verb of the question, such as "cancel". No job is an empty list.
func (f *ChangeFlags) Jobs(
	ctx context.Context, globals *cli.Globals, daemon client.Querier,
	args []string, scope Scope, doing string,
) ([]int64, error) {
	for _, arg := range args {
		if err := checkArg(arg); err != nil {
			return nil, err
		}
	}
	var ids []int64
	names := map[int64]string{}
	for _, arg := range args {
		id, err := one(ctx, daemon, arg, scope)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if f.Given() {
		selected, err := f.selected(ctx, globals, daemon, scope)
		if err != nil {
			return nil, err
		}
		for _, job := range selected {
			names[job.ID] = job.Name
			if !slices.Contains(ids, job.ID) {
				ids = append(ids, job.ID)
			}
		}
	}
	if f.Given() && len(ids) > 1 && !f.Yes {
		return ids, confirm(globals, doing, ids, names)
	}
	return ids, nil
}

// selected returns the jobs of the scope that the flags select. Statuses outside the scope select nothing, which is an error
// if no other is left.
func (f *ChangeFlags) selected(ctx context.Context, globals *cli.Globals, daemon client.Querier, scope Scope) ([]answer.ListedJob, error) {
	s, err := f.Selection(globals.Streams.Now())
	if err != nil {
		return nil, err
	}
	if len(s.Statuses) == 0 {
		s.Statuses = scope.statuses()
	}
	s.Statuses = slices.DeleteFunc(s.Statuses, func(status string) bool { return !slices.Contains(scope.statuses(), status) })
	if len(s.Statuses) == 0 {
		return nil, cli.Usagef("--status selects no %s", scope.noun())
	}
	list, err := List(ctx, daemon, s)
	if err != nil {
		return nil, err
	}
	return list.Jobs, nil
}

// confirm asks whether these jobs are to be changed; nil is yes. The error says that nothing was changed. Without a terminal it is a
// *UsageError.
func confirm(globals *cli.Globals, doing string, ids []int64, names map[int64]string) error {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strings.TrimSpace(fmt.Sprint(id, " ", term.Visible(names[id])))
	}
	const shown = 10
	list := strings.Join(texts[:min(shown, len(texts))], ", ")
	if len(texts) > shown {
		list += fmt.Sprintf(" and %d more", len(texts)-shown)
	}
	streams := globals.Streams
	if !streams.InTerminal || !streams.ErrTerminal {
		return cli.Usagef("%s %s (%s): without a terminal this needs --yes", doing, term.Count(len(ids), "job"), list)
	}
	fmt.Fprintf(streams.Err, "%s %s (%s)? [y/N] ", doing, term.Count(len(ids), "job"), list)
	line, _ := bufio.NewReader(streams.In).ReadString('\n') // the end of the input is no
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return &cli.ExitError{Code: cli.ExitFailure, Err: fmt.Errorf("nothing was changed")}
}
