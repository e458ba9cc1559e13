package top

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/cmd/internal/term"
	"lockstep/core/answer"
)

// page is what the screen shows.
type page int

const (
	pageJobs page = iota
	pageJob
	pageLocks
	pageFilters
	pageHelp
)

// prompt is a line of input at the bottom.
type prompt struct {
	question string
	text     string
	confirm  bool // y or n, not a text
	done     func(m *model, text string) tea.Cmd
}

// model is the state of the screen. Only Update changes it.
type model struct {
	source  *source
	colours term.Palette
	now     func() time.Time

	state         state
	page          page
	width, height int
	selected      int64 // job; 0: the first
	top           int   // first row of the table
	search        string
	prompt        *prompt
	message       string // of the last action
	text          []string
	scroll        int  // lines from the end of text for a log, from its beginning otherwise
	reading       bool // a question is open
	dirty         bool // something has changed since it was asked
}

func newModel(s *source, colours term.Palette, now func() time.Time, first state) *model {
	return &model{source: s, colours: colours, now: now, state: first, width: 80, height: 24}
}

// Messages.
type (
	stateRead struct{ state state }
	textRead  struct {
		page page
		job  int64
		text string
	}
	actionDone struct{ text string }
	second     struct{}
)

func everySecond() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return second{} }) }

// Init is part of tea.Model.
func (m *model) Init() tea.Cmd { return everySecond() }

// Update is part of tea.Model. It takes one message: a key, a change of the queue, what was read of it, the result of an action or the
// tick of a second.
func (m *model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		return m, m.readText()
	case changed:
		m.dirty = true
		return m, m.readState()
	case stateRead:
		m.reading = false
		if msg.state.err != nil {
			m.state.err = msg.state.err
		} else {
			m.state = msg.state
		}
		return m, m.readState()
	case textRead:
		if msg.page == m.page && msg.job == m.selectedID() {
			m.text = strings.Split(strings.TrimRight(msg.text, "\n"), "\n")
		}
		return m, nil
	case actionDone:
		m.message = strings.TrimSpace(strings.TrimPrefix(msg.text, "lockstep: "))
		m.dirty = true
		return m, m.readState()
	case second:
		return m, tea.Batch(everySecond(), m.readText())
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		if m.prompt != nil && !m.prompt.confirm {
			m.prompt.text += msg.Content
		}
	}
	return m, nil
}

// readState asks for the state if it has changed. While a question is open it does nothing; the answer asks again.
func (m *model) readState() tea.Cmd {
	if m.reading || !m.dirty {
		return nil
	}
	m.reading, m.dirty = true, false
	return func() tea.Msg {
		st, err := m.source.read(context.Background())
		st.err = err
		return stateRead{st}
	}
}

// readText asks for the text of the page; nil for a page without a text from commands.
func (m *model) readText() tea.Cmd {
	at, id, width := m.page, m.selectedID(), m.width
	number := strconv.FormatInt(id, 10)
	var args [][]string
	switch at {
	case pageJob:
		args = [][]string{{"why", number}, {"log", number}}
	case pageLocks:
		args = [][]string{{"locks", "--graph"}}
	case pageFilters:
		args = [][]string{{"filter", "list"}}
	default:
		return nil
	}
	return func() tea.Msg {
		text := ""
		for _, a := range args {
			text += m.source.output(context.Background(), width, a...) + "\n"
		}
		return textRead{at, id, text}
	}
}

// searched reports whether the search text is in what the table shows of a job, in any case of letters. An empty search selects all.
func (m *model) searched(j answer.ListedJob) bool {
	if m.search == "" {
		return true
	}
	text := fmt.Sprint(j.ID, " ", j.Name, " ", j.Status, " ", j.User, " ", strings.Join(j.Summary, " "))
	return strings.Contains(strings.ToLower(text), strings.ToLower(m.search))
}

// rows are the jobs that the search selects: those that have not ended, then those that ended last.
func (m *model) rows() []answer.ListedJob {
	var rows, ended []answer.ListedJob
	for _, j := range m.state.jobs {
		if !m.searched(j) {
			continue
		}
		if j.Ended.IsZero() {
			rows = append(rows, j)
		} else {
			ended = append([]answer.ListedJob{j}, ended...)
		}
	}
	return append(rows, ended...)
}

// index is the place of the selected job among the rows; 0 if it is not there.
func (m *model) index(rows []answer.ListedJob) int {
	for i, j := range rows {
		if j.ID == m.selected {
			return i
		}
	}
	return 0
}

// selectedID is the id of the selected job; 0 if there is none.
func (m *model) selectedID() int64 {
	rows := m.rows()
	if m.page == pageJob && m.selected != 0 {
		return m.selected
	}
	if len(rows) == 0 {
		return 0
	}
	return rows[m.index(rows)].ID
}

func (m *model) show(p page) tea.Cmd {
	if p == pageJob {
		if m.selected = m.selectedID(); m.selected == 0 {
			return nil
		}
	}
	m.page, m.text, m.scroll, m.message = p, nil, 0, ""
	return m.readText()
}

// key handles one key: it changes the page, the selection or the search, or quits. The prompt gets it first, if one is open.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	if m.prompt != nil {
		return m.promptKey(k)
	}
	switch k.String() {
	case "ctrl+c":
		return tea.Quit
	case "q", "esc":
		if m.page != pageJobs {
			return m.show(pageJobs)
		}
		if k.String() == "q" {
			return tea.Quit
		}
		m.search = ""
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.height / 2)
	case "pgdown", "space":
		m.move(m.height / 2)
	case "enter":
		if m.page == pageJobs {
			return m.show(pageJob)
		}
	case "l":
		return m.show(pageLocks)
	case "f":
		return m.show(pageFilters)
	case "?":
		return m.show(pageHelp)
	case "/":
		m.prompt = &prompt{question: "Search: ", text: m.search, done: func(m *model, text string) tea.Cmd { m.search = text; return nil }}
	default:
		return m.jobKey(k.String())
	}
	return nil
}

// jobKey handles the keys that change the selected job. Those that end or submit something are asked about first.
func (m *model) jobKey(key string) tea.Cmd {
	id := m.selectedID()
	if id == 0 || m.page != pageJobs && m.page != pageJob {
		return nil
	}
	number := strconv.FormatInt(id, 10)
	ask := func(question string, args ...string) {
		m.prompt = &prompt{question: question + " (y/n) ", confirm: true, done: func(m *model, _ string) tea.Cmd { return m.act(args...) }}
	}
	switch key {
	case "c":
		ask("Cancel job "+number+"?", "cancel", number)
	case "K":
		ask("End job "+number+" now?", "cancel", "--kill", number)
	case "r":
		ask("Run job "+number+" again?", "rerun", number)
	case "h":
		return m.act("hold", number)
	case "u":
		return m.act("release", number)
	case "p":
		m.prompt = &prompt{
			question: "Priority of job " + number + ", -20 to 19: ",
			done:     func(m *model, text string) tea.Cmd { return m.act("priority", text, number) },
		}
	}
	return nil
}

func (m *model) act(args ...string) tea.Cmd {
	return func() tea.Msg { return actionDone{m.source.output(context.Background(), m.width, args...)} }
}

func (m *model) promptKey(k tea.KeyPressMsg) tea.Cmd {
	p := m.prompt
	switch {
	case k.String() == "esc" || k.String() == "ctrl+c" || p.confirm && k.String() != "y":
		m.prompt = nil
	case p.confirm || k.String() == "enter":
		m.prompt = nil
		return p.done(m, p.text)
	case k.String() == "backspace":
		if r := []rune(p.text); len(r) > 0 {
			p.text = string(r[:len(r)-1])
		}
	default:
		p.text += k.Text
	}
	return nil
}

// move selects the job step rows below, or scrolls a text by step lines.
func (m *model) move(step int) {
	if m.page != pageJobs {
		if m.page == pageJob {
			step = -step
		}
		m.scroll = max(0, min(m.scroll+step, len(m.text)))
		return
	}
	rows := m.rows()
	if len(rows) > 0 {
		m.selected = rows[max(0, min(m.index(rows)+step, len(rows)-1))].ID
	}
}
