// Package command is the program lockstep: it parses the command line, runs one command and
// reports its error. It has the root command, help, version, and the mapping of errors to texts
// and exit codes. Run is its only function for other packages. The commands are those of the
// other packages; nothing but main imports it.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/access"
	"lockstep/cmd/lockstep/internal/audit"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/confd"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/demo"
	"lockstep/cmd/lockstep/internal/filters"
	"lockstep/cmd/lockstep/internal/ganeti"
	"lockstep/cmd/lockstep/internal/jobs"
	"lockstep/cmd/lockstep/internal/locks"
	"lockstep/cmd/lockstep/internal/monitor"
	"lockstep/cmd/lockstep/internal/nodes"
	"lockstep/cmd/lockstep/internal/opcodes"
	"lockstep/cmd/lockstep/internal/open"
	"lockstep/cmd/lockstep/internal/order"
	"lockstep/cmd/lockstep/internal/queue"
	"lockstep/cmd/lockstep/internal/schedules"
	"lockstep/cmd/lockstep/internal/submit"
	"lockstep/cmd/lockstep/internal/top"
	"lockstep/cmd/lockstep/internal/why"
)

// Run parses args, runs one command on streams and returns the exit code.
func Run(ctx context.Context, args []string, streams cli.Streams) int {
	out := &keptError{Writer: streams.Out}
	streams.Out = out
	globals := &cli.Globals{Streams: streams}
	root := newRootCommand(globals)
	root.SetArgs(cli.ShieldNumbers(root, args))
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)

	// An error before a command starts is wrong usage: cobra returns plain errors for unknown
	// flags, commands and surplus arguments.
	started := false
	root.PersistentPreRunE = func(command *cobra.Command, _ []string) error {
		started = true
		return errors.Join(checkTexts(command.Flags()), globals.Validate())
	}
	command, err := root.ExecuteContextC(ctx)
	if err == nil && out.err != nil {
		err = fmt.Errorf("write the output: %w", out.err)
	}
	return report(streams.Err, command, err, !started)
}

// checkTexts refuses a flag that becomes a text of a job or of a rule and is not UTF-8: both are JSON, which would have another text.
func checkTexts(flags *pflag.FlagSet) error {
	for _, name := range []string{"any-lock", "kind", "lock", "name", "predicates", "rate-limit", "reason", "reason-match", "user"} {
		if f := flags.Lookup(name); f != nil && f.Changed && !utf8.ValidString(f.Value.String()) {
			return cli.Usagef("--%s is not UTF-8: %q", name, f.Value.String())
		}
	}
	return nil
}

// report writes the error of a command to w and returns the exit code; 0 without an error. early: no command has started, which is wrong
// usage.
func report(w io.Writer, command *cobra.Command, err error, early bool) int {
	if err == nil {
		return 0
	}
	code := cli.ExitFailure
	var ends *cli.ExitError
	if errors.As(err, &ends) {
		code = ends.Code
		if ends.Err == nil {
			return code
		}
	}
	cli.PrintError(w, client.Explain(err))
	var usage *cli.UsageError
	if early || errors.As(err, &usage) {
		fmt.Fprintf(w, "Run '%s --help' for usage.\n", command.CommandPath())
		return cli.ExitUsage
	}
	return code
}

// Tree returns all commands, for documentation.
func Tree() *cobra.Command { return newRootCommand(&cli.Globals{}) }

func newRootCommand(globals *cli.Globals) *cobra.Command {
	root := &cobra.Command{
		Use:   "lockstep",
		Short: "Run, submit, list and follow jobs of the lockstep queue",
		Long: `lockstep runs commands as jobs of the queue, submits, lists, shows, follows,
cancels and archives jobs, delays them by rules, and shows the state of the
queue and why a job does not run.

It talks to the daemon, lockstepd, over a socket: --daemon user or system chooses
your own daemon or the system's, --socket any. Without these it uses the first of:
  $LOCKSTEP_SOCKET
  ` + client.LocalSocket + `   if it exists and belongs to you or root
  $XDG_RUNTIME_DIR/lockstep/ganeti-query   of your own daemon, if it exists
  ` + client.SystemSocket + `
  ` + client.GanetiSocket + `   if lockstep is in the place of ganeti-luxid, and the former does not exist

Exit codes: 0 success, 1 failure, 2 wrong usage. "lockstep run" exits with the
status of its command.`,
		Example: `  lockstep run -- make backup
  lockstep list --status running,waiting
  lockstep watch 12
  lockstep why 12
  lockstep status`,
		Version:       globals.Streams.Build.String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate(versionTemplate(globals.Streams.Build))
	root.SetFlagErrorFunc(suggestFlag)
	root.SetHelpCommand(newHelpCommand())
	addGlobalFlags(root, globals)
	root.AddCommand(
		submit.NewRunCommand(globals),
		submit.NewSubmitCommand(globals),
		submit.NewRerunCommand(globals),
		submit.NewWaitCommand(globals),
		opcodes.NewCommand(globals),
		config.NewCommand(globals),
		jobs.NewListCommand(globals),
		jobs.NewEventsCommand(globals),
		audit.NewCommand(globals),
		locks.NewCommand(globals),
		order.NewCommand(globals),
		monitor.NewCommand(globals),
		open.NewCommand(globals),
		top.NewCommand(globals, Run),
		nodes.NewCommand(globals),
		access.NewCommand(globals),
		confd.NewCommand(globals),
		ganeti.NewCommand(globals),
		filters.NewCommand(globals),
		jobs.NewInfoCommand(globals),
		jobs.NewWatchCommand(globals),
		jobs.NewProgressCommand(globals),
		jobs.NewLogCommand(globals),
		jobs.NewCancelCommand(globals),
		jobs.NewKillCommand(globals),
		jobs.NewPriorityCommand(globals),
		jobs.NewRescheduleCommand(globals),
		jobs.NewHoldCommand(globals),
		jobs.NewReleaseCommand(globals),
		jobs.NewArchiveCommand(globals),
		jobs.NewAutoarchiveCommand(globals),
		jobs.NewUsageCommand(globals),
		queue.NewDrainCommand(globals),
		queue.NewStatusCommand(globals),
		schedules.NewCommand(globals),
		demo.NewCommand(globals),
		newVersionCommand(globals),
		why.NewCommand(globals),
	)
	prepare(root)
	return root
}

// addGlobalFlags adds the flags of all commands.
func addGlobalFlags(root *cobra.Command, globals *cli.Globals) {
	flags := root.PersistentFlags()
	flags.StringVar(&globals.Socket, "socket", "", "`PATH` of the daemon's socket")
	flags.StringVar(&globals.Daemon, "daemon", "", "daemon to use: `user|system`, your own or the system's")
	flags.BoolVar(&globals.JSON, "json", false, "print JSON instead of text")
	flags.StringVar(&globals.Color, "color", "auto",
		"when to use colours: `auto|always|never`; auto means on a terminal, unless $NO_COLOR is set")
	daemons := []string{string(client.Users), string(client.Systems)}
	completion.Flag(root, "daemon", cobra.FixedCompletions(daemons, cobra.ShellCompDirectiveNoFileComp))
	completion.Flag(root, "color", cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
}

// takeFiles are the commands with arguments that are files or commands.
var takeFiles = []string{"lockstep run", "lockstep submit", "lockstep opcode check", "lockstep schedule import-crontab"}

// prepare makes the paragraphs of the help flow, and turns off the completion of names of files where arguments are none.
func prepare(command *cobra.Command) {
	command.Long = flow(command.Long)
	if command.HasSubCommands() {
		for _, child := range command.Commands() {
			prepare(child)
		}
		return
	}
	if command.ValidArgsFunction == nil && command.ValidArgs == nil && !slices.Contains(takeFiles, command.CommandPath()) {
		command.ValidArgsFunction = completion.Nothing
	}
}

// keptError is a writer that keeps its first error, so that commands need not check each write:
// Run checks once, at the end.
type keptError struct {
	io.Writer
	err error
}

func (w *keptError) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}
