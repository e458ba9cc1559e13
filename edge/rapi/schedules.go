package rapi

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"time"

	"lockstep/core/answer"
	"lockstep/core/schedule"
	"lockstep/core/wire"
	"lockstep/edge/tlsserver"
)

// Bounds of a page of schedules.
const (
	schedulesDefault = 200 // without the argument limit
	schedulesMax     = 1000
)

// SchedulesPage selects a page of the schedules, for LockstepSchedules.
type SchedulesPage struct {
	Search string `json:"search"` // a part of the name
	After  string `json:"after"`  // the last name of the page before
	Limit  int64  `json:"limit"`
}

// SchedulesQuery reads the query arguments of a list of schedules. The error is a *Failure.
func SchedulesQuery(values url.Values) (p SchedulesPage, err error) {
	p.Search, p.After = values.Get(argumentSearch), values.Get(argumentCursor)
	if p.Limit, err = numberArgument(values, argumentLimit, schedulesMax); p.Limit == 0 {
		p.Limit = schedulesDefault
	}
	if max(len(p.Search), len(p.After)) > schedule.NameMax {
		return p, newFailure(http.StatusBadRequest, "The name of a schedule has at most %d characters", schedule.NameMax)
	}
	return p, err
}

// schedules returns a page of the schedules by name, and the path of the next one.
func (s *Server) schedules(c *call) (any, error) {
	page, err := SchedulesQuery(c.URL.Query())
	if err != nil {
		return nil, err
	}
	result, err := s.luxi(c, Page, "LockstepSchedules", nil, page)
	return rendered(func() (any, error) { return schedulesWithNext(result, c.URL) }), err
}

// schedulesWithNext is the page of an answer, with the path of the next one; null: there is none.
func schedulesWithNext(result raw, of *url.URL) (any, error) {
	var page answer.Schedules
	if err := json.Unmarshal(result, &page); err != nil {
		return nil, &wire.MalformedResponse{Err: err}
	}
	list := map[string]any{"schedules": page.Schedules, "next": nil}
	if n := len(page.Schedules); page.More && n > 0 {
		values := of.Query()
		values.Set(argumentCursor, page.Schedules[n-1].Name)
		list["next"] = "/3/schedules?" + values.Encode()
	}
	data, err := encode(list)
	if err != nil {
		return nil, err
	}
	return decodeWithTimes(data)
}

// schedule returns the schedule in the path with its jobs, its next times and its history.
func (s *Server) schedule(c *call) (any, error) {
	var all answer.Schedules
	if err := s.luxiInto(c, &all, "LockstepSchedules", c.params["name"]); err != nil {
		return nil, asScheduleError(err)
	}
	if len(all.Schedules) != 1 {
		return nil, &wire.MalformedResponse{Err: errors.New("the answer about a schedule is not one schedule")}
	}
	return withTimes(encode(struct {
		answer.Schedule
		ZoneData string `json:"zone_data"`
	}{all.Schedules[0], all.ZoneData}))
}

// asScheduleError maps an unknown schedule to 404, and other errors as those of a submission.
func asScheduleError(err error) error {
	if isUnknownEntity(err) {
		return newFailure(http.StatusNotFound, "%s", err)
	}
	return asClientError(err)
}

// putSchedule makes the schedule in the path be as the body says. With If-None-Match: * it must not exist.
func (s *Server) putSchedule(c *call) (any, error) {
	d, err := s.definition(c)
	if err != nil {
		return nil, err
	}
	anew := c.Request.Header.Get("If-None-Match")
	if anew != "" && anew != "*" {
		return nil, newFailure(http.StatusBadRequest, "The header If-None-Match of a schedule is *, if it is there: the schedule must not exist")
	}
	result, err := s.luxi(c, Long, "LockstepPutSchedule", d, map[string]bool{"replace": anew == ""})
	return result, asScheduleError(err)
}

// definition is the schedule in the body. Its durations are seconds, as in answers.
func (s *Server) definition(c *call) (d map[string]any, err error) {
	m, err := parseObject(c.body)
	if err != nil {
		return nil, err
	}
	keys := []string{"name", "cron", "tz", "every", "overlap", "catch_up", "catch_up_within", "jitter", "jobs"}
	if err := m.allowOnly(keys...); err != nil {
		return nil, err
	}
	name := quoteJSON(c.params["name"])
	if given := m["name"]; given != nil && string(given) != string(name) {
		return nil, newFailure(http.StatusBadRequest, "The name in the body is not %s, which the path has", name)
	}
	d = map[string]any{"name": name}
	for _, key := range []string{"cron", "tz", "overlap", "catch_up"} {
		if given := m.nullable(key); given != nil {
			d[key] = given
		}
	}
	for _, key := range []string{"every", "catch_up_within", "jitter"} {
		if given := m.nullable(key); given != nil {
			if d[key+"_us"], err = microseconds(key, given); err != nil {
				return nil, err
			}
		}
	}
	d["jobs"], err = s.scheduledJobs(c, m["jobs"])
	return d, err
}

// microseconds decodes a number of seconds, which is the value of a parameter. The error, for the client, has its name.
func microseconds(name string, value raw) (int64, error) {
	var seconds float64
	us := math.NaN()
	if json.Unmarshal(value, &seconds) == nil {
		us = math.Round(seconds * 1e6)
	}
	if !(math.Abs(us) < 1<<62) { // not a number, too
		return 0, newFailure(http.StatusBadRequest, "The '%s' parameter should be a number of seconds", name)
	}
	return int64(us), nil
}

// scheduledJob is a job of a definition.
type scheduledJob struct {
	Ops  []jsonObject `json:"ops"`
	Name raw          `json:"name,omitempty"` // nil: that of the schedule
}

// scheduledJobs checks the jobs of a schedule, each a list of opcodes or an object with "ops" and "name". They get no entry in their reason
// trails: a due time is no request.
func (s *Server) scheduledJobs(c *call, list raw) ([]scheduledJob, error) {
	drafts, err := readJobs(list)
	if err != nil {
		return nil, err
	}
	jobs := make([]scheduledJob, len(drafts))
	for i, draft := range drafts {
		if draft.at != nil {
			return nil, newFailure(http.StatusBadRequest, "A job of a schedule has no time 'at': the schedule says when it is submitted")
		}
		if jobs[i].Ops, err = s.checkOps(c, draft.ops); err != nil {
			return nil, err
		}
		jobs[i].Name = draft.name
	}
	return jobs, nil
}

// orderSchedule gives an order for the schedule in the path. until is the end of a pause, in seconds since 1970, or nil.
func (s *Server) orderSchedule(c *call, order string, until any) (raw, error) {
	result, err := s.luxi(c, Long, "LockstepOrderSchedule", c.params["name"], order, until)
	return result, asScheduleError(err)
}

// removeSchedule removes a schedule. Jobs that exist stay.
func (s *Server) removeSchedule(c *call) (any, error) { return s.orderSchedule(c, "remove", nil) }

// resumeSchedule lets a schedule go on from now.
func (s *Server) resumeSchedule(c *call) (any, error) { return s.orderSchedule(c, "resume", nil) }

// runSchedule submits the jobs of a schedule now.
func (s *Server) runSchedule(c *call) (any, error) {
	result, err := s.orderSchedule(c, "run", nil)
	if err != nil {
		return nil, err
	}
	var changed answer.ScheduleChanged
	if err := json.Unmarshal(result, &changed); err != nil {
		return nil, &wire.MalformedResponse{Err: err}
	}
	return created{createdJobs(changed.Jobs).location, result}, nil
}

// pauseSchedule lets a schedule rest until it is resumed, or until the time in the body.
func (s *Server) pauseSchedule(c *call) (any, error) {
	if c.body == nil {
		return s.orderSchedule(c, "pause", nil)
	}
	m, err := parseObject(c.body)
	if err == nil {
		err = m.allowOnly("until")
	}
	if err != nil {
		return nil, err
	}
	given := m.nullable("until")
	if given == nil {
		return s.orderSchedule(c, "pause", nil)
	}
	var text string
	if json.Unmarshal(given, &text) != nil {
		return nil, newFailure(http.StatusBadRequest, "The parameter 'until' should be a time in RFC 3339")
	}
	until, err := PauseEnd(text, time.Now())
	if err != nil {
		return nil, err
	}
	return s.orderSchedule(c, "pause", until)
}

// PauseEnd reads the end of a pause, which is in RFC 3339, for LockstepOrderSchedule: in seconds since 1970. The error is a *Failure.
func PauseEnd(text string, now time.Time) (float64, error) {
	until, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return 0, newFailure(http.StatusBadRequest, "The end of a pause is a time in RFC 3339 like 2026-12-01T03:00:00+01:00, not '%s'",
			tlsserver.Truncated(text))
	case !until.After(now):
		return 0, newFailure(http.StatusBadRequest, "The end of the pause has passed")
	case until.After(now.AddDate(10, 0, 0)):
		return 0, newFailure(http.StatusBadRequest, "A pause ends within ten years")
	}
	return float64(until.UnixMicro()) / 1e6, nil
}
