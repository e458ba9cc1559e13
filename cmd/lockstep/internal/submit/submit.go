package submit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/cmd/lockstep/internal/jobfile"
	"lockstep/cmd/lockstep/internal/jobs"
	"lockstep/core/instant"
	"lockstep/core/opcode"
	"lockstep/core/record"
	"lockstep/core/wire"
)

type submitOptions struct {
	Name   string
	Reason string
	Wait   bool
	Keep   *bool // nil: the opcodes and the setting keep_output decide
	Follow bool
	// Partial: with Follow, missing output does not change the exit code.
	Partial bool

	Template bool
	Start    startOptions // of the job of an opcode
}

const submitHelp = `Submit the jobs in a file, or on standard input if the file is "-", and print
their ids, one per line, in the order of the file. Either all jobs of a file are
submitted, or, if one has a mistake, none.

OPCODE, like OP_TEST_DELAY, with its parameters is a job of one opcode. A VALUE has
the form of the parameter's type: a text as it is, a list with commas between its
elements, seconds with a unit, like 90s, other types as JSON. "lockstep opcode show
OPCODE" lists the parameters. An opcode that the daemon cannot execute is refused, also
in a file.

A job of a file is a command, or several steps:
  jobs:
    - name: build
      run: [make, all]
      lock: [source, cache:shared]
      timeout: 2h
    - after: [build, 12, "other:success,error"]
      steps:
        - {run: 'make test | tee log', shell: true, env: {LANG: C}}
        - {OP_ID: OP_TEST_DELAY, duration: 2s}
A file of one job may have its keys alone. Commands run in the current directory, or in
their "cwd". --template prints a file with comments; lockstep-jobs(5) has all keys.

"after" lists names of earlier jobs of the file, and ids and names of existing jobs: a
name that no job of the file has stands for the newest job that has it now; its id is
printed. Without a status these must succeed; if one fails, the job fails, and if one
is canceled, the job is canceled. The whole job waits: its first opcode gets the
"depends".

A job may also be a list of opcodes, each an object with OP_ID and parameters:
  one job       [{"OP_ID": ...}, ...]
  several jobs  [[{"OP_ID": ...}, ...], [...]]
  the same      {"jobs": [[{"OP_ID": ...}, ...], {"name": ..., "ops": [...]}]}
In "depends" a negative id counts back: -1 is the previous job. Durations are numbers
of seconds or have a unit, like 90s. Files named .yaml or .yml are YAML, .json is JSON;
other files are JSON if they begin with [ or {.

Each mistake in a file, also one that only the daemon finds, is a line
FILE:LINE:COLUMN: on standard error, for the first 20; then nothing is submitted.

--reason and the name of this program are appended to each opcode's reason trail,
and to that of each job's first opcode also a unique name of the submission. If the
connection is lost before the answer, the submission is repeated for up to a
minute; the name ensures that the jobs exist once. Such names in the file are
ignored.

With --follow the jobs are shown as by "lockstep watch", with all of their output: as
with run, the commands wait until it is taken. At most 100 jobs are followed at once.

Exit code: 0; with --wait only if all jobs succeed. 2 after mistakes in the file. 1
otherwise, also if a filter rule rejects a job: standard error then names the rule.
With --follow that of watch.
With --json, one object per line; "index" is the job's place in the file, from 0,
"name" its name, if it has one; "daemon" is "user" or "system", unless you named a
socket: {"event": "submitted", "index",
"name", "job", "daemon"}, with "at" if the job starts at a time, and, with --wait, {"event": "end", "index", "job", "status"} as
jobs end; with --follow, the events of watch. Each mistake in a file is {"event":
"mistake", "line", "column", "error"}.`

// NewSubmitCommand is the command submit.
func NewSubmitCommand(globals *cli.Globals) *cobra.Command {
	opts := submitOptions{}
	command := &cobra.Command{
		Use:   "submit [flags] FILE|-|OPCODE [NAME=VALUE...]",
		Short: "Submit jobs from a JSON or YAML file, or one opcode",
		Long:  submitHelp,
		Example: `  lockstep submit --template > jobs.yaml
  lockstep submit jobs.yaml
  lockstep submit --follow deploy.yaml
  lockstep submit --wait --reason "monthly" jobs.json
  lockstep submit --name drain-n1 OP_SITE_DRAIN nodes=n1,n2 speed=slow
  lockstep submit --at 'monday 03:00' OP_SITE_DRAIN nodes=n1,n2
  echo '[{"OP_ID": "OP_TEST_DELAY", "duration": 5}]' | lockstep submit -`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case opts.Template && len(args) > 0:
				return cli.Usagef("--template takes no arguments")
			case opts.Template:
				return nil
			}
			if len(args) == 0 || len(args) > 1 && !opcodeName.MatchString(args[0]) {
				return cli.Usagef("name one file, or - for standard input, or an opcode with its parameters")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			if opts.Template {
				_, err := io.WriteString(globals.Streams.Out, jobfile.Template)
				return err
			}
			if opcodeName.MatchString(args[0]) {
				return submitOpcode(command.Context(), opts, globals, args[0], args[1:])
			}
			return runSubmit(command.Context(), opts, globals, args[0])
		},
		ValidArgsFunction: completeSubmit(globals),
	}
	opts.register(command)
	return command
}

// register adds the flags.
func (o *submitOptions) register(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.Name, "name", "", "`NAME` of the job of an OPCODE; in a file each job has its own")
	o.Start.register(command)
	flags.StringVar(&o.Reason, "reason", "", "`TEXT` for the jobs' reason trails")
	flags.BoolVarP(&o.Wait, "wait", "w", false, "wait until all jobs have ended")
	flags.BoolVar(&o.Template, "template", false, "print a file of jobs with comments, to begin with, and exit")
	keepFlag(flags, &o.Keep, "all commands")
	flags.BoolVarP(&o.Follow, "follow", "f", false, "follow the jobs, with their output, until all have ended")
	follow.PartialFlag(command, &o.Partial)
}

// completeSubmit completes names of opcodes and of their parameters, and otherwise names of files.
func completeSubmit(globals *cli.Globals) completion.Func {
	return func(command *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0 && strings.HasPrefix(word, "OP_"):
			return completion.Opcodes(globals)(command, args, word)
		case len(args) == 0:
			return nil, cobra.ShellCompDirectiveDefault
		}
		return completion.Parameters(globals, args[0])(command, args[1:], word)
	}
}

// submitOpcode submits a job of one opcode and prints its id. With --wait it waits for the end of the job.
func submitOpcode(ctx context.Context, opts submitOptions, globals *cli.Globals, name string, args []string) error {
	start, err := opts.Start.instant(globals.Streams.Now())
	if err != nil {
		return err
	}
	var beside []jobfile.Beside
	if opts.Name != "" {
		if err := record.CheckName(opts.Name); err != nil {
			return cli.Usagef("--name: %v", err)
		}
	}
	if opts.Name != "" || start != nil {
		beside = []jobfile.Beside{{Name: opts.Name}}
	}
	if start != nil {
		beside[0].At = &start.At
	}
	daemon := globals.Connect()
	defer daemon.Close()
	trail := client.NewTrails(globals.Streams.Now(), globals.Streams.RequestName(), opts.Reason, "submit").First
	switch keep := opts.Keep; {
	case keep == nil:
	case opcode.RunsCommand(name):
		args = append(args, fmt.Sprintf("keep_output=%t", *keep))
	case *keep:
		return cli.Usagef("--keep-output: %s runs no command, so it has no output to keep", name)
	}
	job, err := opcodeJob(ctx, daemon, name, args, trail)
	if err != nil {
		return err
	}
	ids, err := All(ctx, daemon, [][]json.RawMessage{job}, beside, opts.awaited())
	if err != nil {
		return err
	}
	if err := printSubmitted(globals, daemon, 0, opts.Name, ids[0], start); err != nil {
		return err
	}
	sayStart(globals, ids[0], start, slices.ContainsFunc(args, func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return jobs.SecretParameter(name)
	}))
	return opts.wait(ctx, globals, daemon, []submittedJob{{id: ids[0]}})
}

// awaited is what this command will wait for.
func (o submitOptions) awaited() Awaited {
	return Awaited{Ends: o.Wait || o.Follow, Output: o.isAwaited()}
}

// isAwaited reports whether commands wait until this command has read their output. Nothing waits for output that is kept.
func (o submitOptions) isAwaited() bool { return o.Follow && (o.Keep == nil || !*o.Keep) }

// wait waits for the ends of the submitted jobs, or follows them, or only says which ones were rejected.
func (o submitOptions) wait(ctx context.Context, globals *cli.Globals, daemon *client.Session, submitted []submittedJob) error {
	ids := make([]int64, len(submitted))
	for i := range submitted {
		ids[i] = submitted[i].id
	}
	switch {
	case o.Follow:
		if err := daemon.Await(ctx, ids); err != nil {
			return err
		}
		return jobs.Watch(ctx, globals, daemon, ids, jobs.Watching{Follows: o.isAwaited(), Partial: o.Partial})
	case o.Wait:
		return waitForSubmitted(ctx, globals, daemon, submitted)
	}
	return sayRejected(ctx, globals, daemon, ids)
}

func runSubmit(ctx context.Context, opts submitOptions, globals *cli.Globals, name string) error {
	if opts.Name != "" {
		return cli.Usagef("--name is for an opcode; in a file each job has its own \"name\"")
	}
	if opts.Start.given() {
		return cli.Usagef("--at and --delay are for an opcode; in a file each job has its own \"at\" or \"delay\"")
	}
	file, err := loadSubmission(name, globals.Streams.In)
	if err == nil {
		err = file.ReadTimes(globals.Streams.Now())
	}
	if err != nil {
		return fileError(globals, name, err)
	}
	daemon := globals.Connect()
	defer daemon.Close()
	if err := checkDeclared(ctx, daemon, file); err != nil {
		return fileError(globals, name, err)
	}
	if err := file.Resolve(resolveAfter(ctx, globals.Streams, daemon)); err != nil {
		return placedError(name, err)
	}
	if opts.Keep != nil {
		if err := file.KeepOutput(*opts.Keep, opcode.RunsCommand); err != nil {
			return placedError(name, err)
		}
	}
	if opts.Follow && len(file.Jobs) > jobs.WatchedMax {
		return cli.Usagef("at most %d jobs can be followed at once, not %d", jobs.WatchedMax, len(file.Jobs))
	}
	encoded, err := file.Encode(client.NewTrails(globals.Streams.Now(), globals.Streams.RequestName(), opts.Reason, "submit"))
	if err != nil {
		return fmt.Errorf("%s: %w", shownName(name), err)
	}
	ids, err := All(ctx, daemon, encoded, file.Beside(), opts.awaited())
	var mistake *wire.RequestError
	switch {
	case errors.As(err, &mistake):
		return fmt.Errorf("%s: %w", shownName(name), err)
	case err != nil:
		return fileError(globals, name, cmp.Or(file.Refused(err), err))
	}
	submitted := make([]submittedJob, len(ids))
	for i, id := range ids {
		if err := printSubmitted(globals, daemon, i, file.Jobs[i].Name, id, file.Jobs[i].Start); err != nil {
			return err
		}
		sayStart(globals, id, file.Jobs[i].Start, file.HasSecrets())
		submitted[i] = submittedJob{index: i, id: id}
	}
	return opts.wait(ctx, globals, daemon, submitted)
}

func printSubmitted(globals *cli.Globals, daemon *client.Session, index int, name string, id int64, start *instant.Instant) error {
	if globals.JSON {
		return follow.PrintEvent(globals.Streams.Out,
			follow.Event{Event: "submitted", Index: &index, Name: name, Job: id, Daemon: daemon.Whose, At: atOf(start)})
	}
	if index == 0 {
		globals.SayWhose(daemon)
	}
	fmt.Fprintln(globals.Streams.Out, id)
	return nil
}

// waitForSubmitted waits for the ends of the jobs and reports each. The error names the jobs that did not succeed.
func waitForSubmitted(ctx context.Context, globals *cli.Globals, daemon *client.Session, jobs []submittedJob) error {
	ids := make([]int64, len(jobs))
	for i, job := range jobs {
		ids[i] = job.id
	}
	if err := daemon.Await(ctx, ids); err != nil {
		return err
	}
	waiting := startWait(globals, len(jobs))
	var failed []string
	var canceled []int64
	err := waitAll(ctx, daemon, jobs, waiting.poll, func(job submittedJob, status string) {
		if status != client.StatusSuccess {
			failed = append(failed, fmt.Sprintf("%d (%s)", job.id, status))
		}
		if status == client.StatusCanceled {
			canceled = append(canceled, job.id)
		}
		if globals.JSON {
			_ = follow.PrintEvent(globals.Streams.Out, // Run checks the stream's errors
				follow.Event{Event: "end", Index: &job.index, Job: job.id, Status: status})
		}
	}, waiting.show)
	waiting.stop()
	switch {
	case err != nil:
		return err
	case len(failed) == 0:
		return nil
	}
	var exit *cli.ExitError
	if err := sayRejected(ctx, globals, daemon, canceled); err != nil && !errors.As(err, &exit) {
		return err
	}
	const shown = 10
	names := strings.Join(failed[:min(shown, len(failed))], ", ")
	if len(failed) > shown {
		names += fmt.Sprintf(" and %d more", len(failed)-shown)
	}
	return fmt.Errorf(`%d of %d jobs did not succeed: %s; "lockstep info ID" says why`, len(failed), len(jobs), names)
}
