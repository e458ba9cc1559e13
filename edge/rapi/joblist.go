package rapi

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lockstep/core/answer"
	"lockstep/core/query"
	"lockstep/core/wire"
)

// The query arguments of a list of jobs.
const (
	argumentStatus   = "status"
	argumentName     = "name"
	argumentUser     = "user"
	argumentOpcode   = "opcode"
	argumentReason   = "reason"
	argumentSearch   = "search"
	argumentSince    = "since"
	argumentArchived = "archived"
	argumentLimit    = "limit"
	argumentCursor   = "cursor"
	argumentOrder    = "order"
	argumentHigh     = "high"
)

// Values of the argument order.
const (
	orderNewest = "newest"
	orderOldest = "oldest"
)

// JobsQuery reads the query arguments of a list of jobs. Each of status, name, user, opcode, reason and search may be repeated, and all but
// reason and search may have several values with commas; a job is selected if it matches one value of each. Its error is a *Failure.
func JobsQuery(values url.Values) (answer.JobPageRequest, error) {
	var r answer.JobPageRequest
	for name, into := range map[string]*[]string{argumentStatus: &r.Statuses, argumentName: &r.Names, argumentUser: &r.Users,
		argumentOpcode: &r.Opcodes} {
		for _, value := range values[name] {
			for part := range strings.SplitSeq(value, ",") {
				if part = strings.TrimSpace(part); part != "" {
					*into = append(*into, part)
				}
			}
		}
	}
	for _, text := range values[argumentReason] {
		if text != "" {
			r.Reasons = append(r.Reasons, text)
		}
	}
	for _, text := range values[argumentSearch] {
		if text = strings.TrimSpace(text); text != "" {
			r.Searches = append(r.Searches, text)
		}
	}
	var err error
	if r.SinceUS, err = sinceArgument(values.Get(argumentSince)); err != nil {
		return r, err
	}
	if r.Archived, err = boolArgument(values, argumentArchived); err != nil {
		return r, err
	}
	limit, err := numberArgument(values, argumentLimit, query.PageMax)
	if err != nil {
		return r, err
	}
	r.Limit = int(limit)
	if r.Cursor, err = numberArgument(values, argumentCursor, 1<<62); err != nil {
		return r, err
	}
	switch values.Get(argumentOrder) {
	case "", orderNewest:
	case orderOldest:
		r.OldestFirst = true
	default:
		return r, newFailure(http.StatusBadRequest, "The '%s' argument is %s or %s", argumentOrder, orderNewest, orderOldest)
	}
	if _, err := query.NewPage(r); err != nil {
		return r, newFailure(http.StatusBadRequest, "%s", err)
	}
	return r, nil
}

// sinceArgument reads a time in RFC 3339, or a number of seconds since 1970, and returns microseconds; 0 for an empty text.
func sinceArgument(text string) (us int64, err error) {
	if text == "" {
		return 0, nil
	}
	if seconds, err := strconv.ParseInt(text, 10, 40); err == nil && seconds >= 0 {
		return seconds * 1e6, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, newFailure(http.StatusBadRequest,
			"The '%s' argument is a time in RFC 3339, such as 2026-01-02T15:04:05Z, or seconds since 1970",
			argumentSince)
	}
	return at.UnixMicro(), nil
}

// numberArgument reads a number from 0 to limit in the query. It is 0 if the argument is absent.
func numberArgument(values url.Values, name string, limit int64) (int64, error) {
	text := values.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > limit {
		return 0, newFailure(http.StatusBadRequest, "The '%s' argument is a number from 0 to %d", name, limit)
	}
	return n, nil
}

func boolArgument(values url.Values, name string) (bool, error) {
	switch values.Get(name) {
	case "", "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	default:
		return false, newFailure(http.StatusBadRequest, "The '%s' argument is 0 or 1", name)
	}
}

// listJobs returns a page of jobs, and the path of the next one.
func (s *Server) listJobs(c *call) (any, error) {
	request, err := JobsQuery(c.URL.Query())
	if err != nil {
		return nil, err
	}
	answer, err := s.luxi(c, Page, "LockstepPageJobs", request)
	return rendered(func() (any, error) { return pageWithNext(answer, c.URL) }), err
}

// pageWithNext is the page of an answer, with the path of the next one; null: there is none. Times are in RFC 3339.
func pageWithNext(answer raw, of *url.URL) (any, error) {
	result, err := decodeWithTimes(answer)
	if err != nil {
		return nil, err
	}
	page, ok := result.(map[string]any)
	cursor, isNumber := page["cursor"].(json.Number)
	if !ok || !isNumber {
		return nil, &wire.MalformedResponse{Err: errNoCursor}
	}
	page["next"] = nil
	if cursor != "0" {
		values := of.Query()
		values.Set(argumentCursor, cursor.String())
		page["next"] = "/3/jobs?" + values.Encode()
	}
	return page, nil
}

// nodes returns the nodes of the cluster.
func (s *Server) nodes(c *call) (any, error) { return s.luxi(c, Short, "LockstepNodes") }

// promote makes the node in the path the master.
func (s *Server) promote(c *call) (any, error) {
	return s.luxi(c, Long, "LockstepNodePromote", c.params["node"])
}

// opcodes returns the catalogue of opcodes.
func (s *Server) opcodes(c *call) (any, error) { return s.luxi(c, Short, "LockstepOpcodes") }

// archive archives a job that has ended. The answer is false for a job that has not, or that is not in the queue.
func (s *Server) archive(c *call) (any, error) {
	id, err := c.jobID()
	if err != nil {
		return nil, err
	}
	return s.luxi(c, Short, "ArchiveJob", id)
}

// kill ends a job, also its running command.
func (s *Server) kill(c *call) (any, error) {
	id, err := c.jobID()
	if err != nil {
		return nil, err
	}
	return s.luxi(c, Long, "CancelJob", id, true)
}

// changeSettings changes the settings in the body; null restores a default. It returns all settings after the change.
func (s *Server) changeSettings(c *call) (any, error) {
	m, err := parseObject(c.body)
	if err != nil {
		return nil, err
	}
	result, err := s.luxi(c, Short, "LockstepSetSettings", m)
	return result, asClientError(err)
}

// drain sets whether the queue refuses new jobs.
func (s *Server) drain(c *call) (any, error) {
	m, err := parseObject(c.body)
	if err != nil {
		return nil, err
	}
	if err := m.allowOnly("drained"); err != nil {
		return nil, err
	}
	var drained *bool
	if json.Unmarshal(m["drained"], &drained) != nil || drained == nil {
		return nil, newFailure(http.StatusBadRequest, "The 'drained' parameter should be true or false")
	}
	return s.luxi(c, Short, "SetDrainFlag", *drained)
}

// testFilter returns what a rule would decide about now. The body is as for a new rule, with an optional uuid of the
// rule that it would replace.
func (s *Server) testFilter(c *call) (any, error) {
	m, err := parseObject(c.body)
	if err != nil {
		return nil, err
	}
	uuid := raw("null")
	if given := m.nullable("uuid"); given != nil {
		uuid = given
	}
	delete(m, "uuid")
	rule, err := ruleParts(m)
	if err != nil {
		return nil, err
	}
	args := []any{uuid, rule["priority"], rule["predicates"], rule["action"], rule["reason"]}
	if string(rule["for"]) != "null" {
		args = append(args, rule["for"])
	}
	result, err := s.luxi(c, Preview, "LockstepTestFilter", args...)
	return result, asClientError(err)
}
