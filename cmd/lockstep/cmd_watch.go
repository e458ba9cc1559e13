package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func newWatchCommand(globals *globalOptions) *cobra.Command {
	strict := false
	command := &cobra.Command{
		Use:   "watch ID",
		Short: "Follow a job's status and log until it ends",
		Long: `Follow a job: print each change of its status and each line of its log, until
it ends. Ctrl-C stops watching; the job goes on.

If the daemon is restarted meanwhile, watching goes on where it was.

Standard error of a command goes to standard error, all else to standard output.
"lockstep log --help" says when lines are missing.

Exit code: 0 if the job succeeded, 1 otherwise; 125 if output is missing, with
--strict-output.
With --json, one object per line:
{"event": "status", "job", "status", "opcode_status"},
{"event": "log", "job", "serial", "time", "type", "payload"},
{"event": "end", "job", "status", "error", "missing"} and
` + missingEventHelp + `

` + logTypesHelp,
		Example: `  lockstep watch 12
  lockstep watch --json 12 | jq .status`,
		Args: wants(1, 1, "name one job, by its id"),
		RunE: func(command *cobra.Command, args []string) error {
			return runWatch(command.Context(), strict, globals, args)
		},
	}
	command.Flags().BoolVar(&strict, "strict-output", false, strictOutputUsage)
	return command
}

func runWatch(ctx context.Context, strict bool, globals *globalOptions, args []string) error {
	ids, err := parseIDs(args)
	if err != nil {
		return err
	}
	daemon := globals.connect()
	defer daemon.close()
	id := ids[0]
	events := &eventView{out: globals.streams.Out, id: id}
	lines := &watchView{palette: globals.palette(), id: id,
		output: jobOutput{id: id, streams: globals.streams, others: true, mixed: true}}
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
		if err := printEvent(globals.streams.Out, event{Event: "end", Job: id, Status: status, Error: text, Missing: events.missing()}); err != nil {
			return err
		}
	}
	lines.output.finish()
	switch incomplete := lines.output.incomplete() || events.missing() != nil; {
	case strict && incomplete && text != "" && !globals.JSON:
		return &exitError{code: exitIncomplete, err: errors.New(text)}
	case strict && incomplete:
		return &exitError{code: exitIncomplete}
	case status == statusSuccess:
		return nil
	case globals.JSON:
		return &exitError{code: exitFailure}
	}
	return errors.New(text)
}

// watchView prints what happens to one job for people, in the order in which it does.
type watchView struct {
	palette palette
	id      int64
	last    change
	output  jobOutput
}

func (w *watchView) show(c change) {
	// Entries of an answer with a final status came before it, of any other after it.
	if !final(c.status) {
		w.status(c)
	}
	w.output.show(c.entries)
	if c.final {
		w.status(c)
	}
}

func (w *watchView) status(c change) {
	if sameProgress(w.last, c) {
		return
	}
	w.last = c
	text := fmt.Sprintf("job %d: %s", w.id, statusText(w.palette, c.status))
	if at := currentOpcode(c.opStatus); at > 0 && !final(c.status) {
		text += fmt.Sprintf(", opcode %d of %d", at, len(c.opStatus))
	}
	w.output.endLine()
	fmt.Fprintln(w.output.streams.Out, text)
}
