// Package schedule decides when the jobs of a schedule are submitted, and keeps what has become of each due time (docs/over-time.md). A
// schedule is a file, which is all of its state. Package calendar says the due times. The package is pure: the actor calendar writes the
// files and submits the jobs.
package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/core/access"
	"lockstep/core/calendar"
	"lockstep/core/record"
	"lockstep/core/words"
)

// Overlap says what happens at a due time at which jobs of the schedule have not ended.
type Overlap string

// The values of Overlap.
const (
	Skip    Overlap = "skip"    // no job is submitted
	Queue   Overlap = "queue"   // the job waits for their ends, unless another one waits already
	Replace Overlap = "replace" // they are killed, and the job waits for their ends
	Allow   Overlap = "allow"   // the job is submitted beside them
)

// CatchUp says what happens to due times at which no job could be submitted, once that is possible again.
type CatchUp string

// The values of CatchUp.
const (
	None CatchUp = "none" // nothing
	Last CatchUp = "last" // the newest of them gets its jobs
	All  CatchUp = "all"  // each of them does
)

// Bounds of a schedule.
const (
	HistoryMax   = 100                // entries of the history, and due times that CatchUp All makes up for
	WithinMax    = 7 * 24 * time.Hour // of Definition.Within
	JitterMax    = 24 * time.Hour
	NameMax      = 64
	JobsMax      = 50 // jobs of a due time
	JobsBytesMax = 64 << 10
	// OpenMax is how many jobs of a schedule may be unfinished at a due time that submits others.
	OpenMax = 1000
	// Late is how far after its time a due time is still on time: it needs no catching up.
	Late = time.Minute
	// AheadMax is how far ahead of the clock the last due time may be. Beyond it the schedule stops: a clock has been wrong.
	AheadMax = 24 * time.Hour
)

// Job is one job of a due time, as in a submission.
type Job struct {
	Ops  []json.RawMessage `json:"ops"`
	Name string            `json:"name,omitempty"` // empty: that of the schedule
}

// Definition is what a user has written. Either Cron or EveryUs is set.
type Definition struct {
	Name     string  `json:"name"`
	Cron     string  `json:"cron,omitempty"`
	EveryUs  int64   `json:"every_us,omitempty"`
	Zone     string  `json:"tz,omitempty"` // of Cron
	Overlap  Overlap `json:"overlap"`
	CatchUp  CatchUp `json:"catch_up"`
	WithinUs int64   `json:"catch_up_within_us"` // older due times are not made up for
	JitterUs int64   `json:"jitter_us,omitempty"`
	Jobs     []Job   `json:"jobs"`
}

// Entry says what has become of a due time: Jobs were submitted, or Missed or Skipped says why not. With Jobs and Missed, they were
// submitted late for the reason in Missed. Run by hand has no due time in the rule.
type Entry struct {
	DueUs   int64   `json:"due"`
	Jobs    []int64 `json:"jobs,omitempty"`
	Missed  string  `json:"missed,omitempty"`
	Skipped string  `json:"skipped,omitempty"`
	By      string  `json:"by,omitempty"`   // who has run it by hand; empty: the rule
	Owed    bool    `json:"owed,omitempty"` // CatchUp is to make up for it
}

// firing is the last submission: FromUs is File.LastUs before it. It is in the file before its jobs exist, and counts only if the serial
// of the queue covers them (TakeBack).
type firing struct {
	FromUs int64 `json:"from"`
	DueUs  int64 `json:"due"`
	First  int64 `json:"first"` // id of the first of its jobs
	Count  int64 `json:"count"`
}

// Ended is the last job of the schedule that has ended.
type Ended struct {
	Job    int64  `json:"job"`
	AtUs   int64  `json:"at"`
	Result string `json:"result"` // in words
}

// Owner is the user to whom the jobs of a schedule belong: who has made it, or has defined it last. What the user may do is asked at each
// due time.
type Owner struct{ access.Submitter }

// OwnerOf is the owner of a schedule that an identity makes.
func OwnerOf(i access.Identity) Owner { return Owner{i.Submitter()} }

// File is a schedule as it is on the disk. Times are microseconds since 1970.
type File struct {
	Definition
	Owner Owner  `json:"owner"`
	By    string `json:"by"` // the owner in words
	// Maker is who has defined it last, in words, if that is not the owner: an administrator has defined it for an account.
	Maker  string `json:"maker,omitempty"`
	MadeUs int64  `json:"made"`
	// AnchorUs is where the times of EveryUs begin.
	AnchorUs int64 `json:"anchor"`
	// LastUs is the last due time that was decided on. It never decreases, except when a firing is taken back.
	LastUs    int64   `json:"last"`
	Open      []int64 `json:"open,omitempty"` // jobs that have not ended, as far as this file knows
	Paused    bool    `json:"paused,omitempty"`
	UntilUs   int64   `json:"until,omitempty"` // end of the pause; 0: none
	Firing    *firing `json:"firing,omitempty"`
	Missed    int64   `json:"missed_total,omitempty"` // due times missed for good, or made up for late
	LastEnd   *Ended  `json:"last_end,omitempty"`
	SuccessUs int64   `json:"success,omitempty"` // end of the last job that succeeded
	History   []Entry `json:"history,omitempty"` // the newest last
}

// CheckName reports why a text is no name of a schedule; nil: it is one. It is a name of a job, since the jobs of the schedule have it, of
// at most NameMax characters and without a first dot.
func CheckName(name string) error {
	switch {
	case len(name) > NameMax:
		return fmt.Errorf("the name of a schedule has at most %d characters, this has %d", NameMax, len(name))
	case strings.HasPrefix(name, "."):
		return fmt.Errorf("the name of a schedule does not begin with a dot, as %q does", name)
	}
	return record.CheckName(name)
}

// Complete fills in defaults, and reports why a definition cannot be used; nil: it can. zones loads time zones. The opcodes of its jobs
// are not checked.
func (d *Definition) Complete(zones Zones) error {
	if err := CheckName(d.Name); err != nil {
		return err
	}
	if d.Overlap == "" {
		d.Overlap = Skip
	}
	if d.CatchUp == "" {
		d.CatchUp = Last
	}
	if d.WithinUs == 0 {
		d.WithinUs = (24 * time.Hour).Microseconds()
	}
	if err := d.checkJobs(); err != nil {
		return err
	}
	return errors.Join(d.checkChoices(), d.checkTimes(zones))
}

func (d *Definition) checkChoices() error {
	if !slices.Contains([]Overlap{Skip, Queue, Replace, Allow}, d.Overlap) {
		return fmt.Errorf("overlap %.40q is unknown: use skip, queue, replace or allow", d.Overlap)
	}
	if !slices.Contains([]CatchUp{None, Last, All}, d.CatchUp) {
		return fmt.Errorf("catch-up %.40q is unknown: use none, last or all", d.CatchUp)
	}
	if d.WithinUs < time.Second.Microseconds() || d.WithinUs > WithinMax.Microseconds() {
		return fmt.Errorf("missed times are made up for within 1s to %s", words.FormatDuration(WithinMax))
	}
	if d.JitterUs < 0 || d.JitterUs > JitterMax.Microseconds() {
		return fmt.Errorf("a jitter is at most %s", words.FormatDuration(JitterMax))
	}
	return nil
}

func (d *Definition) checkTimes(zones Zones) error {
	if (d.Cron == "") == (d.EveryUs == 0) {
		return errors.New("a schedule has either a cron expression or a period")
	}
	if d.Cron == "" && d.Zone != "" {
		return errors.New("a period counts elapsed time, and takes no time zone")
	}
	if d.Cron != "" && d.Zone == "" {
		return errors.New("a cron expression needs a time zone")
	}
	_, err := d.rule(zones, time.Unix(0, 0))
	return err
}

func (d *Definition) checkJobs() error {
	if len(d.Jobs) == 0 || len(d.Jobs) > JobsMax {
		return fmt.Errorf("a schedule has 1 to %d jobs for a due time", JobsMax)
	}
	size := 0
	for _, j := range d.Jobs {
		for _, op := range j.Ops {
			size += len(op)
		}
	}
	if size > JobsBytesMax {
		return fmt.Errorf("the jobs of a schedule have at most %d bytes", JobsBytesMax)
	}
	return nil
}

// Zones loads the time zone with a name.
type Zones func(name string) (*time.Location, error)

func (d *Definition) rule(zones Zones, anchor time.Time) (calendar.Rule, error) {
	if d.Cron == "" {
		return calendar.Every(time.Duration(d.EveryUs)*time.Microsecond, anchor)
	}
	zone, err := zones(d.Zone)
	if err != nil {
		return calendar.Rule{}, err
	}
	return calendar.ParseCron(d.Cron, zone)
}

// MadeBy is the schedule, defined by a user in words.
func (f *File) MadeBy(user string) *File {
	if f.Maker = user; user == f.By {
		f.Maker = ""
	}
	return f
}

// Rule is the rule of the schedule's due times.
func (f *File) Rule(zones Zones) (calendar.Rule, error) {
	return f.rule(zones, time.UnixMicro(f.AnchorUs))
}

// Upcoming are when the jobs are submitted, at most as many times, from a first time on; none if the first is the zero time.
func (f *File) Upcoming(first time.Time, zones Zones, most int) (times []time.Time) {
	rule, err := f.Rule(zones)
	if err != nil || first.IsZero() {
		return nil
	}
	for due, any := first, true; any && len(times) < most; {
		times = append(times, due)
		due, any = rule.Next(due.Add(-f.Jitter()))
		due = due.Add(f.Jitter())
	}
	return times
}

// Make makes the schedule of a definition. Its due times begin after now.
func Make(d Definition, owner Owner, by string, now time.Time) *File {
	us := now.UnixMicro()
	return &File{Definition: d, Owner: owner, By: by, MadeUs: us, AnchorUs: anchor(now), LastUs: us}
}

// anchor is a whole second, so that the times of periods of whole seconds are.
func anchor(now time.Time) int64 { return now.Add(time.Second - 1).Truncate(time.Second).UnixMicro() }

// HasTimesOf reports whether two definitions have the same rule of due times.
func (d *Definition) HasTimesOf(other Definition) bool {
	return d.Cron == other.Cron && d.EveryUs == other.EveryUs && d.Zone == other.Zone
}

// Redefine is the schedule with another definition, and its history. If the times are others, they begin after now.
func (f *File) Redefine(d Definition, owner Owner, by string, now time.Time) *File {
	next := f.clone()
	if !f.HasTimesOf(d) {
		next.AnchorUs, next.LastUs = anchor(now), max(now.UnixMicro(), f.LastUs)
		next.settleOwed()
	}
	next.Definition, next.Owner, next.By = d, owner, by
	return next
}

// Same reports whether two definitions are equal.
func Same(a, b Definition) bool {
	left, err := json.Marshal(a)
	right, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(left, right)
}

// Decode reads the content of a schedule's file.
func Decode(content []byte) (*File, error) {
	f := &File{}
	if err := json.Unmarshal(content, f); err != nil {
		return nil, fmt.Errorf("decode a schedule: %w", err)
	}
	if err := CheckName(f.Name); err != nil {
		return nil, err
	}
	return f, nil
}

// Encode is the content of the schedule's file.
func (f *File) Encode() []byte {
	data, err := json.Marshal(f)
	if err != nil {
		panic(fmt.Errorf("encode a schedule: %w", err)) // its opcodes were decoded
	}
	return append(data, '\n')
}

// clone is a copy that may be changed: what is on the disk and what comes next are two values.
func (f *File) clone() *File {
	next := *f
	next.History, next.Open = slices.Clone(f.History), slices.Clone(f.Open)
	if f.Firing != nil {
		last := *f.Firing
		next.Firing = &last
	}
	return &next
}
