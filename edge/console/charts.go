package console

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"lockstep/core/answer"
	"lockstep/core/timeline"
	"lockstep/edge/rapi"
)

// timelineView is the data of the chart of run slots. The chart is 1000 wide.
type timelineView struct {
	Bars    []ganttBar
	Ticks   []ganttTick
	Lanes   []ganttLane
	Height  int
	Window  string
	Windows []tab
	Rows    []jobRow
	More    bool  // ended jobs of the time are left out
	LeftOut int64 // jobs that have not ended and are not drawn
}

type ganttBar struct {
	ID            int64
	X, Y, W       int
	Class, Title  string
	WaitX, WaitW  int
	Label         string
	LabelX, TextY int
}

// ganttTick is a time below the chart, in the server's zone; the script shows it in the browser's.
type ganttTick struct {
	X          int
	Full, Text string // as RFC 3339, and for people
	Days       bool   // the text has the day, too
}

type ganttLane struct{ Y, TextY, Number int }

// Sizes of the chart.
const (
	laneHeight  = 26
	chartTop    = 24
	chartLeft   = 30
	chartWidth  = 1000
	timelineMax = 500 // ended jobs
	pendingMax  = 20  // jobs that have not begun
)

var windows = []struct {
	name string
	span time.Duration
}{{"10m", 10 * time.Minute}, {"1h", time.Hour}, {"6h", 6 * time.Hour}, {"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}}

func (x *Console) timeline(q *request) error {
	chosen := windows[1]
	v := timelineView{}
	for _, w := range windows {
		if w.name == q.URL.Query().Get("window") {
			chosen = w
		}
	}
	for _, w := range windows {
		v.Windows = append(v.Windows, tab{Name: w.name, Label: w.name, Path: "/ui/timeline?window=" + w.name, Current: w.name == chosen.name})
	}
	v.Window = chosen.name
	now := time.Now()
	from := now.Add(-chosen.span)
	wanted := answer.JobSelection{
		Statuses: []string{"success", "error", "canceled"},
		SinceUS:  from.Truncate(time.Second).UnixMicro(),
		Limit:    timelineMax,
		Archived: true,
	}
	page, err := askAged[answer.JobPage](q, statusFresh, rapi.Page, "LockstepPageJobs", answer.JobPageRequest{JobSelection: wanted})
	if err != nil {
		return err
	}
	v.More = page.Cursor != 0
	active, pending, leftOut, err := x.unfinished(q)
	if err != nil {
		return err
	}
	v.LeftOut = leftOut
	ended := slices.DeleteFunc(page.Jobs, func(j answer.ListedJob) bool {
		return j.Ended.IsZero() || slices.ContainsFunc(active, func(a answer.ListedJob) bool { return a.ID == j.ID })
	})
	v.draw(append(active, ended...), pending, from, now)
	return q.show("timeline", "Timeline", "timeline", "jobs", v)
}

// unfinished are all jobs with a process, and the oldest of those that have not begun. leftOut is the number of the other unfinished
// jobs.
func (x *Console) unfinished(q *request) (active, pending []answer.ListedJob, leftOut int64, err error) {
	status, err := askAged[answer.QueueStatus](q, statusFresh, rapi.Short, "LockstepStatus")
	if err != nil {
		return nil, nil, 0, err
	}
	for _, name := range []string{"queued", "waiting", "running", "canceling"} {
		leftOut += status.Jobs[name]
	}
	ids := []int64{}
	for _, j := range status.Running {
		ids = append(ids, j.ID)
	}
	var list answer.JobList
	if len(ids) > 0 { // no ids would select all jobs
		list, err = askAged[answer.JobList](q, statusFresh, rapi.Large, "LockstepListJobs", answer.JobSelection{IDs: ids})
	}
	if err != nil {
		return nil, nil, 0, err
	}
	waiting, err := askAged[answer.JobPage](q, statusFresh, rapi.Large, "LockstepPageJobs",
		answer.JobPageRequest{OldestFirst: true, JobSelection: answer.JobSelection{Statuses: []string{"queued", "waiting"}, Limit: pendingMax}})
	if err != nil {
		return nil, nil, 0, err
	}
	for _, j := range list.Jobs {
		if !j.Started.IsZero() {
			active = append(active, j)
		}
	}
	pending = slices.DeleteFunc(waiting.Jobs, func(j answer.ListedJob) bool { return !j.Started.IsZero() })
	return active, pending, max(0, leftOut-int64(len(active)+len(pending))), nil
}

// draw puts the jobs that were started into lanes, and below them each pending job into a lane without a number.
func (v *timelineView) draw(jobs, pending []answer.ListedJob, from, now time.Time) {
	jobs = slices.DeleteFunc(jobs, func(j answer.ListedJob) bool {
		return j.Started.IsZero() || !j.Ended.IsZero() && j.Ended.Before(from)
	})
	var spans []timeline.Span
	for _, j := range jobs {
		end := now
		if !j.Ended.IsZero() {
			end = j.Ended.Time
		}
		spans = append(spans, timeline.Span{ID: j.ID, Begin: j.Started.UnixMilli(), End: max(end.UnixMilli(), j.Started.UnixMilli()+1)})
	}
	lanes, count := timeline.Lanes(spans)
	slots := count
	for _, j := range pending {
		jobs = append(jobs, j)
		spans = append(spans, timeline.Span{ID: j.ID, Begin: j.Received.UnixMilli(), End: max(now.UnixMilli(), j.Received.UnixMilli()+1)})
		lanes = append(lanes, count)
		count++
	}
	scale := func(ms int64) int {
		elapsed, whole := ms-from.UnixMilli(), now.UnixMilli()-from.UnixMilli()
		return chartLeft + int(max(0, min(elapsed, whole))*(chartWidth-chartLeft)/whole)
	}
	for i, j := range jobs {
		x, end := scale(spans[i].Begin), scale(spans[i].End)
		y := chartTop + lanes[i]*laneHeight
		b := ganttBar{ID: j.ID, X: x, Y: y, W: max(end-x, 3), Class: j.Status, TextY: y + 15, LabelX: x + 5}
		if j.Started.IsZero() {
			b.Class = "queued"
			b.Title = fmt.Sprintf("job %d %s: %s for %s", j.ID, j.Name, j.Status, span(now.Sub(j.Received.Time)))
		} else {
			ran := time.Duration(spans[i].End-spans[i].Begin) * time.Millisecond
			b.Title = fmt.Sprintf("job %d %s: %s, waited %s, ran %s",
				j.ID, j.Name, j.Status, span(j.Started.Sub(j.Received.Time)), span(ran))
		}
		if b.W > 60 {
			name := j.Name
			if name == "" {
				name = answer.Work(j.Summary)
			}
			b.Label = shorten(strconv.FormatInt(j.ID, 10)+" "+name, b.W/7)
		}
		v.Bars = append(v.Bars, b)
		v.Rows = append(v.Rows, jobRow{ListedJob: j})
	}
	for lane := range max(count, 1) {
		v.Lanes = append(v.Lanes, ganttLane{
			Y:      chartTop + lane*laneHeight,
			TextY:  chartTop + lane*laneHeight + 15,
			Number: (lane + 1) * min(1, max(0, slots-lane)),
		})
	}
	v.Height = chartTop + max(count, 1)*laneHeight + 4
	minute := int64(time.Minute / time.Millisecond)
	steps := []int64{
		minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute, 60 * minute, 240 * minute, 1440 * minute,
	}
	for _, at := range timeline.Ticks(from.UnixMilli(), now.UnixMilli(), 6, steps) {
		t := time.UnixMilli(at)
		tick := ganttTick{X: scale(at), Full: t.Format(time.RFC3339), Text: t.Format("15:04 -07:00"), Days: now.Sub(from) > 48*time.Hour}
		if tick.Days {
			tick.Text = t.Format("Jan 2 15:04 -07:00")
		}
		v.Ticks = append(v.Ticks, tick)
	}
}

// graphView is the data of the graph of a chain.
type graphView struct {
	ID            int64
	Nodes         []graphNode
	Edges         []graphEdge
	Width, Height int
	More          bool
}

type graphNode struct {
	X, Y, TextY, SubY int
	Job               answer.ListedJob
	Label, Sub        string
	Current           bool
}

type graphEdge struct{ Path string }

// Sizes of the graph.
const (
	nodeWidth, nodeHeight = 190, 46
	layerGap, rowGap      = 70, 16
	graphMax              = 100 // jobs
)

// graph shows the jobs that a job waits for, directly and indirectly, and those that wait for it.
func (x *Console) graph(q *request) error {
	id, err := q.jobID()
	if err != nil {
		return err
	}
	ids, edges, more, err := x.chain(q, id)
	if err != nil {
		return err
	}
	list, err := ask[answer.JobList](q, rapi.Page, "LockstepListJobs", answer.JobSelection{IDs: ids})
	if err != nil {
		return err
	}
	v := graphView{ID: id, More: more}
	places := timeline.Layers(ids, edges)
	corner := func(id int64) (x, y int) {
		return 4 + places[id].Layer*(nodeWidth+layerGap), 4 + places[id].Row*(nodeHeight+rowGap)
	}
	for _, j := range list.Jobs {
		x, y := corner(j.ID)
		label := fmt.Sprintf("%d %s", j.ID, j.Name)
		v.Nodes = append(v.Nodes, graphNode{
			X:       x,
			Y:       y,
			TextY:   y + 18,
			SubY:    y + 36,
			Job:     j,
			Label:   shorten(label, 20),
			Sub:     shorten(j.Status+" · "+answer.Work(j.Summary), 22),
			Current: j.ID == id,
		})
		v.Width, v.Height = max(v.Width, x+nodeWidth+8), max(v.Height, y+nodeHeight+8)
	}
	for _, e := range edges {
		_, hasFrom := places[e.From]
		if _, hasTo := places[e.To]; !hasFrom || !hasTo {
			continue
		}
		x1, y1 := corner(e.From)
		x2, y2 := corner(e.To)
		x1, y1, y2 = x1+nodeWidth, y1+nodeHeight/2, y2+nodeHeight/2
		bend := (x1 + x2) / 2
		v.Edges = append(v.Edges, graphEdge{fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x1, y1, bend, y1, bend, y2, x2, y2)})
	}
	return q.show("graph", fmt.Sprintf("Chain of job %d", id), "jobs", "jobs", v)
}

// chain are the jobs of a chain, at most graphMax, and their dependencies: those that job files name, and those of jobs that wait now.
// more: the chain has more jobs.
func (x *Console) chain(q *request, id int64) (ids []int64, edges []timeline.Edge, more bool, err error) {
	locks, err := askAged[answer.Locks](q, statusFresh, rapi.Large, "LockstepLocks")
	if err != nil {
		return nil, nil, false, err
	}
	waitsFor := map[int64][]int64{}
	waitedBy := map[int64][]int64{}
	for _, w := range locks.Jobs {
		for _, on := range w.On {
			waitsFor[w.ID] = append(waitsFor[w.ID], on.ID)
			waitedBy[on.ID] = append(waitedBy[on.ID], w.ID)
		}
	}
	known, next := map[int64]bool{id: true}, []int64{id}
	seen := map[timeline.Edge]bool{}
	link := func(e timeline.Edge, other int64) {
		if !seen[e] {
			seen[e] = true
			edges = append(edges, e)
		}
		if !known[other] && len(known) < graphMax {
			known[other] = true
			next = append(next, other)
		} else if !known[other] {
			more = true
		}
	}
	for len(next) > 0 {
		of := next[0]
		next = next[1:]
		j, err := x.readJob(q, of)
		if err != nil {
			continue // it has left the queue
		}
		ids = append(ids, of)
		for _, on := range append(dependencies(j.ops), waitsFor[of]...) {
			link(timeline.Edge{From: on, To: of}, on)
		}
		for _, waiting := range waitedBy[of] {
			link(timeline.Edge{From: of, To: waiting}, waiting)
		}
	}
	return ids, edges, more, nil
}

// dependencies are the ids in the parameter depends of opcodes. What is malformed is left out.
func dependencies(ops []map[string]json.RawMessage) []int64 {
	var ids []int64
	for _, op := range ops {
		var depends [][]json.RawMessage
		if json.Unmarshal(op["depends"], &depends) != nil {
			continue
		}
		for _, d := range depends {
			var id int64
			if len(d) > 0 && json.Unmarshal(d[0], &id) == nil && id > 0 {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
