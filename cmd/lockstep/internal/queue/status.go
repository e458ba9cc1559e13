package queue

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/nodes"
	"lockstep/cmd/lockstep/internal/why"
	"lockstep/core/answer"
)

// NewStatusCommand is the command status.
func NewStatusCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the state of the daemon and its queue on one screen",
		Long: `Show the state of the daemon and its queue: its uptime, whether the queue accepts
jobs, the number of jobs by status, the jobs with a process and their times, the reason
if no job process can be started, the files that cannot be written, the files in
quarantine, and whether another program has changed config.data. Archived jobs are
not counted. If there are schedules, it shows how many, which one fires next, and some
of those that are stopped or have missed a due time within a day, with the reason.

Exit code: 0; 1 if no daemon answers.
With --json: {"cluster", "master", "version": string, "pid": number,
"started_ts": time, "run_slots", "run_slots_taken", "last_id": number, "drained": bool,
"jobs": {STATUS: number}, "marked": number, "between_tries": number,
"not_due": number, "running": [{"id": number, "status": string,
"priority": number, "summary": [string], "start_ts": time}],
"schedules": null or {"active", "paused", "stopped", "broken": number, "next_ts": time,
"next_of": string, "trouble": [{"name", "state", "why": string, "missed_ts": time}],
"more_trouble": number}, "quarantined": [string], "queued_with_secrets": number, "cannot_start": string,
"cannot_write": [{"job": number, "by": string, "text": string, "since_ts": time}],
"data_dir": string, "foreign_config": string, "guarded": bool,
"members_are_root": bool, "retention": {"archive_after":
seconds, "keep_last": number, "archived": number, "remove_archived_after": seconds}},
times as RFC 3339 or null. "running" lists the jobs that have or get a process, also
waiting ones and those that are held between two opcodes and have no run slot;
"run_slots_taken" counts run slots; "jobs" omits statuses without jobs; "marked" are the
waiting jobs without a process that wait for locks; "between_tries" are the waiting
jobs whose command has failed and is tried again later; "schedules" is null until they
are read, and "trouble" has at most 5 of those that do not fire or have missed a due
time within a day; "cannot_start" is the reason if no job
process can be started, else empty; "cannot_write" lists the files below "data_dir"
that cannot be written now, of which "job" 0 are those of the daemon; "foreign_config"
says what another program has changed in config.data, else empty; "guarded" says
whether a guard runs on the master.`,
		Example: `  lockstep status
  lockstep status --json | jq .jobs`,
		Args: cli.WantArgs(0, 0, "status takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runStatus(command.Context(), globals)
		},
	}
}

// statusOrder is the order of keys in the JSON output.
func statusOrder() map[string][]string {
	return map[string][]string{
		"": {
			"cluster", "master", "version", "pid", "started_ts", "run_slots", "run_slots_taken", "last_id", "drained", "jobs", "marked",
			"between_tries", "not_due", "running", "schedules", "quarantined", "queued_with_secrets", "cannot_start", "cannot_write", "data_dir",
			"foreign_config", "guarded", "members_are_root", "nodes",
			"retention",
		},
		"cannot_write": {"job", "by", "text", "since_ts"},
		"running":      {"id", "status", "priority", "summary", "start_ts"},
		"schedules":    {"active", "paused", "stopped", "broken", "next_ts", "next_of", "trouble", "more_trouble"},
		"trouble":      {"name", "state", "why", "missed_ts"},
	}
}

func runStatus(ctx context.Context, globals *cli.Globals) error {
	daemon := globals.Connect()
	defer daemon.Close()
	status := answer.QueueStatus{}
	if err := daemon.Call(ctx, "LockstepStatus", nil, &status); err != nil {
		return err
	}
	if globals.JSON {
		fillLists(&status)
		document, err := cli.Document(status, statusOrder())
		if err != nil {
			return err
		}
		return cli.PrintJSON(globals.Streams.Out, document)
	}
	streams := globals.Streams
	printer := statusPrinter{out: streams.Out, now: streams.Now(), colours: globals.Palette(), width: streams.Width}
	printer.print(status, daemon.Path)
	return nil
}

// fillLists replaces null lists by empty lists, for the JSON output.
func fillLists(s *answer.QueueStatus) {
	if s.Jobs == nil {
		s.Jobs = map[string]int64{}
	}
	if s.Running == nil {
		s.Running = []answer.RunningJob{}
	}
	for i := range s.Running {
		if s.Running[i].Summary == nil {
			s.Running[i].Summary = []string{}
		}
	}
	if s.CannotWrite == nil {
		s.CannotWrite = []answer.CannotWrite{}
	}
	if s.Quarantined == nil {
		s.Quarantined = []string{}
	}
}

// statusPrinter writes what "lockstep status" shows without --json, once.
type statusPrinter struct {
	out     io.Writer
	now     time.Time
	colours term.Palette
	width   int // of the terminal, in columns; 0: no terminal
}

func (p statusPrinter) print(s answer.QueueStatus, socket string) {
	p.line("Daemon", fmt.Sprintf("lockstepd %s on %s, pid %d, %s", term.Visible(s.Version), term.Visible(s.Master), s.PID, p.up(s.Started)))
	p.line("Socket", term.Visible(socket))
	p.line("Queue", p.queue(s))
	if text := retentionText(s.Retention); text != "" {
		p.line("Ended", text)
	}
	if text := why.Style.Schedules(s.Schedules, p.now); text != "" {
		p.line("Due", text)
	}
	p.line("Slots", fmt.Sprintf("%d of %d run slots taken", s.SlotsTaken, s.RunSlots))
	if s.Nodes != nil {
		p.line("Nodes", nodes.Majority(s.Nodes.Nodes, p.colours))
		if text := nodes.Files(s.Nodes.Files, p.now); text != "" {
			p.line("Files", text)
		}
		p.line("Guard", map[bool]string{true: "runs on the master", false: "none on the master"}[s.Guarded])
	}
	if len(s.Running) > 0 {
		fmt.Fprintf(p.out, "\n%s\n", slotTable(s.Running, p.now, p.colours, p.width))
	}
	if s.CannotStart != "" {
		text := "ATTENTION: job processes cannot be started" + term.AfterColon(s.CannotStart) + " Queued jobs wait until they can."
		fmt.Fprintf(p.out, "\n%s\n", p.colours.Paint("1;31", text))
	}
	for _, sentence := range why.Style.FailingWrites(s.CannotWrite, s.DataDir, p.now) {
		fmt.Fprintf(p.out, "\n%s\n", p.colours.Paint("1;31", "ATTENTION: "+sentence))
	}
	if s.MembersAreRoot {
		fmt.Fprintf(p.out, "\n%s\n", p.colours.Paint("1;31", "ATTENTION: "+membersAreRoot))
	}
	if s.ForeignConfig != "" {
		fmt.Fprintf(p.out, "\n%s\n", p.colours.Paint("1;31", "ATTENTION: "+term.Visible(s.ForeignConfig)+"."))
	}
	if text := nodes.Contested(s.Nodes); text != "" {
		fmt.Fprintf(p.out, "\n%s\n", p.colours.Paint("1;31", "ATTENTION: "+text))
	}
	if len(s.Quarantined) > 0 {
		p.quarantined(s.Quarantined)
	}
	if s.Schedules != nil && len(s.Schedules.Trouble) > 0 {
		p.troubled(*s.Schedules)
	}
	p.safety(s)
}

// membersAreRoot is what --run-as daemon of root's daemon means.
const membersAreRoot = "the commands of all users run as root, because the daemon runs with --run-as daemon."

// retentionText says what happens to ended jobs; "" if nothing does.
func retentionText(r answer.Retention) string {
	span := func(seconds float64) string { return term.Span(time.Duration(seconds * float64(time.Second))) }
	var parts []string
	if r.ArchiveAfter > 0 {
		text := "archived after " + span(r.ArchiveAfter)
		if r.KeepLast > 0 {
			text += fmt.Sprintf(", except the last %d of each name", r.KeepLast)
		}
		parts = append(parts, fmt.Sprintf("%s (%d so far)", text, r.Archived))
	}
	if r.RemoveArchivedAfter > 0 {
		parts = append(parts, "removed from the archive after "+span(r.RemoveArchivedAfter))
	}
	return strings.Join(parts, "; ")
}

// safety states what a stop of the daemon would do to the jobs.
func (p statusPrinter) safety(s answer.QueueStatus) {
	switch {
	case s.Nodes != nil && nodes.Voters(s.Nodes.Nodes) > 1 && nodes.Spare(s.Nodes.Nodes) == 0:
		fmt.Fprintf(p.out, "\nA stop or restart of the daemon of any voting node would leave no majority: no job would be accepted\n"+
			"or started until it is back, and running jobs (%d) would fail.\n",
			len(s.Running))
	case s.Nodes != nil && nodes.Voters(s.Nodes.Nodes) > 1 && len(s.Running) > 0:
		fmt.Fprintf(p.out, "\nA stop or restart of the daemon of %s, the master, would fail running jobs (%d): another node takes over.\n"+
			"To let them finish: \"lockstep drain on\", and wait until no slot is taken.\n",
			term.Visible(s.Master), len(s.Running))
	case s.WithSecrets > 0:
		fmt.Fprintf(p.out, "\nA stop or restart of the daemon would fail %d queued jobs, whose secrets are in its memory only;\n"+
			"running jobs would continue and be adopted.\n",
			s.WithSecrets)
	case s.Nodes != nil && nodes.Voters(s.Nodes.Nodes) > 1:
		fmt.Fprintln(p.out, "\nIt is safe to stop or restart the daemon: no job runs, and another node takes over.")
	default:
		fmt.Fprintln(p.out, "\nIt is safe to stop or restart the daemon: running jobs continue and are adopted.")
	}
}

func (p statusPrinter) line(name, value string) {
	fmt.Fprintf(p.out, "%-7s %s\n", name+":", value)
}

func (p statusPrinter) up(since answer.Time) string {
	if since.IsZero() {
		return "start time unknown"
	}
	return fmt.Sprintf("up since %s (%s)", since.In(p.now.Location()).Format(time.DateTime), term.Span(p.now.Sub(since.Time)))
}

func (p statusPrinter) queue(s answer.QueueStatus) string {
	state := "takes jobs"
	if s.Drained {
		state = p.colours.Paint("1;33", "drained, submissions are refused")
	}
	if slices.ContainsFunc(s.CannotWrite, func(f answer.CannotWrite) bool { return f.Job == 0 }) {
		state = p.colours.Paint("1;31", "files of the daemon cannot be written")
	}
	var counts []string
	for _, status := range client.AllStatuses() {
		if n := s.Jobs[status]; n > 0 {
			counts = append(counts, strconv.FormatInt(n, 10)+" "+cli.StatusText(p.colours, status))
		}
	}
	if len(counts) == 0 {
		return state + "; no jobs"
	}
	var later []string
	if s.BetweenTries > 0 {
		later = append(later, fmt.Sprintf("%d of them between two tries", s.BetweenTries))
	}
	if s.NotDue > 0 {
		later = append(later, fmt.Sprintf("%d of them not due", s.NotDue))
	}
	return strings.Join(append([]string{state, strings.Join(counts, ", ")}, later...), "; ")
}

func (p statusPrinter) quarantined(paths []string) {
	text := "ATTENTION: an unusable file is in quarantine, in the daemon's data directory:"
	if len(paths) > 1 {
		text = fmt.Sprintf("ATTENTION: %d unusable files are in quarantine, in the daemon's data directory:", len(paths))
	}
	fmt.Fprintf(p.out, "\n%s\n", p.colours.Paint("1;31", text))
	for _, path := range paths {
		fmt.Fprintln(p.out, "  "+term.Visible(path))
	}
}

// troubled prints the schedules that do not fire, or have missed a due time.
func (p statusPrinter) troubled(s answer.ScheduleSummary) {
	fmt.Fprintf(p.out, "\n%s\n", p.colours.Paint("1;33", "Schedules that do not fire, or have missed a due time within a day:"))
	for _, t := range s.Trouble {
		fmt.Fprintf(p.out, "  %s: %s\n", term.Visible(t.Name), why.Style.Trouble(t, p.now))
	}
	if s.MoreTrouble > 0 {
		fmt.Fprintf(p.out, "  and %d more: lockstep schedule list\n", s.MoreTrouble)
	}
}

func slotTable(jobs []answer.RunningJob, now time.Time, colours term.Palette, width int) string {
	header := table.Row{"ID", "Name", "Status", "Priority", "For", "What"}
	rows := make([]table.Row, 0, len(jobs))
	for _, job := range jobs {
		since := "-"
		if !job.Started.IsZero() {
			since = term.Span(now.Sub(job.Started.Time))
		}
		rows = append(rows, table.Row{strconv.FormatInt(job.ID, 10), term.OrDash(term.Visible(job.Name)), cli.StatusText(colours, job.Status),
			cli.PriorityName(job.Priority), since, cli.Work(job.Summary)})
	}
	return term.PlainTable(header, rows, []int{len(header) - 1}, width)
}
