package queue

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/nodes"
)

func NewStatusCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how the daemon and its queue stand, on one screen",
		Long: `Show how the daemon and its queue stand: since when it is up, whether the queue
takes jobs, how many there are of each status, what holds run slots and for how
long, why no job process can be started if that is so, and which files the daemon
could not use and has set aside. Archived jobs
are not counted.

Exit code: 0; 1 if no daemon answers.
With --json: {"cluster", "master", "version": string, "pid": number,
"started_ts": time, "run_slots", "last_id": number, "drained": bool,
"jobs": {STATUS: number}, "running": [{"id": number, "status": string,
"priority": number, "summary": [string], "start_ts": time}],
"quarantined": [string], "queued_with_secrets": number, "cannot_start": string},
times as RFC 3339 or null. "running" is what holds a run slot, also if it waits;
"jobs" leaves out statuses that no job has; "cannot_start" says why no job process
can be started, or is empty.`,
		Example: `  lockstep status
  lockstep status --json | jq .jobs`,
		Args: cli.WantArgs(0, 0, "status takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runStatus(command.Context(), globals)
		},
	}
}

// daemonStatus is the daemon's answer to LockstepStatus, and printed again by --json.
type daemonStatus struct {
	Cluster     string           `json:"cluster"`
	Master      string           `json:"master"`
	Version     string           `json:"version"`
	PID         int              `json:"pid"`
	Started     client.Timestamp `json:"started_ts"`
	RunSlots    int              `json:"run_slots"`
	LastID      int64            `json:"last_id"`
	Drained     bool             `json:"drained"`
	Jobs        map[string]int   `json:"jobs"`
	Running     []slotJob        `json:"running"`
	Quarantined []string         `json:"quarantined"` // below the data directory
	// WithSecrets are queued jobs that would fail after a restart: their secrets
	// are in the daemon's memory only.
	WithSecrets int `json:"queued_with_secrets"`
	// CannotStart is why no job process can be started; empty: they can.
	CannotStart string `json:"cannot_start"`
	// Nodes are those of the cluster; null for a daemon that is alone.
	Nodes *nodes.Cluster `json:"nodes"`
}

// slotJob is a job that holds a run slot.
type slotJob struct {
	ID       int64            `json:"id"`
	Status   string           `json:"status"`
	Priority int              `json:"priority"`
	Summary  []string         `json:"summary"`
	Started  client.Timestamp `json:"start_ts"` // null while its process is being started
}

func runStatus(ctx context.Context, globals *cli.Globals) error {
	daemon := globals.Connect()
	defer daemon.Close()
	status := daemonStatus{}
	if err := daemon.Call(ctx, "LockstepStatus", nil, &status); err != nil {
		return err
	}
	if globals.JSON {
		status.fillLists()
		return cli.PrintJSON(globals.Streams.Out, status)
	}
	streams := globals.Streams
	printer := statusPrinter{out: streams.Out, now: streams.Now(), colours: globals.Palette(), width: streams.Width}
	printer.print(status, daemon.Path)
	return nil
}

// fillLists makes empty lists of those that the daemon has sent as null.
func (s *daemonStatus) fillLists() {
	if s.Jobs == nil {
		s.Jobs = map[string]int{}
	}
	if s.Running == nil {
		s.Running = []slotJob{}
	}
	for i := range s.Running {
		if s.Running[i].Summary == nil {
			s.Running[i].Summary = []string{}
		}
	}
	if s.Quarantined == nil {
		s.Quarantined = []string{}
	}
}

// statusPrinter writes the screen.
type statusPrinter struct {
	out     io.Writer
	now     time.Time
	colours term.Palette
	width   int // of the terminal; 0: none
}

func (p statusPrinter) print(s daemonStatus, socket string) {
	p.line("Daemon", fmt.Sprintf("lockstepd %s on %s, pid %d, %s", term.Visible(s.Version), term.Visible(s.Master), s.PID, p.up(s.Started)))
	p.line("Socket", term.Visible(socket))
	p.line("Queue", p.queue(s))
	p.line("Slots", fmt.Sprintf("%d of %d run slots taken", len(s.Running), s.RunSlots))
	if s.Nodes != nil {
		p.line("Nodes", nodes.Majority(s.Nodes.Nodes, p.colours))
	}
	if len(s.Running) > 0 {
		fmt.Fprintf(p.out, "\n%s\n", slotTable(s.Running, p.now, p.colours, p.width))
	}
	if s.CannotStart != "" {
		fmt.Fprintf(p.out, "\n%s\n", p.colours.Paint("1;31", "ATTENTION: job processes cannot be started"+term.AfterColon(s.CannotStart)+" Queued jobs wait until they can."))
	}
	if len(s.Quarantined) > 0 {
		p.quarantined(s.Quarantined)
	}
	p.safety(s)
}

// safety answers whether the daemon can be stopped.
func (p statusPrinter) safety(s daemonStatus) {
	switch {
	case s.Nodes != nil && nodes.Voters(s.Nodes.Nodes) > 1 && nodes.Spare(s.Nodes.Nodes) == 0:
		fmt.Fprintf(p.out, "\nTo stop or restart the daemon of any voting node would leave no majority: nothing would be taken or\nstarted until it is back, and what runs (%d) would fail.\n", len(s.Running))
	case s.Nodes != nil && nodes.Voters(s.Nodes.Nodes) > 1 && len(s.Running) > 0:
		fmt.Fprintf(p.out, "\nTo stop or restart the daemon of %s, the master, would fail what runs (%d): another node takes over.\nHave it finish first: \"lockstep drain on\", and wait until no slot is taken.\n", term.Visible(s.Master), len(s.Running))
	case s.WithSecrets > 0:
		fmt.Fprintf(p.out, "\nTo stop or restart the daemon would fail %d queued jobs, whose secrets are in its memory only;\nrunning jobs would go on and be adopted.\n", s.WithSecrets)
	case s.Nodes != nil && nodes.Voters(s.Nodes.Nodes) > 1:
		fmt.Fprintln(p.out, "\nIt is safe to stop or restart the daemon: no job runs, and another node takes over.")
	default:
		fmt.Fprintln(p.out, "\nIt is safe to stop or restart the daemon: running jobs go on and are adopted.")
	}
}

func (p statusPrinter) line(name, value string) {
	fmt.Fprintf(p.out, "%-7s %s\n", name+":", value)
}

func (p statusPrinter) up(since client.Timestamp) string {
	if since.IsZero() {
		return "up since when is unknown"
	}
	return fmt.Sprintf("up since %s (%s)", since.In(p.now.Location()).Format(time.DateTime), term.Span(p.now.Sub(since.Time)))
}

func (p statusPrinter) queue(s daemonStatus) string {
	state := "takes jobs"
	if s.Drained {
		state = p.colours.Paint("1;33", "drained, submissions are refused")
	}
	var counts []string
	for _, status := range client.AllStatuses() {
		if n := s.Jobs[status]; n > 0 {
			counts = append(counts, strconv.Itoa(n)+" "+cli.StatusText(p.colours, status))
		}
	}
	if len(counts) == 0 {
		return state + "; no jobs"
	}
	return state + "; " + strings.Join(counts, ", ")
}

func (p statusPrinter) quarantined(paths []string) {
	text := "ATTENTION: a file could not be used and was set aside, in the daemon's data directory:"
	if len(paths) > 1 {
		text = fmt.Sprintf("ATTENTION: %d files could not be used and were set aside, in the daemon's data directory:", len(paths))
	}
	fmt.Fprintf(p.out, "\n%s\n", p.colours.Paint("1;31", text))
	for _, path := range paths {
		fmt.Fprintln(p.out, "  "+term.Visible(path))
	}
}

func slotTable(jobs []slotJob, now time.Time, colours term.Palette, width int) string {
	header := table.Row{"ID", "Status", "Priority", "For", "Summary"}
	rows := make([]table.Row, 0, len(jobs))
	for _, job := range jobs {
		since := "-"
		if !job.Started.IsZero() {
			since = term.Span(now.Sub(job.Started.Time))
		}
		rows = append(rows, table.Row{strconv.FormatInt(job.ID, 10), cli.StatusText(colours, job.Status),
			cli.PriorityName(job.Priority), since, cli.Summarize(job.Summary)})
	}
	return term.PlainTable(header, rows, []int{len(header) - 1}, width)
}
