package submit

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/cmd/lockstep/internal/jobfile"
	"lockstep/core/access"
	"lockstep/core/instant"
	"lockstep/core/limits"
	"lockstep/core/record"
	"lockstep/core/retry"
)

// stdinMax bounds the standard input of a job, in bytes: the job file contains it.
const stdinMax = 1 << 20

type runOptions struct {
	Name      string
	Priority  string
	Reason    string
	Kind      string
	Timeout   time.Duration
	Retry     retryOptions
	Start     startOptions
	Limits    limitOptions
	Env       []string
	SecretEnv []string
	Cwd       string
	As        string // account; "": that of the caller
	Stdin     bool
	Detach    bool
	Quiet     bool
	Partial   bool
	Keep      *bool // nil: the setting keep_output decides

	needs constraintOptions
}

// NewRunCommand is the command run.
func NewRunCommand(globals *cli.Globals) *cobra.Command {
	opts := runOptions{}
	command := &cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARGUMENT...]",
		Short: "Run a command as a job, follow its output, exit with its status",
		Long: `Run a command as a job and follow it: its output is shown at once, and its
exit status becomes that of lockstep. The command runs in the current directory,
as you if the daemon is root's, else as the daemon's user. It gets HOME, USER and
SHELL of that account, the locale of the daemon and the variables of --env and
--secret-env; it does not get the rest of your environment.

There is no shell. Flags of lockstep precede the command.

With --at or --delay the job starts at a time or later, when a run slot and its locks
are free, and is shown with its time until then. "lockstep reschedule" changes it. --at takes

` + instant.Help + `

in your zone. A time that has passed is refused, and so is one that the clock skips;
of a time that the clock shows twice, the first is meant.

` + constraintsHelp + `

In a command of a job, a job that waits for that job is refused: for its end, or for
a lock that it holds. The error names who waits for whom.

If the connection to the daemon is lost, lockstep reconnects for up to a minute.
Even if the loss interrupts the submission, the job runs once.

Ctrl-C does not stop the job. On a terminal it asks whether to detach, to cancel,
which ends the command, or to keep following; elsewhere it detaches, and the job
continues.

` + follow.OutputHelp + `

Exit codes:
  the command's own; 128 + n if signal n ended it; 124 if --timeout did;
  126 or 127 if it cannot be started
  125  output is missing, however the command ended, without --partial
  1    the job failed in another way, was canceled, or could not be followed
  2    wrong usage
  130  detached by Ctrl-C (143 by SIGTERM), the job continues

With --json, one object per line: {"event": "submitted", "job", "daemon"}, with "at" if the job starts at a time,
{"event": "status", "job", "status", "opcode_status"},
{"event": "log", "job", "serial", "time", "type", "payload"},
{"event": "end", "job", "status", "exit_code", "error", "missing",
"incomplete"} and
` + follow.MissingEventHelp + `

` + follow.LogTypesHelp,
		Example: `  lockstep run -- make backup
  lockstep run -- tar -c /srv | zstd > srv.tar.zst
  lockstep run --priority high --reason "disk is full" -- /usr/local/sbin/cleanup
  lockstep run --timeout 10m --secret-env DB_PASSWORD -- ./migrate
  lockstep run --detach -- sh -c 'sleep 60; echo done'
  lockstep run --stdin -- psql < dump.sql
  lockstep run --keep-output -- pg_dump shop > shop.sql
  lockstep run --name nightly -- ./backup
  lockstep run --as postgres -- pg_dumpall
  lockstep run --after nightly --after 13:success,error -- ./report
  lockstep run --lock node/n1 --lock instance/web1:shared -- ./replace-disk
  lockstep run --any-lock node/n1 --any-lock node/n2 -- ./scrub
  lockstep run --rate-limit 2:backup -- ./backup web1
  lockstep run --memory 2G --cpus 1.5 --nice 10 -- ./reindex
  lockstep run --retry 5 --retry-delay 10s --retry-on 75,timeout -- ./sync
  lockstep run --at 'tomorrow 03:00' --detach -- ./backup
  lockstep run --delay 2h -- ./cleanup`,
		Args: cli.WantArgs(1, -1, "name the command to run"),
		RunE: func(command *cobra.Command, args []string) error {
			return runRun(command.Context(), opts, globals, args)
		},
	}
	opts.register(globals, command)
	return command
}

// register adds the flags.
func (o *runOptions) register(globals *cli.Globals, command *cobra.Command) {
	flags := command.Flags()
	flags.SetInterspersed(false) // arguments after COMMAND belong to the command
	flags.StringVar(&o.Name, "name", "", "`NAME` of the job, for lists and for other commands: letters, digits, '.', '_', '-'")
	flags.StringArrayVar(&o.SecretEnv, "secret-env", nil,
		"the same for a secret, which is never stored; `NAME` alone takes the value from your environment (repeatable)")
	flags.BoolVarP(&o.Detach, "detach", "d", false, "print the job's id and exit")
	follow.PartialFlag(command, &o.Partial)
	flags.BoolVarP(&o.Quiet, "quiet", "q", false, "show no progress and no message about the end of the command")
	o.needs.registerAfter(flags)
	completion.Flag(command, "name", completion.Names(globals))
	completion.Flag(command, "after", completion.Jobs(globals))
	o.Start.register(command)
	o.registerCommand(command)
}

// registerCommand adds the flags about the command and the job that are not about this submission alone.
func (o *runOptions) registerCommand(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.Priority, "priority", "normal", "`PRIORITY` of the job: low, normal or high, or 10, 0, -10")
	flags.StringVar(&o.Reason, "reason", "", "`TEXT` for the job's reason trail")
	flags.StringVar(&o.Kind, "kind", "",
		"`LABEL` of jobs that take about as long as each other; they are compared with each other, not with all runs of the program")
	flags.Var(term.DurationFlag{Value: &o.Timeout}, "timeout", "end the command after `DURATION`, like 90s, 1h30m or 2d (default none)")
	o.Retry.register(command)
	o.Limits.register(command)
	flags.StringArrayVar(&o.Env, "env", nil, "set variable `NAME=VALUE` for the command (repeatable)")
	flags.StringVar(&o.Cwd, "cwd", "", "run the command in `DIRECTORY` (default the current one)")
	flags.StringVar(&o.As, "as", "", "run the command as the account `USER`; it needs the role admin (default: as you)")
	flags.BoolVar(&o.Stdin, "stdin", false, "pass standard input to the command, at most 1 MiB of text")
	keepFlag(flags, &o.Keep, "the command")
	o.needs.register(flags)
	completion.Flag(command, "priority", completion.Priorities)
}

// accountNamed is the account of this machine with a name; nil for "".
func accountNamed(name string) (*access.Submitter, error) {
	if name == "" {
		return nil, nil
	}
	account, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(account.Uid)
	return &access.Submitter{UID: uid, Name: account.Username}, err
}

func runRun(ctx context.Context, opts runOptions, globals *cli.Globals, argv []string) error {
	if opts.Partial && opts.Detach {
		return cli.Usagef("--partial is about the output, which --detach does not follow; use it with \"lockstep log\"")
	}
	if opts.Name != "" {
		if err := record.CheckName(opts.Name); err != nil {
			return cli.Usagef("--name: %v", err)
		}
	}
	as, err := accountNamed(opts.As)
	if err != nil {
		return cli.Usagef("--as: %v", err)
	}
	start, err := opts.Start.instant(globals.Streams.Now())
	if err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	if opts.Quiet {
		daemon.Notice = nil
	}
	opcode, err := opts.opcode(globals.Streams, argv, resolveAfter(ctx, globals.Streams, daemon))
	if err != nil {
		return err
	}
	interrupts, release := globals.Streams.Interrupts()
	defer release()
	a := &foregroundRun{
		globals:    globals,
		streams:    globals.Streams,
		interrupts: interrupts,
		daemon:     daemon,
		quiet:      opts.Quiet,
		partial:    opts.Partial,
		name:       opts.Name,
		as:         as,
		start:      start,
		detached:   opts.Detach,
		kept:       opts.Keep != nil && *opts.Keep,
	}
	if err := a.submit(ctx, opcode); err != nil {
		return err
	}
	globals.SayWhose(daemon)
	if !opts.Quiet {
		sayStart(globals, a.id, start, len(opts.SecretEnv) > 0)
	}
	if !opts.Stdin && !opts.Quiet && hasInput(globals.Streams) {
		fmt.Fprintln(globals.Streams.Err, "lockstep: the command does not get this standard input; --stdin passes it on")
	}
	if !opts.Detach {
		return a.follow(ctx)
	}
	if !globals.JSON {
		fmt.Fprintln(globals.Streams.Out, a.id)
	} else if err := follow.PrintEvent(globals.Streams.Out, follow.Event{
		Event: "submitted", Job: a.id, Daemon: daemon.Whose, At: atOf(start)}); err != nil {
		return err
	}
	return sayRejected(ctx, globals, daemon, []int64{a.id})
}

// commandOpcode is OP_RUN_COMMAND as it is submitted.
type commandOpcode struct {
	ID        string            `json:"OP_ID"`
	Argv      []string          `json:"argv"`
	Cwd       string            `json:"cwd"`
	Env       map[string]string `json:"env,omitempty"`
	SecretEnv map[string]string `json:"secret_env,omitempty"`
	Stdin     *string           `json:"stdin,omitempty"`
	Kind      string            `json:"kind,omitempty"`
	Timeout   float64           `json:"timeout,omitempty"` // seconds
	Priority  int               `json:"priority"`
	Reason    [][]any           `json:"reason"`

	Depends  []dependency   `json:"depends,omitempty"`
	Locks    []jobfile.Lock `json:"locks,omitempty"`
	AnyLocks []jobfile.Lock `json:"opportunistic_locks,omitempty"`
	AnyCount int            `json:"opportunistic_count,omitempty"`

	KeepOutput *bool         `json:"keep_output,omitempty"`
	Retry      *retry.Policy `json:"retry,omitempty"`

	Limits *limits.Limits `json:"limits,omitempty"`
}

func (o runOptions) opcode(streams cli.Streams, argv []string, resolve func(name string) (int64, error)) (commandOpcode, error) {
	opcode := commandOpcode{
		ID:         "OP_RUN_COMMAND",
		Argv:       argv,
		Reason:     client.NewTrails(streams.Now(), streams.RequestName(), o.Reason, "run").First,
		KeepOutput: o.Keep,
	}
	for i, arg := range argv {
		if !utf8.ValidString(arg) {
			return opcode, cli.Usagef("argument %d of the command is not UTF-8", i+1)
		}
	}
	var err error
	if opcode.Priority, err = jobfile.ParsePriority(o.Priority); err != nil {
		return opcode, err
	}
	opcode.Timeout = o.Timeout.Seconds()
	opcode.Kind = o.Kind
	if opcode.Retry, err = o.Retry.policy(); err != nil {
		return opcode, err
	}
	if opcode.Limits, err = o.Limits.given(); err != nil {
		return opcode, err
	}
	if err = o.needs.apply(&opcode, streams.Now(), resolve); err != nil {
		return opcode, err
	}
	if opcode.Env, err = environment("--env", o.Env, nil); err != nil {
		return opcode, err
	}
	if opcode.SecretEnv, err = environment("--secret-env", o.SecretEnv, streams.LookupEnv); err != nil {
		return opcode, err
	}
	if opcode.Cwd, err = workingDirectory(o.Cwd); err != nil {
		return opcode, err
	}
	if o.Stdin {
		text, err := readStdin(streams)
		if err != nil {
			return opcode, err
		}
		opcode.Stdin = &text
	}
	return opcode, nil
}

// environment reads NAME=VALUE pairs. lookup returns the value for a NAME alone, which keeps
// secrets out of the shell's history and the list of processes; with a nil lookup a NAME alone is
// an error. Errors do not contain values.
func environment(flag string, pairs []string, lookup func(string) (string, bool)) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	variables := make(map[string]string, len(pairs))
	for i, pair := range pairs {
		name, value, given := strings.Cut(pair, "=")
		switch {
		case name == "":
			return nil, cli.Usagef("%s number %d has no name before its =", flag, i+1)
		case !given && lookup == nil:
			return nil, cli.Usagef("%s %s has no value; write %s=VALUE", flag, name, name)
		case !given:
			value, given = lookup(name)
			if !given {
				return nil, cli.Usagef("%s %s: your environment has no such variable", flag, name)
			}
		}
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return nil, cli.Usagef("%s number %d is not UTF-8", flag, i+1)
		}
		variables[name] = value
	}
	return variables, nil
}

// workingDirectory returns the absolute path of --cwd, or of the current directory: the job does not run in the caller's directory.
func workingDirectory(flag string) (string, error) {
	directory, err := filepath.Abs(flag) // "" is the current directory
	if err != nil {
		return "", fmt.Errorf("find the current directory: %w", err)
	}
	if !utf8.ValidString(directory) { // the job file is JSON
		return "", cli.Usagef("the working directory is not UTF-8: %q; --cwd names another one", directory)
	}
	if flag == "" {
		return directory, nil
	}
	info, err := os.Stat(directory)
	if err != nil {
		return "", cli.Usagef("--cwd: %v", err)
	}
	if !info.IsDir() {
		return "", cli.Usagef("--cwd: %s is not a directory", directory)
	}
	return directory, nil
}

// hasInput reports whether standard input is a pipe or a file that has something to read now.
func hasInput(streams cli.Streams) bool {
	file, ok := streams.In.(*os.File)
	if !ok || streams.InTerminal {
		return false
	}
	info, err := file.Stat()
	if err != nil {
		return false
	}
	if info.Mode().IsRegular() {
		at, err := file.Seek(0, io.SeekCurrent)
		return err == nil && at < info.Size()
	}
	n := 0
	if info.Mode()&os.ModeNamedPipe != 0 {
		n, err = unix.IoctlGetInt(int(file.Fd()), unix.TIOCINQ)
	}
	return err == nil && n > 0
}

func readStdin(streams cli.Streams) (string, error) {
	if streams.InTerminal {
		return "", cli.Usagef("--stdin wants a file or pipe as standard input, not a terminal")
	}
	data, err := io.ReadAll(io.LimitReader(streams.In, stdinMax+1))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	if len(data) > stdinMax {
		return "", fmt.Errorf("standard input is larger than %d bytes; let the command read a file instead", stdinMax)
	}
	if !utf8.Valid(data) {
		return "", fmt.Errorf("standard input is not UTF-8 text; let the command read a file instead")
	}
	return string(data), nil
}
