package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes of every command; `run` adds those of the command it ran.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// globalOptions are the flags that every command has, and the streams it works on.
type globalOptions struct {
	Socket string
	JSON   bool
	Color  string

	streams Streams
}

// usageError is a mistake in the command line that cobra does not find itself.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// exitError ends the program with a code of its own; err nil means that everything
// was said already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// wants checks the number of arguments of a command; most < 0 means any number. The text
// says what they are, cobra's says only how many there were.
func wants(least, most int, text string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return usagef("%s", text)
		}
		return nil
	}
}

// run is the whole program: it parses args, runs one command on streams and returns
// the exit code.
func run(ctx context.Context, args []string, streams Streams) int {
	out := &keptError{Writer: streams.Out}
	streams.Out = out
	globals := &globalOptions{streams: streams}
	root := newRootCommand(globals)
	root.SetArgs(shieldNumbers(root, args))
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)

	// Everything that goes wrong before a command starts is wrong usage: cobra
	// returns plain errors for unknown flags, commands and surplus arguments.
	started := false
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		started = true
		return globals.validate()
	}
	command, err := root.ExecuteContextC(ctx)
	if err == nil && out.err != nil {
		err = fmt.Errorf("write the output: %w", out.err)
	}
	return report(streams.Err, command, err, !started)
}

// report says on w why a command failed and returns the exit code.
func report(w io.Writer, command *cobra.Command, err error, early bool) int {
	if err == nil {
		return 0
	}
	code := exitFailure
	var ends *exitError
	if errors.As(err, &ends) {
		code = ends.code
		if ends.err == nil {
			return code
		}
	}
	complain(w, explain(err))
	var usage *usageError
	if early || errors.As(err, &usage) {
		fmt.Fprintf(w, "Run '%s --help' for usage.\n", command.CommandPath())
		return exitUsage
	}
	return code
}

// complain writes one message in the form all messages have. The text may contain
// what a server or a job said, so nothing in it may act on a terminal.
func complain(w io.Writer, text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = visible(strings.ReplaceAll(line, "\t", "  "))
	}
	fmt.Fprintf(w, "lockstep: %s\n", strings.Join(lines, "\n"))
}

func newRootCommand(globals *globalOptions) *cobra.Command {
	root := &cobra.Command{
		Use:   "lockstep",
		Short: "Run, submit, list and follow jobs of the lockstep queue",
		Long: `lockstep runs commands as jobs of the queue, submits, lists, shows, follows,
cancels and archives jobs, holds them back by rules, and says how the queue
stands and why a job does not run.

It talks to the daemon, lockstepd, over a socket. Without --socket that is the
first of:
  $LOCKSTEP_SOCKET
  ` + localSocket + `   if it is there and owned by you or root
  ` + systemSocket + `

Exit codes: 0 success, 1 failure, 2 wrong usage. "lockstep run" exits with the
status of the command it ran.`,
		Example: `  lockstep run -- make backup
  lockstep list --status running,waiting
  lockstep watch 12
  lockstep why 12
  lockstep status`,
		Version:       globals.streams.Build.String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate(versionTemplate(globals.streams.Build))
	root.SetFlagErrorFunc(suggestFlag)
	root.SetHelpCommand(newHelpCommand())
	flags := root.PersistentFlags()
	flags.StringVar(&globals.Socket, "socket", "", "`PATH` of the daemon's socket")
	flags.BoolVar(&globals.JSON, "json", false, "print JSON for programs instead of text for people")
	flags.StringVar(&globals.Color, "color", "auto",
		"when to use colours: `auto|always|never`; auto is on a terminal, unless $NO_COLOR is set")
	root.AddCommand(
		newRunCommand(globals),
		newSubmitCommand(globals),
		newOpcodeCommand(globals),
		newConfigCommand(globals),
		newListCommand(globals),
		newLocksCommand(globals),
		newNodeCommand(globals),
		newFilterCommand(globals),
		newInfoCommand(globals),
		newWatchCommand(globals),
		newLogCommand(globals),
		newCancelCommand(globals),
		newPriorityCommand(globals),
		newArchiveCommand(globals),
		newAutoarchiveCommand(globals),
		newDrainCommand(globals),
		newStatusCommand(globals),
		newDemoCommand(globals),
		newVersionCommand(globals),
		newWhyCommand(globals),
	)
	return root
}

func (g *globalOptions) validate() error {
	switch g.Color {
	case "auto", "always", "never":
		return nil
	}
	return usagef("--color is auto, always or never, not %q", g.Color)
}

// palette returns the colours for what is printed on Out. $NO_COLOR, if not empty,
// turns them off (no-color.org), as does a terminal that has none.
func (g *globalOptions) palette() palette {
	switch g.Color {
	case "always":
		return palette{on: true}
	case "never":
		return palette{}
	}
	noColor, _ := g.streams.LookupEnv("NO_COLOR")
	terminal, _ := g.streams.LookupEnv("TERM")
	return palette{on: g.streams.OutTerminal && noColor == "" && terminal != "dumb"}
}

// connect returns a session with the daemon. Nothing is sent before its first call.
func (g *globalOptions) connect() *session {
	s := &session{path: socketPath(g.Socket, g.streams.LookupEnv), after: g.streams.After}
	if g.streams.ErrTerminal {
		s.notice = func(text string) { complain(g.streams.Err, text) }
	}
	return s
}

// showsProgress tells whether a person sees how far a command is.
func (g *globalOptions) showsProgress() bool { return g.streams.ErrTerminal && !g.JSON }

// startProgress starts a bar with a text and its end, or an empty bar if no person sees it.
func (g *globalOptions) startProgress(text string, total int) *Bar {
	if !g.showsProgress() {
		return &Bar{}
	}
	return StartText(g.streams.Err, text, total)
}
