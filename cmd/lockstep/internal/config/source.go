package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/answer"
	"lockstep/core/config/history"
	"lockstep/core/config/model"
	"lockstep/core/config/redact"
	"lockstep/core/config/view"
	"lockstep/core/paths"
)

// source is where the commands read: the daemon, or the files beside the config.data file.
type source struct {
	globals *cli.Globals
	file    string // "": the daemon
}

// addFlag adds the flag that chooses the source.
func (s *source) addFlag(command *cobra.Command, usage string) {
	command.Flags().StringVar(&s.file, "file", "", usage)
}

func (s *source) ask(ctx context.Context, method string, args []any, result any) error {
	daemon := s.globals.Connect()
	defer daemon.Close()
	return daemon.Query(ctx, method, args, result)
}

// read decodes the configuration in the file of the source.
func (s *source) read() (*model.Config, error) {
	data, err := os.ReadFile(s.file)
	if err != nil {
		return nil, err
	}
	c, err := model.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.file, err)
	}
	return c, nil
}

func (s *source) show(ctx context.Context, path string, form view.Form) (part answer.ConfigPart, err error) {
	if s.file == "" {
		return part, s.ask(ctx, "LockstepConfigShow", []any{path, form == view.AsTable}, &part)
	}
	c, err := s.read()
	if err != nil {
		return part, err
	}
	return view.Show(c, path, form, redact.New())
}

func (s *source) check(ctx context.Context) (check answer.ConfigCheck, err error) {
	if s.file == "" {
		return check, s.ask(ctx, "LockstepConfigCheck", []any{}, &check)
	}
	c, err := s.read()
	if err != nil {
		return check, err
	}
	return view.Check(c), nil
}

// history returns the selected changes, from the daemon or from the file of the source. It reports damaged lines on standard error.
func (s *source) history(ctx context.Context, q history.Query) (h answer.ConfigHistory, err error) {
	if s.file == "" {
		err = s.ask(ctx, "LockstepConfigHistory", []any{q}, &h)
	} else {
		h, err = s.readHistory(q)
	}
	if err == nil && h.Damaged > 0 {
		cli.PrintError(s.globals.Streams.Err, "warning: "+term.Count(h.Damaged, "unreadable line")+" of the history left out")
	}
	return h, err
}

// readHistory reads the files of the history beside the file of the source. An absent one has no changes.
func (s *source) readHistory(q history.Query) (answer.ConfigHistory, error) {
	if _, err := os.Stat(s.file); err != nil {
		return answer.ConfigHistory{}, err
	}
	read := func(name string) ([]byte, error) {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(s.file), name))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return data, err
	}
	current, err := read(paths.ConfigHistoryPath)
	if err != nil {
		return answer.ConfigHistory{}, err
	}
	older, err := read(paths.ConfigHistoryOlderPath)
	return view.History(older, current, q), err
}
