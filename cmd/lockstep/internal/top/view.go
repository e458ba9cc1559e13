package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/jedib0t/go-pretty/v6/text"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/why"
	"lockstep/core/answer"
	corewhy "lockstep/core/why"
)

// View is part of tea.Model.
func (m *model) View() tea.View {
	view := tea.NewView(m.screen())
	view.AltScreen = true
	return view
}

// screen is the text of the whole screen: one line for each of its rows, cut to its columns.
func (m *model) screen() string {
	lines := m.head()
	room := m.height - len(lines) - 1
	switch m.page {
	case pageJobs:
		lines = append(lines, m.table(room)...)
	case pageHelp:
		lines = append(lines, helpLines...)
	default:
		lines = append(lines, m.textLines(room)...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(0, m.height-1)], m.bottom())
	for i := range lines {
		lines[i] = text.Trim(lines[i], m.width)
	}
	return strings.Join(lines, "\n")
}

// head is the state of the queue in three lines; the last one is empty if nothing is wrong.
func (m *model) head() []string {
	s := m.state.status
	used, slots := s.SlotsTaken, max(s.RunSlots, 1)
	const wide = 20
	full := min(wide, (used*wide+slots-1)/slots)
	bar := m.colours.Paint("36", strings.Repeat("|", full)) + strings.Repeat("·", wide-full)
	master := s.Master
	if s.Nodes != nil {
		master = s.Nodes.Master
	}
	first := fmt.Sprintf("%s [%s] %d/%d   master %s", m.colours.Title("lockstep"), bar, used, s.RunSlots, term.OrDash(term.Visible(master)))
	if s.Nodes != nil {
		first += "   " + nodesText(s.Nodes)
	}
	var counts []string
	for _, name := range []string{"running", "waiting", "queued", "canceling", "error", "canceled", "success"} {
		if n := s.Jobs[name]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, cli.StatusText(m.colours, name)))
		}
	}
	second := strings.Join(counts, ", ")
	if second == "" {
		second = "no jobs"
	}
	if oldest := m.oldest(); oldest != nil {
		second += fmt.Sprintf("   oldest wait: job %d, %s", oldest.ID, term.Span(m.now().Sub(oldest.Received.Time)))
	}
	if text := why.Style.Schedules(s.Schedules, m.now()); text != "" {
		second += "   " + text
	}
	lines := []string{first, second}
	switch {
	case m.state.err != nil:
		lines = append(lines, m.colours.Paint("1;31", "The queue does not answer; the screen shows what was known last."))
	case s.CannotStart != "":
		lines = append(lines, m.colours.Paint("1;31", "Job processes cannot be started: "+term.Visible(s.CannotStart)))
	case len(s.CannotWrite) > 0:
		lines = append(lines, m.colours.Paint("1;31", "Files cannot be written: "+term.Visible(s.CannotWrite[0].Text)))
	case s.Drained:
		lines = append(lines, m.colours.Paint("1;33", "The queue is drained: it refuses new jobs."))
	case s.Schedules != nil && len(s.Schedules.Trouble) > 0:
		lines = append(lines, m.colours.Paint("1;33", troubleText(*s.Schedules, m.now())))
	default:
		lines = append(lines, "")
	}
	return lines
}

// troubleText is the first schedule that does not fire or has missed a due time, and how many others there are.
func troubleText(s answer.ScheduleSummary, now time.Time) string {
	first := s.Trouble[0]
	text := "Schedule " + term.Visible(first.Name)
	if more := len(s.Trouble) - 1 + s.MoreTrouble; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ": " + why.Style.Trouble(first, now)
}

// nodesText says how many nodes answer.
func nodesText(n *answer.Nodes) string {
	voters, answering := 0, 0
	for _, node := range n.Nodes {
		if node.Voter {
			voters++
			if node.Answers {
				answering++
			}
		}
	}
	return fmt.Sprintf("%d of %d voting nodes answer, %d may fail", answering, voters, max(0, answering-voters/2-1))
}

// oldest is the job that has waited for its start for longest; nil: none waits.
func (m *model) oldest() *answer.ListedJob {
	var found *answer.ListedJob
	for i := range m.state.jobs {
		j := &m.state.jobs[i]
		if (j.Status == client.StatusQueued || j.Status == client.StatusWaiting) && (found == nil || j.Received.Before(found.Received.Time)) {
			found = j
		}
	}
	return found
}

// table is the table of jobs in at most room lines. It scrolls so that the selected row is visible.
func (m *model) table(room int) []string {
	rows := m.rows()
	at := m.index(rows)
	visible := max(room-1, 1)
	m.top = max(0, min(m.top, len(rows)-visible))
	if at < m.top {
		m.top = at
	}
	if at >= m.top+visible {
		m.top = at - visible + 1
	}
	names := nameWidth(rows)
	header := m.line("  ", "     Id", "Status   ", "     Time", "Name", names, "What, and why it waits or how it ended")
	lines := []string{m.colours.Title(header)}
	if len(rows) == 0 {
		return append(lines, "", "  No job.")
	}
	for i := m.top; i < min(len(rows), m.top+visible); i++ {
		lines = append(lines, m.row(&rows[i], i == at, names))
	}
	return lines
}

// nameMax is the largest width of the column for names.
const nameMax = 16

// nameWidth is the width of the column for the names of jobs; 0 if none has a name.
func nameWidth(rows []answer.ListedJob) int {
	width := 0
	for i := range rows {
		width = max(width, text.StringWidthWithoutEscSequences(term.Visible(rows[i].Name)))
	}
	return min(width, nameMax)
}

func (m *model) row(j *answer.ListedJob, selected bool, names int) string {
	mark := "  "
	if selected {
		mark = m.colours.Title("> ")
	}
	status := cli.StatusText(m.colours, j.Status)
	status += strings.Repeat(" ", max(0, 9-len(j.Status)))
	return m.line(mark, fmt.Sprintf("%7d", j.ID), status, fmt.Sprintf("%9s", m.elapsed(j)), term.Visible(j.Name), names, m.what(j))
}

// line is a line of the table. names is the width of the column for names; 0: there is none.
func (m *model) line(mark, id, status, took, name string, names int, what string) string {
	line := mark + id + "  " + status + " " + took + "  "
	if names > 0 {
		names = max(names, len("Name"))
		line += text.Pad(text.Snip(name, names, "…"), names+2, ' ')
	}
	return line + text.Snip(what, max(m.width-text.StringWidthWithoutEscSequences(line), 1), "…")
}

// what is the command or the progress of a job, and why it waits or how it ended.
func (m *model) what(j *answer.ListedJob) string {
	what := cli.Work(j.Summary)
	if j.Progress != nil {
		what = cli.ProgressText(j.Progress, m.now()) + "  – " + what
	}
	if note := corewhy.Note(j, m.state.why[j.ID], m.now()); note != "" {
		return what + "  – " + term.Visible(note)
	}
	return what
}

// elapsed is how long a job waits, runs or has run; "-" for a job that has ended without a start.
func (m *model) elapsed(j *answer.ListedJob) string {
	switch {
	case !j.Ended.IsZero() && !j.Started.IsZero():
		return term.Span(j.Ended.Sub(j.Started.Time))
	case !j.Ended.IsZero():
		return "-"
	case !j.Started.IsZero():
		return term.Span(m.now().Sub(j.Started.Time).Truncate(time.Second))
	}
	return term.Span(m.now().Sub(j.Received.Time).Truncate(time.Second))
}

// textLines are the lines of a text that fit: the title of a job and the end of its log, the beginning of others.
func (m *model) textLines(room int) []string {
	room = max(room, 1)
	if m.page == pageJob {
		end := max(min(len(m.text)-m.scroll, len(m.text)), min(room, len(m.text)))
		begin := max(0, end-room)
		if begin == 0 || room == 1 {
			return m.text[begin:end]
		}
		return append([]string{m.text[0]}, m.text[begin+1:end]...)
	}
	begin := min(m.scroll, max(0, len(m.text)-room))
	return m.text[begin:min(len(m.text), begin+room)]
}

func (m *model) bottom() string {
	switch {
	case m.prompt != nil:
		return m.prompt.question + term.Visible(m.prompt.text) + "_"
	case m.message != "":
		line, _, _ := strings.Cut(m.message, "\n")
		return term.Visible(line)
	case m.page == pageJobs && m.search != "":
		return fmt.Sprintf("search: %s   Esc clears", term.Visible(m.search))
	case m.page == pageJobs:
		return "Enter details  c cancel  p priority  r run again  / search  l locks  f filters  ? help  q quit"
	}
	return "q back   up and down scroll   ? help"
}

var helpLines = []string{
	"  up, down, k, j   select a job, or scroll",
	"  PgUp, PgDn       the same, by half a screen",
	"  Enter            the job: why it waits, and its log as it grows",
	"  c                cancel the job",
	"  K                end the job now, also its running command",
	"  p                change its priority",
	"  h, u             hold it, release it",
	"  r                run it again, as a new job",
	"  /                search in id, name, status, user and opcodes",
	"  l                who waits for which lock",
	"  f                filter rules",
	"  q, Esc           back; q leaves in the table",
}
