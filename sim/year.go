package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lockstep/core/paths"
)

// Year is a run of an hourly schedule over a long time, in which the master is killed again and again.
type Year struct {
	Seed     uint64
	Nodes    int // at least 3
	Days     int
	Kills    int
	Mutation string
}

// YearResult is what has become of the due times. Each of them is in one of OnTime, Late, Missed and TooOld.
type YearResult struct {
	Err    error  `json:"-"`                // a *Violation, or due times and jobs that do not correspond
	Failed string `json:"failed,omitempty"` // Err in words

	Due    int `json:"due"`
	OnTime int `json:"on_time"`
	Late   int `json:"late"`    // with a job and a reason
	Missed int `json:"missed"`  // with a reason, and without a job
	TooOld int `json:"too_old"` // missed, and covered by the reason of an older one

	Kills      int    `json:"kills"`
	Masters    int    `json:"masters"` // changes of the master
	Steps      uint64 `json:"steps"`
	Deliveries uint64 `json:"deliveries"`
}

const (
	// yearDice separates the dice of the kills from others of the same seed.
	yearDice = 0x9ea2
	// yearZone has shifts of its clocks.
	yearZone = "Europe/Berlin"
	yearName = "hourly"
	// outageMax is the longest time for which nodes are down, longer than due times are made up for.
	outageMax = 40 * time.Hour
	// yearSettle is the time in which the last due time is decided, and its job ends.
	yearSettle = 10 * time.Minute
)

// Run makes the run, in which nodes at rest pass over their heartbeats. The error says what is wrong with the Year.
func (y Year) Run() (YearResult, error) {
	mutations, err := findMutation(y.Mutation)
	if err != nil {
		return YearResult{}, err
	}
	if y.Nodes < 3 || y.Nodes > nodesMax || y.Days < 4 || y.Kills < 0 {
		return YearResult{}, fmt.Errorf("want 3 to %d nodes, at least 4 days, and no negative number of kills", nodesMax)
	}
	w, seen, k := y.simulate(mutations)
	r := YearResult{Kills: k.done, Masters: seen.masters, Steps: w.stepCount, Deliveries: w.deliveries}
	switch {
	case w.Err() != nil:
		r.Err = w.Err()
	case k.done < y.Kills:
		r.Err = fmt.Errorf("of %d kills %d came", y.Kills, k.done)
	default:
		r.Err = seen.judge(w, &r)
	}
	if r.Err != nil {
		r.Failed = r.Err.Error()
	}
	return r, nil
}

func (y Year) simulate(mutations Mutations) (*World, *yearEntries, *yearKills) {
	w := New(Options{Seed: y.Seed, Nodes: y.Nodes, Rests: true, Mutations: mutations})
	length := time.Duration(y.Days) * 24 * time.Hour
	seen := &yearEntries{entries: map[int64]scheduleEntry{}, end: w.Now().Add(length)}
	w.checkers = []Checker{
		seen, checkNoted{}, &checkFirings{}, &checkOnce{}, &checkForward{}, checkReplicas{}, &checkFinal{}, checkMasters{}, checkLive{},
	}
	w.restartAfter = restartDelay
	for _, n := range w.nodes {
		n.startAgain()
	}
	w.newClient().beginYear()
	k := &yearKills{world: w, rng: rand.New(rand.NewPCG(y.Seed, yearDice))}
	k.plan(y.Kills, length-outageMax-time.Hour)
	w.RunFor(length + yearSettle)
	return w, seen, k
}

// beginYear defines the schedule.
func (c *client) beginYear() {
	untilDone := (&scheduleWork{world: c.world}).untilDone
	definition := map[string]any{"name": yearName, "cron": "0 * * * *", "tz": yearZone,
		"jobs": []any{map[string]any{"ops": []json.RawMessage{OpSpec("run run_for=1").Encode(scheduleTag + yearName)}}}}
	c.later(0, func() {
		untilDone(c, "LockstepPutSchedule", []any{definition, map[string]any{"replace": true}}, func() {
			untilDone(c, "LockstepSetSettings", []any{map[string]any{"archive_after": 86400}}, func() {})
		})
	})
}

// yearKills kills the master at times that the seed draws.
type yearKills struct {
	world *World
	rng   *rand.Rand
	done  int
}

// plan spreads the kills over a time: half of them anywhere, half of them around due times. In one of eight the majority is lost for hours,
// in one of eight no node runs for up to outageMax.
func (k *yearKills) plan(kills int, within time.Duration) {
	for i := range kills {
		at := time.Hour + time.Duration(k.rng.Int64N(int64(within-time.Hour)))
		if i%2 == 0 {
			at = at.Truncate(time.Hour) - time.Second + time.Duration(k.rng.Int64N(int64(3*time.Second)))
		}
		nodes, down := 1, time.Duration(1+k.rng.IntN(600))*time.Second
		switch i % 8 {
		case 1:
			nodes, down = len(k.world.nodes)/2+1, time.Duration(k.rng.Int64N(int64(3*time.Hour)))
		case 5:
			nodes, down = len(k.world.nodes), time.Duration(k.rng.Int64N(int64(outageMax)))
		}
		k.world.clock.After(at, k.world.life, func() { k.kill(nodes, down) })
	}
}

// kill kills the master and the daemons of further nodes, which start again after a time. Without a master it waits for one.
func (k *yearKills) kill(nodes int, down time.Duration) {
	w, master := k.world, k.world.master()
	if master == nil {
		w.clock.After(10*time.Second, w.life, func() { k.kill(nodes, down) })
		return
	}
	k.done++
	others := slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return n == master })
	w.restartAfter = down
	for _, n := range append(others[:nodes-1], master) {
		if n.daemon != nil {
			n.Crash()
		}
	}
	w.restartAfter = restartDelay
}

// yearEntries keeps what the history of the schedule has said of each due time, also when it has forgotten it.
type yearEntries struct {
	entries map[int64]scheduleEntry // by due time
	made    int64                   // when the schedule was made
	end     time.Time               // of the due times that are judged
	masters int
}

func (*yearEntries) Name() string { return "what is said of a due time stays" }

// See takes each committed content of the file.
func (y *yearEntries) See(w *World, event any) error {
	if _, is := event.(deciderStarted); is {
		y.masters++
	}
	e, is := event.(otherFileChanged)
	if !is || e.path != paths.SchedulePath(yearName) {
		return nil
	}
	var f scheduleFile
	if err := json.Unmarshal(w.disk.Find(e.path).Data, &f); err != nil {
		return fmt.Errorf("%s is no schedule: %w", e.path, err)
	}
	y.made = f.Made
	for _, h := range f.History {
		if before, known := y.entries[h.Due]; known && len(before.Jobs) > 0 && !slices.Equal(before.Jobs, h.Jobs) {
			return fmt.Errorf("the due time %s had the jobs %d, and has the jobs %d", instant(h.Due), before.Jobs, h.Jobs)
		}
		y.entries[h.Due] = h
	}
	return nil
}

func instant(us int64) string { return time.UnixMicro(us).UTC().Format(time.RFC3339Nano) }

// judge compares the due times that a search by minutes finds with the history and with the jobs that exist.
func (y *yearEntries) judge(w *World, r *YearResult) error {
	jobs, err := scheduledJobs(w)
	if err != nil {
		return err
	}
	due, err := fullHours(time.UnixMicro(y.made), y.end)
	if err != nil {
		return err
	}
	var problems []error
	tooOld := time.Time{} // due times until then are covered by an older one
	for _, at := range due {
		us := at.UnixMicro()
		e, noted := y.entries[us]
		switch {
		case len(jobs[us]) > 1:
			problems = append(problems, fmt.Errorf("the due time %s has the jobs %d", instant(us), jobs[us]))
		case !slices.Equal(e.Jobs, jobs[us]):
			problems = append(problems, fmt.Errorf("the due time %s has the jobs %d in the history, and %d exist", instant(us), e.Jobs, jobs[us]))
		case noted && len(e.Jobs) == 1 && e.Missed == "":
			r.OnTime++
		case noted && len(e.Jobs) == 1:
			r.Late++
		case noted && e.Missed != "":
			r.Missed++
			if until := coveredUntil(e.Missed); until.After(tooOld) {
				tooOld = until
			}
		case !at.After(tooOld):
			r.TooOld++
		default:
			problems = append(problems, fmt.Errorf("the due time %s has no job and no reason", instant(us)))
		}
		delete(jobs, us)
	}
	for us, ids := range jobs {
		if us <= y.end.UnixMicro() {
			problems = append(problems, fmt.Errorf("the jobs %d were submitted for %s, which is no due time", ids, instant(us)))
		}
	}
	r.Due = len(due)
	return errors.Join(problems[:min(len(problems), 10)]...)
}

// coveredUntil is the time up to which the reason of a missed due time covers later ones; the zero time: it covers none.
func coveredUntil(reason string) time.Time {
	_, rest, _ := strings.Cut(reason, "neither this time nor those until ")
	text, _, _ := strings.Cut(rest, " ")
	until, _ := time.Parse(time.RFC3339, text)
	return until
}

// scheduledJobs are the jobs that exist, by the due time in their records.
func scheduledJobs(w *World) (map[int64][]int64, error) {
	jobs := map[int64][]int64{}
	for id := int64(1); id <= w.serial(); id++ {
		due := w.dueOf(id)
		if due.Name != yearName || due.By != "" {
			return nil, fmt.Errorf("job %d is none of the schedule: %+v", id, due)
		}
		jobs[due.Due] = append(jobs[due.Due], id)
	}
	return jobs, nil
}

// fullHours are the times after from, up to end, at which the clocks of the zone show a full hour. It looks at each minute.
func fullHours(from, end time.Time) (due []time.Time, err error) {
	zone, err := time.LoadLocation(yearZone)
	if err != nil {
		return nil, err
	}
	for t := from.Truncate(time.Minute).Add(time.Minute); !t.After(end); t = t.Add(time.Minute) {
		if t.In(zone).Minute() == 0 {
			due = append(due, t)
		}
	}
	return due, nil
}
