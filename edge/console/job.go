package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/edge/rapi"
	"lockstep/edge/tlsserver"
)

// logTail is the number of entries of a log that a page has without script.
const logTail = 500

// jobFields are the fields of a job's page, in the order of storedJob.
var jobFields = []string{
	"status", "ops", "opstatus", "opresult", "opstart", "opexec", "opend", "oppriority",
	"received_ts", "start_ts", "end_ts",
}

// storedJob has the values of jobFields.
type storedJob struct {
	status             string
	ops                []map[string]json.RawMessage
	opstatus           []string
	opresult           []json.RawMessage
	start, exec, end   []answer.Time
	priority           []int
	received, begun, e answer.Time
}

// readJob asks for a job, archived or not. The error is a *pageError with code 404 for an unknown job.
func (x *Console) readJob(q *request, id int64) (storedJob, error) {
	var j storedJob
	rows, err := ask[[][]json.RawMessage](q, rapi.Short, "QueryJobs", []int64{id}, jobFields)
	if err != nil {
		return j, err
	}
	if len(rows) != 1 || len(rows[0]) != len(jobFields) || string(rows[0][0]) == "null" {
		return j, &pageError{http.StatusNotFound, fmt.Sprintf("Job %d is neither in the queue nor in the archive.", id)}
	}
	targets := []any{
		&j.status, &j.ops, &j.opstatus, &j.opresult, &j.start, &j.exec, &j.end, &j.priority,
		&j.received, &j.begun, &j.e,
	}
	for i, into := range targets {
		if err := json.Unmarshal(rows[0][i], into); err != nil {
			return j, fmt.Errorf("decode %s of job %d: %w", jobFields[i], id, err)
		}
	}
	return j, nil
}

// jobView is the data of a job's page.
type jobView struct {
	ID       int64
	Row      answer.ListedJob
	Status   string
	Head     string // result or state in words
	Why      [][]part
	Live     bool
	Held     bool
	Ops      []opView
	Bar      []barPart
	Reasons  []reasonView
	Log      []shownEntry
	LogAfter int64
	LogMore  bool
	NoRerun  string // why the job cannot be run again from here; empty: it can
	request  *request
}

// Later reports whether the job waits for its time, or for that of its next try.
func (v jobView) Later() bool { return v.Live && v.Row.Due != nil && v.Row.Due.After(time.Now()) }

// Hint says why buttons of the page are disabled; empty: it needs no words.
func (v jobView) Hint() string {
	if refused := v.Refused(actionAny); refused != "" || v.Live {
		return refused
	}
	return v.NoRerun
}

// Refused says why the user may not do an action on the job; empty: he may.
func (v jobView) Refused(action string) string {
	if err := v.request.refuseOrder(action, v.Row); err != nil {
		return capital(err.Error()) + "."
	}
	return ""
}

// opView is one opcode of a job.
type opView struct {
	Number              int
	Summary, Status     string
	Priority            int
	Start, Exec, End    answer.Time
	Result, ResultLabel string
	Usage               *job.Usage // of the command; nil: it is not known
	Params              []paramView
	Tries               []answer.EndedTry // failed ones before the last
}

type paramView struct{ Name, Value string }

type reasonView struct {
	Source, Text string
	Time         answer.Time
}

// barPart is a part of the timeline of a job: the chart is 1000 wide.
type barPart struct {
	X, Width int
	Class    string
	Label    string
}

func (x *Console) job(q *request) error {
	id, err := q.jobID()
	if err != nil {
		return err
	}
	j, err := x.readJob(q, id)
	if err != nil {
		return err
	}
	v := jobView{ID: id, Status: j.status, Live: !rapi.IsFinal(j.status), request: q, Row: answer.ListedJob{ID: id}}
	list, err := ask[answer.JobList](q, rapi.Page, "LockstepListJobs", answer.JobSelection{IDs: []int64{id}})
	if err != nil {
		return err
	}
	if len(list.Jobs) == 1 {
		v.Row = list.Jobs[0]
		v.Status = v.Row.Status
	}
	why, err := ask[answer.Why](q, rapi.Short, "LockstepWhy", id)
	if err != nil {
		return err
	}
	v.Why = sentences(why)
	v.Held = slices.ContainsFunc(why.Reasons, func(r answer.Reason) bool { return r.Kind == answer.WhyHold })
	v.Head = headOf(v, j)
	v.Ops = opViews(j, v.Row)
	v.Bar = barOf(j, time.Now())
	v.Reasons = reasonsOf(j.ops)
	v.NoRerun = cmp.Or(v.Refused(actionRerun), rerunProblem(j, q.noCommands()))
	if q.Header.Get(liveHeader) == "" { // the script follows the log by itself
		entries, _, err := rapi.LogEntries(q.Context(), x.queue, id)
		if err != nil {
			return err
		}
		v.LogMore = len(entries) > logTail
		v.Log = folded(shownEntries(entries[max(0, len(entries)-logTail):]))
		if len(entries) > 0 {
			v.LogAfter = entries[len(entries)-1].Serial
		}
	}
	title := fmt.Sprintf("Job %d", id)
	if v.Row.Name != "" {
		title += " " + v.Row.Name
	}
	return q.show("job", title, "jobs", fmt.Sprintf("job:%d", id), v)
}

// headOf is the state of a job in one sentence.
func headOf(v jobView, j storedJob) string {
	ran := ""
	if !j.begun.IsZero() && !j.e.IsZero() {
		ran = " after " + span(j.e.Sub(j.begun.Time))
	}
	result := v.Row.Result
	switch v.Status {
	case "success":
		return "It has ended with success" + ran + "."
	case "error":
		if result == "" {
			result = "an error"
		}
		return "It has failed" + ran + ": " + strings.TrimSuffix(result, ".") + "."
	case "canceled":
		if result == "" {
			result = "canceled"
		}
		return "It was ended" + ran + ": " + result + "."
	case "canceling":
		return "It is being canceled."
	case "running":
		if v.Row.Try != nil && v.Row.Try.Number > 1 {
			return "It runs, " + v.Row.Try.String() + "."
		}
		return "It runs."
	}
	return "It waits."
}

func opViews(j storedJob, row answer.ListedJob) []opView {
	views := make([]opView, len(j.ops))
	for i, op := range j.ops {
		v := opView{
			Number:   i + 1,
			Summary:  at(row.Summary, i),
			Status:   at(j.opstatus, i),
			Priority: at(j.priority, i),
			Start:    at(j.start, i),
			Exec:     at(j.exec, i),
			End:      at(j.end, i),
		}
		if v.Summary == "" {
			_ = json.Unmarshal(op["OP_ID"], &v.Summary) // it is a string
		}
		if result := at(j.opresult, i); len(result) > 0 && string(result) != "null" {
			v.Result = shorten(indented(result), 4000)
			v.Usage = job.UsageIn(result)
		}
		for name, value := range op {
			if name == "reason" || name == "OP_ID" || string(value) == "null" {
				continue
			}
			v.Params = append(v.Params, paramView{name, shorten(indented(value), 4000)})
		}
		slices.SortFunc(v.Params, func(a, b paramView) int { return strings.Compare(a.Name, b.Name) })
		v.Tries = slices.DeleteFunc(slices.Clone(row.Tries), func(t answer.EndedTry) bool { return t.Opcode != i })
		views[i] = v
	}
	return views
}

func at[T any](list []T, i int) (value T) {
	if i < len(list) {
		return list[i]
	}
	return value
}

// barOf is the timeline of a job: queued, then for each opcode waiting for locks and running. Positions and widths are in thousandths;
// nil: the job has no time of its submission.
func barOf(j storedJob, now time.Time) []barPart {
	end := now
	if !j.e.IsZero() {
		end = j.e.Time
	}
	total := end.Sub(j.received.Time)
	if j.received.IsZero() || total <= 0 {
		return nil
	}
	var parts []barPart
	add := func(from, to time.Time, class, what string) {
		if from.IsZero() || to.Sub(from) < time.Millisecond {
			return
		}
		x := int(from.Sub(j.received.Time) * 1000 / total)
		width := max(int(to.Sub(from)*1000/total), 2)
		parts = append(parts, barPart{min(x, 998), min(width, 1000-min(x, 998)), class, what + " " + span(to.Sub(from))})
	}
	begun := j.begun.Time
	if j.begun.IsZero() {
		begun = end
	}
	add(j.received.Time, begun, "queued", "queued for")
	for i := range j.ops {
		start, exec, ended := at(j.start, i).Time, at(j.exec, i).Time, at(j.end, i).Time
		number := fmt.Sprintf("opcode %d ", i+1)
		if start.IsZero() {
			continue
		}
		if ended.IsZero() {
			ended = end
		}
		if exec.IsZero() {
			exec = ended
		}
		add(start, exec, "waiting", number+"waiting for locks for")
		class := "running"
		if s := at(j.opstatus, i); s == "error" {
			class = "error"
		} else if s == "success" {
			class = "success"
		}
		add(exec, ended, class, number+"running for")
	}
	return parts
}

// reasonsOf is the reason trail of the first opcode. Entries that are malformed are left out.
func reasonsOf(ops []map[string]json.RawMessage) []reasonView {
	if len(ops) == 0 {
		return nil
	}
	var trail [][]json.RawMessage
	if json.Unmarshal(ops[0]["reason"], &trail) != nil {
		return nil
	}
	var views []reasonView
	for _, entry := range trail {
		var v reasonView
		var nanos int64
		if len(entry) != 3 {
			continue
		}
		err := errors.Join(
			json.Unmarshal(entry[0], &v.Source),
			json.Unmarshal(entry[1], &v.Text),
			json.Unmarshal(entry[2], &nanos),
		)
		if err != nil {
			continue
		}
		v.Time = answer.TimeOf(nanos / 1000)
		views = append(views, v)
	}
	return views
}

// rerunProblem says why the job cannot be run again from here; "" if it can. noCommands is that of the request.
func rerunProblem(j storedJob, noCommands string) (problem string) {
	for _, op := range j.ops {
		var name string
		if json.Unmarshal(op["OP_ID"], &name) == nil && name == "OP_RUN_COMMAND" && noCommands != "" {
			problem = noCommands
		}
		for _, value := range op {
			if strings.Contains(string(value), opcode.Redacted) || strings.Contains(string(value), `\u003credacted\u003e`) {
				problem = "It has secret parameters, which are not stored: use “lockstep rerun”."
			}
		}
	}
	return problem
}

// rerun submits a job again, as a new job: with its name and parameters, without dependencies. It returns the id of the new job, or that
// of the former one with an error.
func (x *Console) rerun(q *request, id int64) (int64, error) {
	j, err := x.readJob(q, id)
	if err != nil {
		return id, err
	}
	if problem := rerunProblem(j, q.noCommands()); problem != "" {
		return id, &pageError{http.StatusForbidden, problem}
	}
	list, err := ask[answer.JobList](q, rapi.Page, "LockstepListJobs", answer.JobSelection{IDs: []int64{id}})
	if err != nil {
		return id, err
	}
	name := ""
	if len(list.Jobs) == 1 {
		name = list.Jobs[0].Name
	}
	ops := make([]map[string]json.RawMessage, len(j.ops))
	for i, op := range j.ops {
		again := map[string]json.RawMessage{}
		for key, value := range op {
			again[key] = value
		}
		delete(again, "depends")
		again["reason"] = q.trail(fmt.Sprintf("rerun of job %d", id))
		ops[i] = again
	}
	return x.submitJob(q, name, ops)
}

// trail is the reason trail of a submission by the console: text, unless it is empty, and who has used the console.
func (q *request) trail(text string) json.RawMessage {
	now := time.Now().UnixNano()
	entries := [][3]any{}
	if text != "" {
		entries = append(entries, [3]any{"gnt:user", text, now})
	}
	data, err := json.Marshal(append(entries, [3]any{job.RemoteSource, "console, " + q.user.Who, now}))
	if err != nil {
		panic(fmt.Errorf("a reason trail cannot be encoded: %w", err)) // texts and numbers can be
	}
	return data
}

func (x *Console) submitJob(q *request, name string, ops []map[string]json.RawMessage) (int64, error) {
	draft := map[string]any{"ops": ops}
	if name != "" {
		draft["name"] = name
	}
	from := q.user.From
	if !q.user.isByLink() {
		var err error
		if from, err = x.config.Logins.Submitter(q.Context(), q.user.login); err != nil {
			return 0, err
		}
	}
	var ids []int64
	err := q.doAs(from, rapi.Short, &ids, "LockstepSubmitJobs", []any{draft})
	if err != nil {
		return 0, submissionError(err)
	}
	if len(ids) != 1 {
		return 0, fmt.Errorf("the answer has %d ids for one job", len(ids))
	}
	return ids[0], nil
}

// submissionError is the error of an invalid submission for people.
func submissionError(err error) error {
	f := rapi.AsClientFailure(err)
	if f.Code == http.StatusForbidden {
		return pageErrorOf(err)
	}
	return &pageError{f.Code, strings.TrimPrefix(f.Error(), "Invalid body parameters: ")}
}

// downloadLog sends the output of a job, byte for byte: of the stream in the query, or of both.
func (x *Console) downloadLog(q *request) error {
	id, err := q.jobID()
	if err != nil {
		return err
	}
	stream := q.URL.Query().Get("stream")
	if stream != "" && stream != job.LogStdout && stream != job.LogStderr {
		return badRequest("A stream is stdout or stderr.")
	}
	begun := false
	err = rapi.WriteLog(q.Context(), x.queue, x.config.Output, id, stream, func(missing int64) io.Writer {
		begun = true
		rapi.LogHeader(q.w.Header(), id, stream, missing)
		tlsserver.RequestOf(q.Context()).Stream()
		return tlsserver.StreamWriter{Response: q.w, Timeout: sendTimeout}
	})
	if err != nil && begun {
		panic(http.ErrAbortHandler) // an incomplete log must not look like a complete one
	}
	return err
}

// jobFile sends the job as JSON.
func (x *Console) jobFile(q *request) error {
	id, err := q.jobID()
	if err != nil {
		return err
	}
	fields := []string{
		"id", "status", "priority", "summary", "ops", "opstatus", "opresult", "oplog", "opstart", "opexec", "opend",
		"oppriority", "received_ts", "start_ts", "end_ts", "archived",
	}
	rows, err := ask[[][]json.RawMessage](q, rapi.Short, "QueryJobs", []int64{id}, fields)
	if err != nil {
		return err
	}
	if len(rows) != 1 || len(rows[0]) != len(fields) || string(rows[0][1]) == "null" {
		return errNotFound
	}
	object := map[string]json.RawMessage{}
	for i, name := range fields {
		object[name] = rows[0][i]
	}
	q.w.Header().Set("Content-Type", "application/json")
	q.w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="job-%d.json"`, id))
	_, err = io.WriteString(q.w, indented(object)+"\n")
	return err
}
