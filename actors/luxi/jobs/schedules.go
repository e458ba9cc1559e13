package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/calendar"
	"lockstep/actors/conn"
	"lockstep/actors/luxi/call"
	"lockstep/core/access"
	"lockstep/core/answer"
	rules "lockstep/core/calendar"
	"lockstep/core/drafts"
	"lockstep/core/record"
	"lockstep/core/replication"
	"lockstep/core/schedule"
	"lockstep/core/wire"
	"lockstep/messages"
)

// schedulesPage selects a page of all schedules. A field that is null or absent selects nothing.
type schedulesPage struct {
	Search string `json:"search"` // a part of the name
	After  string `json:"after"`  // the last name of the page before
	Limit  int    `json:"limit"`  // 0: none
}

// lockstepSchedules takes [name], [null] for all, or [null, page]. The answer is an answer.Schedules. With a name the schedule has its
// jobs, its next due times and its history.
func lockstepSchedules(c *request, ctx actor.Context, args []json.RawMessage) error {
	var name *string
	var page schedulesPage
	into := []any{&name}
	if len(args) > 1 {
		into = append(into, &page)
	}
	if err := wire.Arguments(args, into...); err != nil {
		return fmt.Errorf("LockstepSchedules: %w", err)
	}
	if page.Limit < 0 {
		return fmt.Errorf("LockstepSchedules: a page has a limit of at least 1, not %d", page.Limit)
	}
	list := calendar.List{Search: page.Search, After: page.After, Limit: page.Limit}
	if name != nil {
		list = calendar.List{Name: *name}
	}
	q := conn.Question{To: c.Config.Calendar, LostBy: conn.QueueRestart,
		Message: func(number uint64) any {
			asked := list
			asked.Request = number
			return &asked
		}}
	call.Ask(c.Call, ctx, q, func(ctx actor.Context, a *calendar.ListResult) {
		if name != nil && len(a.Schedules) == 0 {
			c.Fail(ctx, messages.PrereqFailure(messages.UnknownEntity, fmt.Sprintf("There is no schedule %s: see lockstep schedule list", *name)))
			return
		}
		all := answer.Schedules{Schedules: []answer.Schedule{}, More: a.More}
		for _, shown := range a.Schedules {
			s := scheduleOf(shown)
			if name != nil {
				addDetails(&s, shown)
				if data := c.Config.About.ZoneData; data != nil && s.Zone != "" {
					all.ZoneData = data(s.Zone)
				}
			}
			all.Schedules = append(all.Schedules, s)
		}
		c.Succeed(ctx, all)
	})
	return nil
}

func scheduleOf(shown calendar.Shown) answer.Schedule {
	f := shown.File
	seconds := func(us int64) float64 { return float64(us) / 1e6 }
	s := answer.Schedule{Name: f.Name, Cron: f.Cron, EverySecs: seconds(f.EveryUs), Zone: f.Zone,
		Overlap: string(f.Overlap), CatchUp: string(f.CatchUp), WithinSecs: seconds(f.WithinUs), JitterSecs: seconds(f.JitterUs),
		State: string(shown.State), Why: shown.Why, Failing: shown.Failing, Owner: f.By, OwnerKey: f.Owner.Key(),
		MadeBy: cmp.Or(f.Maker, f.By), Next: answer.Time{Time: shown.Next},
		Running: append([]int64{}, f.Open...), Missed: f.Missed, Success: answer.TimeOf(f.SuccessUs)}
	if f.EveryUs > 0 {
		s.Anchor = answer.TimeOf(f.AnchorUs)
	}
	if shown.State == schedule.StatePaused {
		s.Until = answer.TimeOf(f.UntilUs)
	}
	if len(f.History) > 0 {
		last := entryOf(f.History[len(f.History)-1])
		s.Last = &last
	}
	if f.LastEnd != nil {
		s.LastEnd = &answer.ScheduleEnded{Job: f.LastEnd.Job, End: answer.TimeOf(f.LastEnd.AtUs), Result: f.LastEnd.Result}
	}
	return s
}

// upcomingMax is the number of due times in the answer about one schedule.
const upcomingMax = 5

func addDetails(s *answer.Schedule, shown calendar.Shown) {
	f := shown.File
	for _, due := range f.Upcoming(shown.Next, rules.LoadZone, upcomingMax) {
		s.Upcoming = append(s.Upcoming, answer.ScheduleEntry{Due: answer.Time{Time: due}})
	}
	for _, j := range f.Jobs {
		shown := answer.ScheduleJob{Name: j.Name}
		for _, op := range j.Ops {
			shown.Ops = append(shown.Ops, op)
		}
		s.Jobs = append(s.Jobs, shown)
	}
	s.History = []answer.ScheduleEntry{}
	for _, e := range f.History {
		s.History = append(s.History, entryOf(e))
	}
}

func entryOf(e schedule.Entry) answer.ScheduleEntry {
	return answer.ScheduleEntry{Due: answer.TimeOf(e.DueUs), Jobs: e.Jobs, Missed: e.Missed, Skipped: e.Skipped, By: e.By}
}

// putOptions are the options of LockstepPutSchedule.
type putOptions struct {
	Replace bool `json:"replace"` // a schedule of that name may exist
	// As is the account to which the schedule belongs, in place of the client's; nil: the client's.
	As *access.Submitter `json:"as"`
}

// lockstepPutSchedule takes [definition, {"replace": bool, "as": account}]; a definition is a schedule.Definition. The answer is an
// answer.ScheduleChanged.
func lockstepPutSchedule(c *request, ctx actor.Context, args []json.RawMessage) error {
	var raw json.RawMessage
	var options putOptions
	if err := wire.Arguments(args, &raw, &options); err != nil {
		return fmt.Errorf("LockstepPutSchedule: %w", err)
	}
	var d schedule.Definition
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields() // a key of a later version would have no effect
	if err := decoder.Decode(&d); err != nil {
		return fmt.Errorf("LockstepPutSchedule: %w", err)
	}
	owner, by, err := c.scheduleOwner(options.As)
	if err != nil {
		return err
	}
	made, err := c.checkSchedule(&d)
	if err != nil {
		var refusal *access.Refusal
		if errors.As(err, &refusal) {
			return err
		}
		c.Fail(ctx, messages.PrereqFailure(messages.WrongInput, fmt.Sprintf("schedule %.80s: %v", d.Name, err)))
		return nil
	}
	needed, refusal := c.featuresOf(made, len(c.Config.Policy.SubmitterOf(owner)) > 0)
	if refusal != "" {
		c.Fail(ctx, messages.PrereqFailure(messages.WrongState, refusal))
		return nil
	}
	c.askAllKnown(ctx, append(needed, replication.Schedules), func(ctx actor.Context) {
		c.changeSchedule(ctx, calendar.Change{Name: d.Name, By: by, Put: &calendar.Put{Definition: d, Owner: owner,
			Maker: c.From.String(), Replace: options.Replace}})
	})
	return nil
}

// scheduleOwner is to whom a schedule of the client belongs.
func (c *request) scheduleOwner(as *access.Submitter) (owner access.Identity, by string, err error) {
	if as == nil {
		return c.From, c.From.String(), nil
	}
	if as.Name == "" || !access.IsUID(as.UID) || as.Remote != "" {
		return owner, "", errors.New("LockstepPutSchedule: as: want the name and the uid of an account")
	}
	owner = access.Identity{UID: as.UID, Login: access.NoUID, Name: as.Name}
	return owner, owner.String(), c.Config.Policy.Check(c.From, access.Need{Role: access.Admin, To: "run commands as another user"})
}

// checkSchedule completes a definition, and returns its jobs, or why it cannot be used. The error for what the client may not submit is an
// *access.Refusal.
func (c *request) checkSchedule(d *schedule.Definition) ([]*messages.JobDraft, error) {
	if err := d.Complete(rules.LoadZone); err != nil {
		return nil, err
	}
	ops := make([][]json.RawMessage, len(d.Jobs))
	for i, j := range d.Jobs {
		ops[i] = j.Ops
		if len(j.Ops) == 0 {
			return nil, errors.New("a job needs at least one opcode")
		}
		if err := record.CheckName(j.Name); j.Name != "" && err != nil {
			return nil, err
		}
	}
	made, mistakes, err := draftJobs(c.Call, ops, 1)
	if mistakes == nil && err == nil && c.Config.Distributor == nil {
		mistakes = cannotRun(c.Config.Catalogue, made)
	}
	switch {
	case mistakes != nil:
		return nil, errors.New(drafts.Placed(ops, mistakes[0]))
	case err != nil:
		return nil, err
	}
	for _, draft := range made {
		for _, op := range draft.Ops {
			if op.Secrets != nil {
				return nil, errors.New("a schedule takes no secrets, since they are never on a disk: let the command read them from a file of its own")
			}
		}
	}
	return made, nil
}

// scheduleOrders are the orders of LockstepOrderSchedule.
var scheduleOrders = map[string]calendar.Order{
	"pause": calendar.Pause, "resume": calendar.Resume, "run": calendar.Run, "remove": calendar.Remove,
}

// lockstepOrderSchedule takes [name, order, until]: until is when a pause ends, in seconds since 1970, or null. The answer is an
// answer.ScheduleChanged.
func lockstepOrderSchedule(c *request, ctx actor.Context, args []json.RawMessage) error {
	var name, order string
	var until *float64
	if err := wire.Arguments(args, &name, &order, &until); err != nil {
		return fmt.Errorf("LockstepOrderSchedule: %w", err)
	}
	kind := scheduleOrders[order]
	if kind == calendar.NoOrder {
		return fmt.Errorf("LockstepOrderSchedule: unknown order %.40q", order)
	}
	m := calendar.Change{Name: name, Order: kind, By: c.From.String()}
	if until != nil && kind == calendar.Pause {
		m.UntilUs = int64(*until * 1e6)
	}
	c.changeSchedule(ctx, m)
	return nil
}

// changeSchedule asks for a change, once: a second request could run the schedule twice.
func (c *request) changeSchedule(ctx actor.Context, m calendar.Change) {
	m.OnlyOf = c.onlyOf()
	q := conn.Question{To: c.Config.Calendar, LostBy: conn.QueueRestart, Once: m.Order == calendar.Run,
		Message: func(number uint64) any {
			asked := m
			asked.Request = number
			return &asked
		}}
	call.AskFallible(c.Call, ctx, q, func(ctx actor.Context, a *calendar.ChangeResult) {
		c.Succeed(ctx, answer.ScheduleChanged{Changed: a.Changed, Jobs: a.Jobs})
	})
}
