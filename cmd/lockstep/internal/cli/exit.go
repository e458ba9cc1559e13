package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
)

// SignalCode is the exit code of a program that a signal ends.
func SignalCode(signal os.Signal) int {
	if number, ok := signal.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return ExitInterrupted
}

// Exit codes of every command; `run` also exits with the status of its command.
const (
	ExitFailure     = 1
	ExitUsage       = 2
	ExitInterrupted = 130
)

// UsageError is a mistake in the command line that cobra does not detect.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

// Usagef returns a *UsageError with a formatted text.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...)}
}

// ExitError ends the program with Code. If Err is nil, the error is printed already.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// WantArgs checks the number of arguments of a command; most < 0 means any number. Its error is
// text, which names the arguments.
func WantArgs(least, most int, text string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return Usagef("%s", text)
		}
		return nil
	}
}

// PrintError writes one message with the prefix of all messages. It escapes control characters,
// because the text may come from a server or a job.
func PrintError(w io.Writer, text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = term.Visible(strings.ReplaceAll(line, "\t", "  "))
	}
	fmt.Fprintf(w, "lockstep: %s\n", strings.Join(lines, "\n"))
}
