package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/core/paths"
)

// scheduledDue is what the record of a job says of the schedule that has submitted it, read without the code of the daemon.
type scheduledDue struct {
	Name string
	Due  int64
	By   string
}

func scheduledDueIn(record []byte) (d scheduledDue) {
	var r struct{ Schedule scheduledDue }
	_ = json.Unmarshal(record, &r) // a damaged record names no schedule
	return r.Schedule
}

// scheduleFile is the part of a schedule's file that the checkers read, with code of their own.
type scheduleFile struct {
	Name    string
	Every   int64 `json:"every_us"`
	Made    int64
	Anchor  int64
	Last    int64
	Paused  bool
	History []scheduleEntry
}

// historyMax is the number of entries that a history keeps.
const historyMax = 100

// scheduleEntry is an entry of the history.
type scheduleEntry struct {
	Due     int64
	Jobs    []int64
	Missed  string
	Skipped string
	By      string
}

// checkFirings: a due time of a schedule has its job once, and not before its time.
type checkFirings struct {
	jobs map[scheduledDue]int64
}

func (*checkFirings) Name() string { return "a due time fires once" }

func (c *checkFirings) See(w *World, event any) error {
	e, is := event.(opcodeStarted)
	if !is || !strings.HasPrefix(e.tag, scheduleTag) || e.op > 0 {
		return nil
	}
	due := w.dueOf(e.job)
	if due.Name == "" {
		return fmt.Errorf("job %d is one of a schedule, and its record does not say so", e.job)
	}
	if c.jobs == nil {
		c.jobs = map[scheduledDue]int64{}
	}
	if due.By != "" {
		return nil
	}
	if other, twice := c.jobs[due]; twice && other != e.job {
		return fmt.Errorf("the due time %d of %s has job %d, and job %d", due.Due, due.Name, other, e.job)
	}
	c.jobs[due] = e.job
	if now := w.clock.Now().UnixMicro(); due.Due > now {
		return fmt.Errorf("job %d of %s begins %v before its time", e.job, due.Name, time.Duration(due.Due-now)*time.Microsecond)
	}
	return nil
}

// dueOf is the due time in the record of a job, live or archived.
func (w *World) dueOf(id int64) scheduledDue {
	for _, file := range []string{paths.RecordPath(id), paths.ArchivedRecordPath(id)} {
		if f := w.disk.Find(file); f != nil {
			return scheduledDueIn(f.Data)
		}
	}
	return scheduledDue{}
}

// checkNoted: when a job of a schedule begins, the history of the schedule has it at its due time.
type checkNoted struct{}

func (checkNoted) Name() string { return "what fires is in the history" }

func (checkNoted) See(w *World, event any) error {
	e, is := event.(opcodeStarted)
	if !is || !strings.HasPrefix(e.tag, scheduleTag) || e.op > 0 {
		return nil
	}
	due := w.dueOf(e.job)
	f := w.disk.Find(paths.SchedulePath(due.Name))
	if f == nil {
		return nil // it was removed
	}
	var file scheduleFile
	if err := json.Unmarshal(f.Data, &file); err != nil {
		return fmt.Errorf("%s is no schedule: %w", due.Name, err)
	}
	forgotten := due.Due <= file.Made || len(file.History) >= historyMax
	noted := func(h scheduleEntry) bool { return h.Due == due.Due && slices.Contains(h.Jobs, e.job) }
	if !forgotten && !slices.ContainsFunc(file.History, noted) {
		return fmt.Errorf("job %d begins, which %s has submitted for its due time %d, and the history has no such job", e.job, file.Name, due.Due)
	}
	return nil
}

// checkHistories: the history of a schedule has each due time up to the last one, in order and once, and names the jobs that exist. A gap
// is there only after a pause, another definition, or due times that are too old to be made up for.
// In a cluster it judges what is committed, which each master has: a firing that a deposed master has written alone does not count.
type checkHistories struct {
	files map[string]scheduleFile // by name: the last content, also of a schedule that was removed
}

func (*checkHistories) Name() string { return "histories are true" }

func (c *checkHistories) See(w *World, event any) error {
	if c.files == nil {
		c.files = map[string]scheduleFile{}
	}
	switch e := event.(type) {
	case powerLost, daemonStarted, deciderStarted: // the disk may have an older content
		for _, name := range w.disk.Names(paths.ScheduleDir) {
			var file scheduleFile
			if strings.HasSuffix(name, ".json") && json.Unmarshal(w.disk.Find(paths.ScheduleDir+"/"+name).Data, &file) == nil {
				c.files[name] = file
			}
		}
	case otherFileChanged:
		name, is := strings.CutPrefix(e.path, paths.ScheduleDir+"/")
		f := w.disk.Find(e.path)
		if !is || f == nil || !strings.HasSuffix(name, ".json") {
			return nil
		}
		var file scheduleFile
		if err := json.Unmarshal(f.Data, &file); err != nil {
			return fmt.Errorf("%s is no schedule: %w", name, err)
		}
		before := c.files[name]
		c.files[name] = file
		return file.judge(before)
	case finished:
		for _, file := range c.files {
			if err := file.jobsAre(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// judge compares the history with the rule, and with the file before.
func (f scheduleFile) judge(before scheduleFile) error {
	last := int64(0)
	for _, e := range f.History {
		if e.By != "" {
			continue
		}
		if len(e.Jobs) == 0 && e.Missed == "" && e.Skipped == "" {
			return fmt.Errorf("%s says nothing of its due time %d", f.Name, e.Due)
		}
		if e.Due <= last {
			return fmt.Errorf("%s has the due time %d after %d", f.Name, e.Due, last)
		}
		if last = e.Due; e.Due <= f.Anchor {
			continue // of a former definition
		}
		if (e.Due-f.Anchor)%f.Every != 0 {
			return fmt.Errorf("%s has the due time %d, which is none of its rule", f.Name, e.Due)
		}
	}
	if f.Anchor == before.Anchor && !f.Paused && !before.Paused && before.Last >= f.Anchor && f.Last > before.Last {
		return f.decided(before)
	}
	return nil
}

// decided checks the due times between the file before and this one, of a schedule that has not rested: each has an entry, or there are so
// many that the history has lost some, or they are too old.
func (f scheduleFile) decided(before scheduleFile) error {
	if slices.ContainsFunc(f.History, func(e scheduleEntry) bool { return strings.Contains(e.Missed, "made up for") }) {
		return nil
	}
	oldest := f.Last - 90*f.Every
	for due := f.Anchor + (max(before.Last, oldest)-f.Anchor)/f.Every*f.Every + f.Every; due <= f.Last; due += f.Every {
		found := false
		for _, e := range f.History {
			found = found || e.Due == due && e.By == ""
		}
		if !found {
			return fmt.Errorf("%s has decided its due times up to %d, and its history lacks %d", f.Name, f.Last, due)
		}
	}
	return nil
}

// jobsAre checks that each job of the history exists with its due time.
func (f scheduleFile) jobsAre(w *World) error {
	for _, e := range f.History {
		for _, id := range e.Jobs {
			if w.Job(id) == nil {
				continue // removed from the archive, or quarantined
			}
			if due := w.dueOf(id); due.Name != f.Name || due.Due != e.Due {
				return fmt.Errorf("%s has job %d for its due time %d, and the record of the job says %+v", f.Name, id, e.Due, due)
			}
		}
	}
	return nil
}
