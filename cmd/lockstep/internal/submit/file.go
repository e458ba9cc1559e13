package submit

import (
	"errors"
	"fmt"
	"io"
	"os"

	"lockstep/cmd/internal/doctree"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/cmd/lockstep/internal/jobfile"
	"lockstep/core/wire"
)

// loadSubmission reads and checks a file of jobs, or stdin if its name is "-". If the file can be read, the error is jobfile.Mistakes.
func loadSubmission(name string, stdin io.Reader) (jobfile.Submission, error) {
	data, err := readInput(name, stdin)
	if err != nil {
		return jobfile.Submission{}, err
	}
	directory, err := workingDirectory("")
	if err != nil {
		return jobfile.Submission{}, err
	}
	return jobfile.Parse(name, directory, data)
}

// mistakesShown is the number of mistakes of a file that standard error gets.
const mistakesShown = 20

// fileError prints the mistakes of a file, a line for each of the first ones. With --json all of them are events. Other errors remain.
func fileError(globals *cli.Globals, name string, err error) error {
	var mistakes jobfile.Mistakes
	if !errors.As(err, &mistakes) {
		return err
	}
	for i, mistake := range mistakes {
		if i < mistakesShown {
			cli.PrintError(globals.Streams.Err, placedError(name, mistake).Error())
		}
		if globals.JSON {
			event := follow.Event{Event: "mistake", Line: mistake.At.Line, Column: mistake.At.Column, Error: mistake.Text}
			if err := follow.PrintEvent(globals.Streams.Out, event); err != nil {
				return err
			}
		}
	}
	if more := len(mistakes) - mistakesShown; more > 0 {
		text := fmt.Sprintf("%s: and %d more", shownName(name), more)
		if !globals.JSON {
			text += "; --json lists all"
		}
		cli.PrintError(globals.Streams.Err, text)
	}
	return &cli.ExitError{Code: cli.ExitUsage}
}

// placedError is an error about a file, with the place of the mistake.
func placedError(name string, err error) error {
	var placed *doctree.Error
	if errors.As(err, &placed) && placed.At.Line > 0 {
		return fmt.Errorf("%s:%w", shownName(name), err) // file:line:column: text
	}
	return fmt.Errorf("%s: %w", shownName(name), err)
}

func shownName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// readInput reads the whole file, or stdin if its name is "-". A file larger than a frame is an error.
func readInput(name string, stdin io.Reader) ([]byte, error) {
	from := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		from = file
	}
	data, err := io.ReadAll(io.LimitReader(from, wire.MaxFrame+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", shownName(name), err)
	}
	if len(data) > wire.MaxFrame {
		return nil, fmt.Errorf("%s is larger than %d bytes; split the jobs into several files", shownName(name), wire.MaxFrame)
	}
	return data, nil
}
