package jobfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/cmd/internal/doctree"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/jobs"
	"lockstep/core/calendar"
	"lockstep/core/schedule"
	"lockstep/core/words"
)

// CheckScheduled finds what jobs of a schedule cannot have, which are submitted again and again: secrets, and dependencies on jobs that
// exist now. The error is Mistakes.
func (s Submission) CheckScheduled() error {
	var m Mistakes
	for _, job := range s.Jobs {
		for _, op := range job.ops {
			for _, key := range op.Keys {
				if jobs.SecretParameter(key.Name) {
					m.addf(key.At, "a schedule takes no secrets, since they are never on a disk: let the command read them from a file of its own")
				}
			}
		}
		if job.at != nil || job.delay != nil {
			m.addf(job.At, `a job of a schedule has no "at" and no "delay": it starts at the due times of the schedule`)
		}
		if job.depends == nil {
			continue
		}
		for i, entry := range job.depends.Values {
			existing := slices.ContainsFunc(job.named, func(n namedEntry) bool { return n.index == i })
			if len(entry.Values) > 0 && entry.Values[0].Kind == doctree.Scalar {
				id, err := strconv.ParseInt(fmt.Sprint(entry.Values[0].Scalar), 10, 64)
				existing = existing || err == nil && id > 0
			}
			if existing {
				m.addf(entry.At, "a job of a schedule can only come after earlier jobs of the same due time, not after a job that exists now")
			}
		}
	}
	return s.secrets.redact(m.err())
}

// ScheduledJobs are the jobs for the definition of a schedule. Equal files give equal jobs.
func (s Submission) ScheduledJobs() ([]schedule.Job, error) {
	encoded, err := s.Encode(client.Trails{})
	if err != nil {
		return nil, err
	}
	all := make([]schedule.Job, len(encoded))
	for i, ops := range encoded {
		all[i] = schedule.Job{Ops: ops, Name: s.Jobs[i].Name}
	}
	return all, nil
}

// Schedule is a schedule of a file.
type Schedule struct {
	At         doctree.Position
	Definition schedule.Definition // complete
	As         string              // the account to which it belongs; "": the caller's
	Jobs       Submission
}

// ScheduleFields are the keys of a schedule in a file.
func ScheduleFields() []Field {
	return []Field{
		{"name", "the name of the schedule, which its jobs have, too"},
		{"cron", "a cron expression, in quotes"},
		{"tz", "the time zone of cron, like Europe/Berlin; without it that of the machine where the file is applied"},
		{"every", "in place of cron a period, like 90m"},
		{"overlap", "what happens while jobs of former due times have not ended: skip, queue, replace or allow"},
		{"catch_up", "what happens to due times that were missed: none, last or all"},
		{"catch_up_within", "older ones are not made up for: a duration, 1d without it"},
		{"jitter", "a delay below this duration, which the name of the schedule decides"},
		{"as", "the account as which its jobs run; it needs the role admin. Without it: who applies the file"},
		{"job", "one job, as in a file of jobs"},
		{"jobs", "in place of job several jobs, as in a file of jobs"},
	}
}

// ParseSchedules reads the content of the file of schedules called name. directory is where commands run without a "cwd", zone is the zone
// of expressions without a "tz". The error is Mistakes.
func ParseSchedules(name, directory string, data []byte, zone func() (string, error)) ([]Schedule, error) {
	r := newReader(directory)
	root, ok := r.file(name, data)
	if !ok {
		return nil, r.err()
	}
	hidden := secretsIn(root)
	list, given := root.Field("schedules")
	for _, key := range root.Keys {
		if key.Name != "schedules" {
			r.addf(key.At, `unknown key %q; a file of schedules has "schedules", a list`, key.Name)
		}
	}
	switch {
	case !given && len(root.Keys) == 0:
		r.wrong(root, `a file of schedules has the key "schedules", a list; this is %s`, root.Describe())
	case given && list.Kind != doctree.List:
		r.wrong(list, "schedules are a list, not %s", list.Describe())
	}
	all := make([]Schedule, len(list.Values))
	first := map[string]doctree.Position{}
	for i, one := range list.Values {
		all[i] = r.schedule(one, hidden, zone)
		name := all[i].Definition.Name
		if at, twice := first[name]; twice && name != "" {
			r.addf(one.At, "the schedule %q is in line %d, too", name, at.Line)
		}
		first[name] = one.At
	}
	return all, hidden.redact(r.err())
}

func (r *reader) schedule(from doctree.Node, hidden secrets, zone func() (string, error)) Schedule {
	s := Schedule{At: from.At}
	if from.Kind != doctree.Object {
		r.wrong(from, "a schedule is an object, not %s", from.Describe())
		return s
	}
	before := len(r.Mistakes)
	d := &s.Definition
	for i, key := range from.Keys {
		value := from.Values[i]
		switch key.Name {
		case "name":
			d.Name = r.textOf(value, "name")
			if err := schedule.CheckName(d.Name); err != nil && value.Kind == doctree.Scalar {
				r.addf(value.At, "%v", err)
			}
		case "cron":
			d.Cron = r.textOf(value, "cron")
			if _, err := calendar.ParseCron(d.Cron, time.UTC); err != nil && value.Kind == doctree.Scalar {
				r.addf(value.At, "%v", err)
			}
		case "tz":
			d.Zone = r.textOf(value, "tz")
			if _, err := calendar.LoadZone(d.Zone); err != nil && value.Kind == doctree.Scalar {
				r.addf(value.At, "%v", err)
			}
		case "every":
			d.EveryUs = r.microseconds(value, "every")
		case "overlap":
			d.Overlap = schedule.Overlap(r.textOf(value, "overlap"))
		case "catch_up":
			d.CatchUp = schedule.CatchUp(r.textOf(value, "catch_up"))
		case "catch_up_within":
			d.WithinUs = r.microseconds(value, "catch_up_within")
		case "jitter":
			d.JitterUs = r.microseconds(value, "jitter")
		case "as":
			s.As = r.textOf(value, "as")
		case "job", "jobs":
			r.scheduledJobs(&s, key, value, hidden)
		default:
			r.addf(key.At, "unknown key %q of a schedule%s", key.Name,
				didYouMean(key.Name, names(ScheduleFields()), "; it has "+strings.Join(names(ScheduleFields()), ", ")))
		}
	}
	if len(r.Mistakes) == before {
		r.complete(&s, zone)
	}
	return s
}

// complete encodes the jobs, fills in defaults, and checks what no single key says.
func (r *reader) complete(s *Schedule, zone func() (string, error)) {
	d := &s.Definition
	var err error
	if d.Cron != "" && d.Zone == "" {
		d.Zone, err = zone()
	}
	switch {
	case d.Name == "":
		err = fmt.Errorf(`the schedule has no "name"`)
	case len(s.Jobs.Jobs) == 0:
		err = fmt.Errorf(`the schedule has no "job", and no "jobs"`)
	case err == nil:
		if d.Jobs, err = s.Jobs.ScheduledJobs(); err == nil {
			err = d.Complete(calendar.LoadZone)
		}
	}
	if err != nil {
		r.addf(s.At, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// textOf reads a text, "" after a mistake.
func (r *reader) textOf(value doctree.Node, key string) string {
	text, _ := r.text(value, key).Scalar.(string)
	return text
}

func (r *reader) microseconds(value doctree.Node, key string) int64 {
	d, err := words.ParseDuration(r.textOf(value, key))
	switch {
	case value.Kind != doctree.Scalar || value.Scalar == nil: // reported
	case err != nil:
		r.addf(value.At, "%s: %v", key, err)
	}
	return d.Microseconds()
}

// scheduledJobs reads the key "job" or "jobs" of a schedule.
func (r *reader) scheduledJobs(s *Schedule, key doctree.Key, value doctree.Node, hidden secrets) {
	list := value
	switch {
	case s.Jobs.Jobs != nil:
		r.addf(key.At, `the schedule has "job" and "jobs"; it can have one of them`)
		return
	case key.Name == "job":
		list = doctree.Node{Kind: doctree.List, At: value.At, Values: []doctree.Node{value}}
	case value.Kind != doctree.List:
		r.wrong(value, "jobs are a list, not %s", value.Describe())
		return
	}
	r.read = 0
	r.expect(list.Values)
	s.Jobs.secrets = hidden
	for _, one := range list.Values {
		s.Jobs.Jobs = append(s.Jobs.Jobs, r.next(one))
	}
	r.add(s.Jobs.CheckScheduled())
}
