package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func newWatchCommand(globals *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID",
		Short: "Follow a job's status and log until it ends",
		Long: `Follow a job: print each change of its status and each line of its log, until
it ends. Ctrl-C stops watching; the job goes on.

If the daemon is restarted meanwhile, watching goes on where it was.

Exit code: 0 if the job succeeded, 1 otherwise.
With --json, one object per line:
{"event": "status", "job", "status", "opcode_status"},
{"event": "log", "job", "serial", "time", "type", "payload"} and
{"event": "end", "job", "status", "error"}.`,
		Example: `  lockstep watch 12
  lockstep watch --json 12 | jq .status`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return runWatch(command.Context(), globals, args)
		},
	}
}

func runWatch(ctx context.Context, globals *globalOptions, args []string) error {
	ids, err := parseIDs(args)
	if err != nil {
		return err
	}
	daemon := globals.connect()
	defer daemon.close()
	w := &watchView{globals: globals, id: ids[0], palette: globals.palette()}
	f := &follower{session: daemon, id: w.id}
	status, err := f.follow(ctx, w.show)
	if err != nil {
		return err
	}
	text := ""
	if status != statusSuccess {
		end, err := f.ending(ctx)
		if err != nil {
			return err
		}
		text = end.sentence(w.id)
	}
	if globals.JSON {
		if err := printEvent(globals.streams.Out, event{Event: "end", Job: w.id, Status: status, Error: text}); err != nil {
			return err
		}
	}
	switch {
	case status == statusSuccess:
		return nil
	case globals.JSON:
		return &exitError{code: exitFailure}
	}
	return errors.New(text)
}

// watchView prints what happens to one job, in the order in which it does.
type watchView struct {
	globals *globalOptions
	palette palette
	id      int64
	last    change
}

func (w *watchView) show(c change) {
	streams := w.globals.streams
	out := outputLines{out: streams.Out, terminal: streams.OutTerminal}
	// Entries of an answer with a final status came before it.
	if !final(c.status) {
		w.showStatus(c)
	}
	for _, entry := range c.entries {
		if w.globals.JSON {
			_ = printEvent(streams.Out, entry.event(w.id)) // run checks the stream
		} else {
			out.print(entry.text())
		}
	}
	if c.final {
		w.showStatus(c)
	}
}

func (w *watchView) showStatus(c change) {
	if sameProgress(w.last, c) {
		return
	}
	w.last = c
	out := w.globals.streams.Out
	if w.globals.JSON {
		_ = printEvent(out, event{Event: "status", Job: w.id, Status: c.status, OpcodeStatus: c.opStatus})
		return
	}
	text := fmt.Sprintf("job %d: %s", w.id, w.palette.status(c.status))
	if at := currentOpcode(c.opStatus); at > 0 && !final(c.status) {
		text += fmt.Sprintf(", opcode %d of %d", at, len(c.opStatus))
	}
	fmt.Fprintln(out, text)
}
