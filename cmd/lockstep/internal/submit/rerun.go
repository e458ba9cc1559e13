package submit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/cmd/lockstep/internal/jobfile"
	"lockstep/cmd/lockstep/internal/selection"
	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/opcode"
)

type rerunOptions struct {
	FromStep  int
	Reason    string
	SecretEnv []string
}

// NewRerunCommand is the command rerun.
func NewRerunCommand(globals *cli.Globals) *cobra.Command {
	opts := rerunOptions{}
	command := &cobra.Command{
		Use:   "rerun [flags] ID|NAME",
		Short: "Submit a job again, as a new job",
		Long: `Submit the opcodes of a job again and print the id of the new job. The new job has
the name, parameters and locks of the old one, no dependencies, a reason that names the
old job, and you as its submitter. ` + selection.ArgsHelp + `

The values of secret parameters are not stored. On a terminal they are asked for;
elsewhere give variables of --secret-env of "lockstep run" again, or the job is refused.

Exit code: 0; 1 if there is no such job, or the daemon refuses the new one.
With --json: {"event": "submitted", "job", "daemon"}`,
		Example: `  lockstep rerun 12
  lockstep rerun --from-step 3 nightly
  lockstep rerun --secret-env DB_PASSWORD 14`,
		Args: cli.WantArgs(1, 1, "name one job, by its id or its name"),
		RunE: func(command *cobra.Command, args []string) error {
			return runRerun(command.Context(), opts, globals, args[0])
		},
		ValidArgsFunction: completion.Jobs(globals, "success", "error", "canceled"),
	}
	flags := command.Flags()
	flags.IntVar(&opts.FromStep, "from-step", 1, "begin with opcode `N` of the job, from 1")
	flags.StringVar(&opts.Reason, "reason", "", "`TEXT` for the job's reason trail")
	flags.StringArrayVar(&opts.SecretEnv, "secret-env", nil,
		"the value `NAME=VALUE` of a secret variable; `NAME` alone takes it from your environment (repeatable)")
	for _, name := range []string{"from-step", "reason", "secret-env"} {
		completion.Flag(command, name, completion.Nothing)
	}
	return command
}

func runRerun(ctx context.Context, opts rerunOptions, globals *cli.Globals, arg string) error {
	secrets, err := environment("--secret-env", opts.SecretEnv, globals.Streams.LookupEnv)
	if err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	ids, err := selection.Newest(ctx, daemon, []string{arg})
	if err != nil {
		return err
	}
	id := ids[0]
	rows, err := client.QueryJobs(ctx, daemon, ids, "status", "ops")
	if err != nil {
		return err
	}
	var status string
	var old []json.RawMessage
	if err := client.Scan(rows[0], &status, &old); err != nil {
		return err
	}
	switch {
	case status == "":
		return client.ErrUnknownJob(id)
	case opts.FromStep < 1 || opts.FromStep > len(old):
		return cli.Usagef("--from-step: job %d has opcodes 1 to %d, not %d", id, len(old), opts.FromStep)
	}
	list, err := selection.List(ctx, daemon, answer.JobSelection{IDs: ids})
	if err != nil {
		return err
	}
	var beside []jobfile.Beside
	if len(list.Jobs) == 1 && list.Jobs[0].Name != "" {
		beside = []jobfile.Beside{{Name: list.Jobs[0].Name}}
	}
	trails := client.NewTrails(globals.Streams.Now(), globals.Streams.RequestName(), opts.Reason, "rerun")
	source := secretSource{globals: globals, variables: secrets}
	ops := make([]json.RawMessage, 0, len(old))
	for i, data := range old[opts.FromStep-1:] {
		trail := trails.Other
		if i == 0 {
			trail = trails.First
		}
		entry := []any{"gnt:user", fmt.Sprintf("rerun of job %d", id), globals.Streams.Now().UnixNano()}
		op, err := rerunOpcode(data, append([][]any{entry}, trail...), &source)
		if err != nil {
			return fmt.Errorf("job %d cannot be run again: opcode %d: %w", id, i+opts.FromStep, err)
		}
		ops = append(ops, op)
	}
	again, err := All(ctx, daemon, [][]json.RawMessage{ops}, beside, Awaited{})
	if err != nil {
		return err
	}
	if globals.JSON {
		if err := follow.PrintEvent(globals.Streams.Out, follow.Event{Event: "submitted", Job: again[0], Daemon: daemon.Whose}); err != nil {
			return err
		}
	} else {
		globals.SayWhose(daemon)
		fmt.Fprintln(globals.Streams.Out, again[0])
	}
	return sayRejected(ctx, globals, daemon, []int64{again[0]})
}

// rerunOpcode is the opcode of a job as it is submitted again: without dependencies, with the entries of its reason
// trail that clients have written, followed by trail, and with its secrets.
func rerunOpcode(data json.RawMessage, trail [][]any, secrets *secretSource) (json.RawMessage, error) {
	value, err := cli.DecodeAny(data)
	if err != nil {
		return nil, err
	}
	op, is := value.(map[string]any)
	if !is {
		return nil, fmt.Errorf("it is not an object")
	}
	delete(op, "depends")
	reasons, _ := op["reason"].([]any)
	kept := slices.DeleteFunc(slices.Clone(reasons), addedBySystem)
	for _, entry := range trail {
		kept = append(kept, entry)
	}
	delete(op, "reason")
	for _, key := range slices.Sorted(maps.Keys(op)) {
		if op[key], err = secrets.restore([]string{key}, op[key]); err != nil {
			return nil, err
		}
	}
	op["reason"] = kept
	return cli.EncodeJSON(op)
}

// addedBySystem reports whether a daemon or a submitting program has written the entry of a reason trail. A rerun gets
// such entries anew.
func addedBySystem(entry any) bool {
	parts, _ := entry.([]any)
	if len(parts) == 0 {
		return true
	}
	source, _ := parts[0].(string)
	if source == job.SubmissionSource || source == job.UserSource || source == job.RemoteSource {
		return true
	}
	beginnings := []string{"gnt:opcode:", "gnt:client:", "gnt:library:", "gnt:daemon:"}
	return slices.ContainsFunc(beginnings, func(beginning string) bool { return strings.HasPrefix(source, beginning) })
}

// secretSource has the values of secrets.
type secretSource struct {
	globals   *cli.Globals
	variables map[string]string // of --secret-env
}

// restore returns the value with redacted values replaced by secrets, at any depth. path is where the value is. It changes lists and
// objects in place.
func (s *secretSource) restore(path []string, value any) (any, error) {
	var err error
	switch value := value.(type) {
	case string:
		if value == opcode.Redacted {
			return s.secret(path)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if value[key], err = s.restore(append(slices.Clone(path), key), value[key]); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range value {
			if value[i], err = s.restore(append(slices.Clone(path), fmt.Sprint(i)), value[i]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

func (s *secretSource) secret(path []string) (string, error) {
	name := path[len(path)-1]
	isVariable := len(path) == 2 && path[0] == "secret_env"
	if value, given := s.variables[name]; given && isVariable {
		return value, nil
	}
	shown := term.Visible(strings.Join(path, "."))
	streams := s.globals.Streams
	if streams.InTerminal && streams.ErrTerminal {
		fmt.Fprintf(streams.Err, "%s: ", shown)
		value, err := streams.ReadSecret()
		fmt.Fprintln(streams.Err)
		return value, err
	}
	if isVariable {
		return "", fmt.Errorf("the secret %s is not stored; give --secret-env %s", shown, name)
	}
	return "", fmt.Errorf("the secret %s is not stored; use a terminal, which asks for it, or submit the job anew", shown)
}
