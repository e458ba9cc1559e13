package console

import (
	"time"

	"lockstep/core/answer"
	"lockstep/edge/rapi"
)

// Ages that answers of the overview may have: they are the same for all browsers.
const (
	statusFresh  = 500 * time.Millisecond
	historyFresh = 5 * time.Second
)

// overviewView is the data of the overview.
type overviewView struct {
	Status   answer.QueueStatus
	Counts   []statusCount
	Waiting  int64 // queued and waiting jobs
	Used     int   // run slots
	Oldest   *answer.ListedJob
	Why      [][]part
	Failures []answer.ListedJob
	Hour     spark
	Majority string
	Running  []answer.RunningJob
	Failing  []string // files that cannot be written
}

// statusCount is the number of jobs with a status.
type statusCount struct {
	Status string
	Count  int64
}

// spark is a small chart of the last hour: jobs that ended in each of its parts.
type spark struct {
	Bars   []sparkBar
	Total  int
	Failed int
	More   bool // there were more jobs than the chart has
}

type sparkBar struct{ X, Height, Failed, Top, FailedTop int }

// statuses are all statuses, in the order of a job's life.
var statuses = []string{"running", "waiting", "queued", "canceling", "error", "canceled", "success"}

func (x *Console) overview(q *request) error {
	status, err := askAged[answer.QueueStatus](q, statusFresh, rapi.Short, "LockstepStatus")
	if err != nil {
		return err
	}
	v := overviewView{Status: status, Used: status.SlotsTaken, Majority: majority(status.Nodes), Running: status.Running,
		Failing: style.FailingWrites(status.CannotWrite, status.DataDir, time.Now())}
	for _, name := range statuses {
		v.Counts = append(v.Counts, statusCount{name, status.Jobs[name]})
	}
	v.Waiting = status.Jobs["queued"] + status.Jobs["waiting"]
	if v.Waiting > 0 {
		oldest, err := askAged[answer.JobPage](q, statusFresh, rapi.Page, "LockstepPageJobs",
			answer.JobPageRequest{OldestFirst: true, JobSelection: answer.JobSelection{Statuses: []string{"queued", "waiting"}, Limit: 1}})
		if err != nil {
			return err
		}
		if len(oldest.Jobs) > 0 {
			v.Oldest = &oldest.Jobs[0]
			if why, err := askAged[answer.Why](q, statusFresh, rapi.Short, "LockstepWhy", v.Oldest.ID); err == nil {
				v.Why = sentences(why)
			}
		}
	}
	failures, err := askAged[answer.JobPage](q, statusFresh, rapi.Page, "LockstepPageJobs",
		answer.JobPageRequest{JobSelection: answer.JobSelection{Statuses: []string{"error"}, Limit: 10}})
	if err != nil {
		return err
	}
	v.Failures = failures.Jobs
	now := time.Now()
	ended := answer.JobSelection{
		Statuses: []string{"success", "error", "canceled"},
		SinceUS:  now.Add(-time.Hour).Truncate(10 * time.Second).UnixMicro(),
		Limit:    1000,
	}
	hour, err := askAged[answer.JobPage](q, historyFresh, rapi.Page, "LockstepPageJobs", answer.JobPageRequest{JobSelection: ended})
	if err != nil {
		return err
	}
	v.Hour = sparkOf(hour, now)
	return q.show("overview", "Overview", "overview", "jobs", v)
}

const (
	sparkParts  = 60
	sparkHeight = 40
)

// sparkOf counts the ends of jobs in each minute of the last hour.
func sparkOf(page answer.JobPage, now time.Time) spark {
	var ended, failed [sparkParts]int
	s := spark{More: page.Cursor != 0 && len(page.Jobs) >= 1000}
	highest := 1
	for _, j := range page.Jobs {
		age := int(now.Sub(j.Ended.Time) / time.Minute)
		if j.Ended.IsZero() || age < 0 || age >= sparkParts {
			continue
		}
		at := sparkParts - 1 - age
		ended[at]++
		s.Total++
		if j.Status == "error" {
			failed[at]++
			s.Failed++
		}
		highest = max(highest, ended[at])
	}
	for i := range sparkParts {
		height := ended[i] * sparkHeight / highest
		if ended[i] > 0 {
			height = max(height, 2)
		}
		bad := failed[i] * sparkHeight / highest
		if failed[i] > 0 {
			bad = max(bad, 2)
		}
		s.Bars = append(s.Bars, sparkBar{X: i * 5, Height: height, Failed: bad, Top: sparkHeight - height, FailedTop: sparkHeight - bad})
	}
	return s
}

// majority says how many nodes answer and how many of them may fail; "" without a cluster.
func majority(n *answer.Nodes) string {
	if n == nil || len(n.Nodes) == 0 {
		return ""
	}
	voters, answering := 0, 0
	for _, node := range n.Nodes {
		if node.Voter {
			voters++
			if node.Answers {
				answering++
			}
		}
	}
	spare := answering - (voters/2 + 1)
	text := plural(answering, "node") + " of " + plural(voters, "voting node") + " answer"
	if answering == 1 {
		text += "s"
	}
	switch {
	case spare < 0:
		return text + ". That is no majority: nothing can be changed until more of them answer."
	case spare == 0:
		return text + ". None of them may fail."
	}
	return text + ". " + capital(plural(spare, "of them")) + " may fail, and the queue goes on."
}

func (x *Console) help(q *request) error { return q.show("help", "Help", "help", "", nil) }
