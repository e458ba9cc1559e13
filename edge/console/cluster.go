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
	"lockstep/edge/rapi"
)

// orderView is the data of the next jobs.
type orderView struct {
	answer.NextJobs
	InForce string // the order: expected, weights or plain
	Rows    []nextRow
}

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
	ids := make([]int64, len(next.Jobs))
	for i, j := range next.Jobs {
		ids[i] = j.ID
	}
	order, err := askAged[answer.Order](q, statusFresh, rapi.Large, "LockstepOrder", ids, nil)
	if err != nil {
		return err
	}
	v := orderView{NextJobs: next, InForce: order.Order}
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

// unknownEstimates says why there is no estimate, by forecast.Obstacle.
var unknownEstimates = map[string]string{
	string(forecast.NoObstacle): "too many jobs come first",
	string(forecast.Filter):     "a rule holds it back",
	string(forecast.Hold):       "it is held",
	string(forecast.Limit):      "a limit holds it back",
	string(forecast.Foreign):    "a program has locks",
	string(forecast.NoHistory):  "no such opcode has ended yet",
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

type settingRow struct{ Name, Value, Doc string }

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
		value := string(values[name])
		if value == "null" {
			value = "" // the daemon's options decide
		}
		v.Settings = append(v.Settings, settingRow{name, value, settingDocs[name]})
	}
	return v, nil
}

// settingDocs says what the settings mean.
var settingDocs = map[string]string{
	"max_running_jobs":      "run slots: jobs that run at a time",
	"max_tracked_jobs":      "kept for Ganeti's clients",
	"predictive":            "jobs that would probably not wait for locks go first",
	"predictive_base":       "weight of a job without contention",
	"predictive_tick":       "seconds; unit of a job's age",
	"predictive_ticks":      "age at which the weight of a job is 0",
	"lock_bypass_after":     "seconds for which later requests may overtake a request for locks; 0 is for ever",
	"archive_after":         "seconds after their end after which jobs are archived; 0 is never",
	"keep_last":             "ended jobs of each name that stay in the queue",
	"remove_archived_after": "seconds after which archived jobs are removed; 0 is never",
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
	for _, row := range before.Settings {
		value := strings.TrimSpace(q.PostForm.Get(row.Name))
		switch {
		case !q.PostForm.Has(row.Name) || value == row.Value:
		case value == "":
			changed[row.Name] = json.RawMessage("null")
		case json.Valid([]byte(value)):
			changed[row.Name] = json.RawMessage(value)
		default:
			changed[row.Name] = quoted(value)
		}
	}
	q.about["settings"] = strings.Join(slices.Sorted(maps.Keys(changed)), ",")
	if err := q.do(rapi.Short, nil, "LockstepSetSettings", changed); err != nil {
		if isAway(err) {
			return err
		}
		before.Problem = submissionError(err).Error()
		q.render(http.StatusUnprocessableEntity, "settings", view{Title: "Settings", Section: "settings", Data: before})
		return nil
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
