package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"lockstep/core/answer"
	"lockstep/core/forecast"
	"lockstep/core/why"
	"lockstep/core/words"
	"lockstep/edge/rapi"
)

// orderView is the data of the next jobs.
type orderView struct {
	answer.NextJobs
	InForce string // the order: expected, weights or plain
	Rows    []nextRow
	NotDue  []answer.ListedJob // the first of the jobs between two tries, in the order of their times
}

// notDueShown is how many jobs between two tries the page of the order has.
const notDueShown = 50

type nextRow struct {
	answer.NextJob
	Why        [][]part
	Start, End estimate
}

// estimate is an expected time; without one, Unknown says why.
type estimate struct {
	Range   *answer.TimeRange
	Unknown string
}

func (x *Console) order(q *request) error {
	next, err := askAged[answer.NextJobs](q, statusFresh, rapi.Large, "LockstepNextJobs", 50)
	if err != nil {
		return err
	}
	order, err := askAged[answer.Order](q, statusFresh, rapi.Large, "LockstepOrder", nil, nil)
	if err != nil {
		return err
	}
	v := orderView{NextJobs: next, InForce: order.Order}
	if v.NotDue, err = notDueIn(q, order); err != nil {
		return err
	}
	for _, j := range next.Jobs {
		row := nextRow{NextJob: j}
		if at := slices.IndexFunc(order.Jobs, func(e answer.Estimate) bool { return e.ID == j.ID }); at >= 0 {
			e := order.Jobs[at]
			row.Start, row.End = estimate{e.Start, unknownEstimates[e.Unknown]}, estimate{e.End, unknownEstimates[e.Unknown]}
		}
		for _, r := range append(j.Limits, j.Order) {
			if r.Kind == answer.WhyOrder && len(r.Causes) == 0 && !why.IsHeldBack(r) {
				continue
			}
			row.Why = append(row.Why, sentenceOf(r))
		}
		v.Rows = append(v.Rows, row)
	}
	return q.show("order", "Order", "order", "jobs", v)
}

// notDueIn are the first jobs of an order that only wait for their time. One that has been started meanwhile is left out.
func notDueIn(q *request, order answer.Order) ([]answer.ListedJob, error) {
	var ids []int64
	for _, e := range order.Jobs {
		if e.Unknown == string(forecast.Due) && len(ids) < notDueShown {
			ids = append(ids, e.ID)
		}
	}
	if ids == nil {
		return nil, nil
	}
	list, err := askAged[answer.JobList](q, statusFresh, rapi.Large, "LockstepListJobs", answer.JobSelection{IDs: ids})
	jobs := slices.DeleteFunc(list.Jobs, func(j answer.ListedJob) bool { return j.Due == nil })
	slices.SortStableFunc(jobs, func(a, b answer.ListedJob) int { return a.Due.Compare(b.Due.Time) })
	return jobs, err
}

// unknownEstimates says why there is no estimate, by forecast.Obstacle.
var unknownEstimates = map[string]string{
	string(forecast.NoObstacle): "too many jobs come first",
	string(forecast.Filter):     "a rule holds it back",
	string(forecast.Hold):       "it is held",
	string(forecast.Due):        "it starts, or is tried again, at a later time",
	string(forecast.Limit):      "a limit holds it back",
	string(forecast.Foreign):    "a program has locks",
	string(forecast.NoHistory):  "no such job has ended",
	string(forecast.Dependency): "it waits for a job without an estimate",
	string(forecast.Behind):     "jobs without an estimate come first",
	string(forecast.OtherOrder): "only the order expected has estimates",
}

// nodesView is the data of the nodes.
type nodesView struct {
	answer.Nodes
	Majority string
	Running  int
}

func (x *Console) nodes(q *request) error {
	nodes, err := askAged[answer.Nodes](q, statusFresh, rapi.Short, "LockstepNodes")
	if err != nil {
		return err
	}
	return q.show("nodes", "Nodes", "nodes", "any", nodesView{Nodes: nodes, Majority: majority(&nodes)})
}

// consoles are the addresses of the consoles of all nodes, which browsers keep for the time when this node does not answer.
func (x *Console) consoles(q *request) error {
	nodes, err := askAged[answer.Nodes](q, statusFresh, rapi.Short, "LockstepNodes")
	if err != nil {
		return err
	}
	type other struct {
		Name string `json:"name"`
		URL  string `json:"url"`
	}
	all := []other{}
	for _, n := range nodes.Nodes {
		if n.Console != "" {
			all = append(all, other{n.Name, n.Console})
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	q.w.Header().Set("Content-Type", "application/json")
	_, err = q.w.Write(data)
	return err
}

// promoteView is the data of the question before another node is made the master.
type promoteView struct {
	Name    string
	Running []answer.RunningJob
	Queued  int64 // queued jobs with secrets
}

// confirmPromotion says what it would cost to make another node the master, and asks whether it is to be done. It changes nothing.
func (x *Console) confirmPromotion(q *request) error {
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	status, err := ask[answer.QueueStatus](q, rapi.Short, "LockstepStatus")
	if err != nil {
		return err
	}
	q.render(http.StatusOK, "promote", view{Title: "Change the master", Section: "nodes",
		Data: promoteView{q.PostForm.Get("name"), status.Running, status.WithSecrets}})
	return nil
}

func (x *Console) promote(q *request) error {
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	name := q.PostForm.Get("name")
	q.about["node"] = shorten(name, loggedMax)
	err := q.do(rapi.Long, nil, "LockstepNodePromote", name)
	if err != nil && !isAway(err) {
		return err
	}
	return q.finish(err == nil, "/ui/nodes?done=promoted")
}

// settingsView is the data of the settings.
type settingsView struct {
	Settings []settingRow
	Drained  bool
	Problem  string
}

// settingRow is a setting with its value as people type it. Choices are its values, if there are few.
type settingRow struct {
	Name, Value, Doc string
	Choices          []string
	have             json.RawMessage
}

func (x *Console) settings(q *request) error {
	v, err := x.readSettings(q)
	if err != nil {
		return err
	}
	return q.show("settings", "Settings", "settings", "", v)
}

func (x *Console) readSettings(q *request) (settingsView, error) {
	values, err := ask[map[string]json.RawMessage](q, rapi.Short, "LockstepGetSettings")
	if err != nil {
		return settingsView{}, err
	}
	status, err := ask[answer.QueueStatus](q, rapi.Short, "LockstepStatus")
	if err != nil {
		return settingsView{}, err
	}
	v := settingsView{Drained: status.Drained}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		about := words.SettingOf(name)
		row := settingRow{Name: name, Doc: strings.ReplaceAll(about.Text, "null:", "empty:"), Choices: about.Choices, have: values[name]}
		switch string(row.have) {
		case "null": // the daemon's options decide
		case "true", "false":
			row.Choices = []string{"true", "false"}
			fallthrough
		default:
			row.Value = words.FormatSetting(name, row.have)
			if row.Choices != nil && !slices.Contains(row.Choices, row.Value) {
				row.Choices = append([]string{row.Value}, row.Choices...)
			}
		}
		v.Settings = append(v.Settings, row)
	}
	return v, nil
}

func (x *Console) saveSettings(q *request) error {
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	before, err := x.readSettings(q)
	if err != nil {
		return err
	}
	changed := map[string]json.RawMessage{}
	var problems []string
	for i, row := range before.Settings {
		value := strings.TrimSpace(q.PostForm.Get(row.Name))
		if !q.PostForm.Has(row.Name) || value == row.Value {
			continue
		}
		before.Settings[i].Value = value
		changed[row.Name] = json.RawMessage("null")
		if value == "" {
			continue
		}
		if changed[row.Name], err = words.ParseSetting(row.Name, value, row.have); err != nil {
			problems = append(problems, capital(err.Error())+".")
		}
	}
	refuse := func(problem string) error {
		before.Problem = problem
		q.render(http.StatusUnprocessableEntity, "settings", view{Title: "Settings", Section: "settings", Data: before})
		return nil
	}
	if len(problems) > 0 {
		return refuse(strings.Join(problems, " "))
	}
	q.about["settings"] = strings.Join(slices.Sorted(maps.Keys(changed)), ",")
	if err := q.do(rapi.Short, nil, "LockstepSetSettings", changed); err != nil {
		if isAway(err) || pageErrorOf(err).code == http.StatusForbidden {
			return err
		}
		return refuse(submissionError(err).Error())
	}
	return q.finish(true, "/ui/settings?done=settings")
}

func quoted(text string) json.RawMessage {
	data, err := json.Marshal(text)
	if err != nil {
		panic(fmt.Errorf("a text cannot be encoded: %w", err)) // every text can be
	}
	return data
}

func (x *Console) drain(q *request) error {
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	drained := q.PostForm.Get("drained") == "1"
	q.about["drained"] = drained
	if err := q.do(rapi.Short, nil, "SetDrainFlag", drained); err != nil {
		return err
	}
	done := "undrained"
	if drained {
		done = "drained"
	}
	return q.finish(true, "/ui/?done="+done)
}
