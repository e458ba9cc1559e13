package submit

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/cmd/internal/doctree"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/jobfile"
	"lockstep/core/access"
)

// ScheduledCommand is a command of a schedule: it has the flags of run that are not about one submission.
type ScheduledCommand struct {
	options runOptions
	flags   []string // names
}

// Register adds the flags. Those of run that a schedule cannot have are hidden, and refused by Opcode.
func (s *ScheduledCommand) Register(command *cobra.Command) {
	before := map[string]bool{}
	command.Flags().VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	s.options.registerCommand(command)
	s.options.needs.registerAfter(command.Flags())
	command.Flags().StringVar(&s.options.Name, "name", "", "")
	command.Flags().StringArrayVar(&s.options.SecretEnv, "secret-env", nil, "")
	for _, name := range []string{"after", "name", "secret-env"} {
		_ = command.Flags().MarkHidden(name) // was registered
	}
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if !before[f.Name] && f.Name != "as" {
			s.flags = append(s.flags, f.Name)
		}
	})
}

// Given is the name of one of the flags that were given and are about a command; "" without any.
func (s *ScheduledCommand) Given(flags *pflag.FlagSet) (name string) {
	for _, one := range s.flags {
		if flags.Changed(one) {
			return one
		}
	}
	return ""
}

// Opcode is the opcode of the command. Errors about flags are *cli.UsageErrors.
func (s *ScheduledCommand) Opcode(streams cli.Streams, argv []string) (json.RawMessage, error) {
	switch o := s.options; {
	case o.Name != "":
		return nil, cli.Usagef("--name: jobs have the name of their schedule")
	case len(o.needs.After) > 0:
		return nil, cli.Usagef("--after names a job that exists now, and a schedule submits later ones; " +
			"to run commands one after the other write a file of jobs, for --file")
	case len(o.SecretEnv) > 0:
		return nil, cli.Usagef("--secret-env: a secret is never stored, and a schedule is; let the command read it from a file of its own")
	}
	op, err := s.options.opcode(streams, argv, nil)
	if err != nil {
		return nil, err
	}
	end := len(op.Reason) - 1 // the last step says when and by what this one job is submitted
	op.Reason = slices.DeleteFunc(cli.OrEmpty(op.Reason[:end]), func(step []any) bool { return client.NamesRequest(step) })
	return cli.EncodeJSON(op)
}

// Account is the account of --as; nil: the caller's. The error is a *cli.UsageError.
func (s *ScheduledCommand) Account() (*access.Submitter, error) { return AccountNamed(s.options.As) }

// AccountNamed is the account of this machine with a name; nil for "". The error is a *cli.UsageError.
func AccountNamed(name string) (*access.Submitter, error) {
	account, err := accountNamed(name)
	if err != nil {
		return nil, cli.Usagef("as: %v", err)
	}
	return account, nil
}

// ScheduledJobs reads a file of jobs for a schedule, or stdin if its name is "-". Mistakes, also those that only the daemon knows, are
// printed as by submit.
func ScheduledJobs(ctx context.Context, globals *cli.Globals, daemon client.Querier, name string) (jobfile.Submission, error) {
	file, err := loadSubmission(name, globals.Streams.In)
	if err == nil {
		err = errors.Join(checkDeclared(ctx, daemon, file), file.CheckScheduled())
	}
	if err != nil {
		return file, FileError(globals, name, err)
	}
	return file, nil
}

// CheckDeclared finds the mistakes in jobs about opcodes that only the daemon knows.
func CheckDeclared(ctx context.Context, daemon client.Querier, file jobfile.Submission) error {
	return checkDeclared(ctx, daemon, file)
}

// ReadFile reads a whole file, or stdin if its name is "-". One larger than a frame is an error. directory is where its commands run.
func ReadFile(name string, stdin io.Reader) (data []byte, directory string, err error) {
	if data, err = readInput(name, stdin); err != nil {
		return nil, "", err
	}
	directory, err = os.Getwd()
	return data, directory, err
}

// FileError prints the mistakes of a file, and returns the error with the exit code. Other errors remain.
func FileError(globals *cli.Globals, name string, err error) error {
	var one *doctree.Error
	var several jobfile.Mistakes
	if errors.As(err, &one) && !errors.As(err, &several) {
		err = jobfile.Mistakes{one}
	}
	return fileError(globals, name, err)
}
