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
		Args: wants(1, 1, "name one job, by its id"),
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
	id := ids[0]
	events := &eventView{out: globals.streams.Out, id: id}
	lines := &watchView{streams: globals.streams, palette: globals.palette(), id: id}
	show := lines.show
	if globals.JSON {
		show = events.show
	}
	f := &follower{session: daemon, id: id}
	status, err := f.follow(ctx, show)
	if err != nil {
		return err
	}
	text := ""
	if status != statusSuccess {
		end, err := f.ending(ctx)
		if err != nil {
			return err
		}
		text = end.sentence(id)
	}
	if globals.JSON {
		if err := printEvent(globals.streams.Out, event{Event: "end", Job: id, Status: status, Error: text}); err != nil {
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

// watchView prints what happens to one job for people, in the order in which it does.
type watchView struct {
	streams Streams
	palette palette
	id      int64
	last    change
}

func (w *watchView) show(c change) {
	// Entries of an answer with a final status came before it, of any other after it.
	if !final(c.status) {
		w.status(c)
	}
	out := outputLines{out: w.streams.Out, terminal: w.streams.OutTerminal}
	for _, entry := range c.entries {
		out.print(entry.text())
	}
	if c.final {
		w.status(c)
	}
}

func (w *watchView) status(c change) {
	if sameProgress(w.last, c) {
		return
	}
	w.last = c
	text := fmt.Sprintf("job %d: %s", w.id, w.palette.status(c.status))
	if at := currentOpcode(c.opStatus); at > 0 && !final(c.status) {
		text += fmt.Sprintf(", opcode %d of %d", at, len(c.opStatus))
	}
	fmt.Fprintln(w.streams.Out, text)
}
