// Package audit has the command audit: it shows who has asked for which change, and who was refused one.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/core/audit"
	"lockstep/core/words"
)

const (
	method = "LockstepAudit"
	// limitDefault is the number of entries that are shown without --limit.
	limitDefault = 50
	// followSeconds is how long one call of --follow waits for an entry.
	followSeconds = 30
)

type options struct {
	since  sinceFlag
	user   string
	limit  int
	follow bool
}

// NewCommand is the command audit.
func NewCommand(globals *cli.Globals) *cobra.Command {
	opts := options{}
	command := &cobra.Command{
		Use:   "audit [flags]",
		Short: "Show who has asked for which change, and who was refused one",
		Long: `Show the audit log, the newest entries last: who has asked the daemon for a change,
and when, and which requests were refused because the role of the user does not
permit them. Submissions are not in the log; their jobs say whose they are.

An entry says that a change was asked for, not that it was made: a cancel may come
after the end of the job. Of the refusals of one user within a second the log has
the first and the last one, and the number of those between them. The daemon keeps
about the newest 6 MB. To read the log needs the role operate.

With --follow further entries are printed as they come, until Ctrl-C.

With --json, one object per line: {"number": number, "time": string, "user", "key",
"by", "method", "what": string, "refused": string, "left_out": number}; "key" and
"by" name the user, the process and the node; "refused" is why, absent without a
refusal; "left_out" counts refusals without an entry.`,
		Example: `  lockstep audit
  lockstep audit --since 2d --user alice
  lockstep audit --since 2026-11-28 --limit 0 --json | jq -r 'select(.refused).user'
  lockstep audit --follow`,
		Args: cli.WantArgs(0, 0, "audit takes no arguments, only flags"),
		RunE: func(command *cobra.Command, _ []string) error {
			return run(command.Context(), globals, opts)
		},
		ValidArgsFunction: completion.Nothing,
	}
	flags := command.Flags()
	flags.Var(&opts.since, "since", "only entries from this `TIME` on: a duration like 2h or 7d, a day, or a time as RFC 3339")
	flags.StringVar(&opts.user, "user", "", "only entries of this `USER`: a name, or uid=NUMBER")
	flags.IntVarP(&opts.limit, "limit", "n", limitDefault, "the last `N` entries; 0 means all")
	flags.BoolVarP(&opts.follow, "follow", "f", false, "continue with new entries")
	for _, name := range []string{"since", "user", "limit"} {
		completion.Flag(command, name, completion.Nothing)
	}
	return command
}

// sinceFlag is a point in time, or a duration before now.
type sinceFlag struct{ text string }

func (f *sinceFlag) String() string { return f.text }
func (f *sinceFlag) Type() string   { return "time" }

func (f *sinceFlag) Set(text string) error {
	f.text = text
	_, err := f.before(time.Now())
	return err
}

// before returns the point in time, as seen now; the zero time without the flag.
func (f *sinceFlag) before(now time.Time) (time.Time, error) {
	if f.text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04"} {
		if at, err := time.ParseInLocation(layout, f.text, now.Location()); err == nil {
			return at.UTC(), nil
		}
	}
	ago, err := words.ParseDuration(f.text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no day such as 2026-11-28, no time such as 2026-11-28T09:30:00Z and no duration: write %s",
			f.text, words.DurationHelp)
	}
	return now.Add(-ago).UTC(), nil
}

func run(ctx context.Context, globals *cli.Globals, opts options) error {
	if opts.limit < 0 {
		return cli.Usagef("--limit is a number of entries, not %d", opts.limit)
	}
	since, err := opts.since.before(globals.Streams.Now())
	if err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	entries, last, err := past(ctx, globals, daemon, audit.Query{Since: since, User: opts.user}, opts.limit)
	if err != nil {
		return err
	}
	if len(entries) == 0 && !opts.follow && !globals.JSON {
		fmt.Fprintln(globals.Streams.Out, "no entries")
		return nil
	}
	for _, e := range entries {
		if err := show(globals, e); err != nil {
			return err
		}
	}
	if !opts.follow {
		return nil
	}
	return follow(ctx, globals, daemon, audit.Query{After: &last, User: opts.user})
}

// past asks for the newest entries, a page at a time. 0: all of them. last is the number after which new ones follow.
func past(
	ctx context.Context, globals *cli.Globals, daemon *client.Session, q audit.Query, limit int,
) (all []audit.Entry, last uint64, err error) {
	damaged := 0
	for first := true; first || q.Before > 0; first = false {
		if q.Limit = audit.LimitMax; limit > 0 {
			q.Limit = min(limit-len(all), audit.LimitMax)
		}
		var page audit.Page
		if err := daemon.Query(ctx, method, []any{q}, &page); err != nil {
			return nil, 0, err
		}
		all, q.Before, damaged = append(page.Entries, all...), page.Older, damaged+page.Damaged
		if first {
			last = page.Last
		}
		if limit > 0 && len(all) >= limit {
			break
		}
	}
	if damaged > 0 {
		fmt.Fprintf(globals.Streams.Err, "lockstep: a part of %s of the audit log cannot be read\n", term.Count(damaged, "file"))
	}
	return all, last, nil
}

// follow prints entries as they come.
func follow(ctx context.Context, globals *cli.Globals, daemon *client.Session, q audit.Query) error {
	for {
		var page audit.Page
		err := daemon.Query(ctx, method, []any{q, followSeconds}, &page)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // Ctrl-C ends it
		case err != nil:
			return err
		}
		for _, e := range page.Entries {
			if err := show(globals, e); err != nil {
				return err
			}
		}
		q.After = &page.Last
	}
}

func show(globals *cli.Globals, e audit.Entry) error {
	streams := globals.Streams
	if globals.JSON {
		encoder := json.NewEncoder(streams.Out)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(e)
	}
	_, err := fmt.Fprintln(streams.Out, text(e, streams.Now(), globals.Palette()))
	return err
}

// text is an entry as one line.
func text(e audit.Entry, now time.Time, colours term.Palette) string {
	at := e.Time.In(now.Location()).Format("2006-01-02 15:04:05")
	what := "asked to " + term.Visible(e.What)
	if e.Refused != "" {
		what = colours.Paint("1;31", "refused") + " to " + term.Visible(e.What) + ": " + term.Visible(e.Refused)
	}
	if e.LeftOut > 0 {
		what += fmt.Sprintf(" (and %s before)", term.Count(e.LeftOut, "refusal"))
	}
	return strings.Join([]string{at, term.OrDash(term.Visible(e.User)), what}, "  ")
}
