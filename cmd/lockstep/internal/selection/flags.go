// Package selection finds the jobs that a command is about: by id, by name, or by the flags of a selection. It asks
// the daemon, which selects, and before a command changes several jobs it asks the user. It has no command and changes
// no job.
package selection

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/core/answer"
)

// Flags are the flags that select jobs. A job is selected if it matches all flags that are given.
type Flags struct {
	Status  []string
	Names   []string
	Users   []string
	Opcodes []string
	Reasons []string
	Since   time.Duration
	Failed  bool
}

// Help describes the flags.
const Help = `A job is selected if it matches every flag that is given, and one of the values of
each flag. In names and opcodes "*" stands for any text and "?" for one character;
quote them for the shell.`

// Register adds the flags to a command, with their completion.
func (f *Flags) Register(globals *cli.Globals, command *cobra.Command) {
	flags := command.Flags()
	flags.StringSliceVarP(&f.Status, "status", "s", nil, "jobs with one of these `STATUSES`: "+strings.Join(client.AllStatuses(), ", "))
	flags.StringSliceVar(&f.Names, "name", nil, "jobs whose name matches `PATTERN`")
	flags.StringSliceVar(&f.Users, "user", nil, "jobs submitted by `USER`, a name or a number")
	flags.StringSliceVar(&f.Opcodes, "opcode", nil, "jobs with an opcode that matches `PATTERN`, like OP_RUN_COMMAND or TEST_*")
	flags.StringArrayVar(&f.Reasons, "reason", nil, "jobs with `TEXT` in a reason")
	flags.Var(term.DurationFlag{Value: &f.Since}, "since", "jobs submitted, started or ended in the last `DURATION`, like 2h or 7d")
	flags.BoolVar(&f.Failed, "failed", false, "the same as --status error")
	completion.Flag(command, "status", completion.Statuses)
	completion.Flag(command, "name", completion.Names(globals))
	completion.Flag(command, "opcode", completion.Opcodes(globals))
	completion.Flag(command, "user", completion.Nothing)
	completion.Flag(command, "reason", completion.Nothing)
	completion.Flag(command, "since", completion.Nothing)
}

// Given reports whether a flag is given.
func (f Flags) Given() bool {
	return len(f.Status)+len(f.Names)+len(f.Users)+len(f.Opcodes)+len(f.Reasons) > 0 || f.Since > 0 || f.Failed
}

// Selection is the request for the selected jobs. now is for --since. An error is wrong usage.
func (f Flags) Selection(now time.Time) (answer.JobSelection, error) {
	s := answer.JobSelection{Names: f.Names, Statuses: slices.Clone(f.Status), Users: f.Users, Opcodes: f.Opcodes, Reasons: f.Reasons}
	for _, status := range f.Status {
		if !slices.Contains(client.AllStatuses(), status) {
			return s, cli.Usagef("--status: %q is none of %s", status, strings.Join(client.AllStatuses(), ", "))
		}
	}
	for _, pattern := range slices.Concat(f.Names, f.Opcodes) {
		if strings.ContainsAny(pattern, `[\/`) {
			return s, cli.Usagef("%q is no pattern: write * for any text and ? for one character", pattern)
		}
	}
	if f.Failed {
		s.Statuses = append(s.Statuses, client.StatusError)
	}
	if f.Since > 0 {
		s.SinceUS = now.Add(-f.Since).UnixMicro()
	}
	return s, nil
}

// Matches reports whether the flags for names, users and opcodes select a job. A listed job does not have its reasons:
// with --reason it matches if the other flags do.
func (f Flags) Matches(job answer.ListedJob) bool {
	matches := func(patterns []string, values ...string) bool {
		return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool {
			return slices.ContainsFunc(values, func(value string) bool {
				is, err := path.Match(pattern, value)
				return is && err == nil && value != ""
			})
		})
	}
	var opcodes []string
	for _, summary := range job.Summary {
		id, _, _ := strings.Cut(summary, "(")
		opcodes = append(opcodes, id, "OP_"+id)
	}
	uid, name, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(job.User, "uid="), "user="), "(")
	return matches(f.Names, job.Name) && matches(f.Opcodes, opcodes...) && matches(f.Users, uid, strings.TrimSuffix(name, ")"))
}
