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

// Exit codes of every command; `run` adds those of the command it ran.
const (
	ExitFailure     = 1
	ExitUsage       = 2
	ExitInterrupted = 130
)

// UsageError is a mistake in the command line that cobra does not find itself.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

// Usagef is fmt.Errorf for a UsageError.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...)}
}

// ExitError ends the program with a certain code; Err nil means that everything
// was said already.
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

// WantArgs checks the number of arguments of a command; most < 0 means any number. The text
// says what they are, cobra's says only how many there were.
func WantArgs(least, most int, text string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return Usagef("%s", text)
		}
		return nil
	}
}

// PrintError writes one message in the form all messages have. The text may contain
// what a server or a job said, so nothing in it may act on a terminal.
func PrintError(w io.Writer, text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = term.Visible(strings.ReplaceAll(line, "\t", "  "))
	}
	fmt.Fprintf(w, "lockstep: %s\n", strings.Join(lines, "\n"))
}
