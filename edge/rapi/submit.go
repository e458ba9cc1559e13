package rapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"lockstep/core/job"
	"lockstep/core/wire"
	"lockstep/messages"
)

// Sources of entries in reason trails (queue.md 3.6).
const (
	userSource    = "gnt:user"
	librarySource = "gnt:library:rlib2:"
)

// Names of opcodes.
const (
	opIDKey      = "OP_ID"
	opRunCommand = "OP_RUN_COMMAND"
)

// redistributeConfig submits Ganeti's job of that name. The answer is its id.
func (s *Server) redistributeConfig(c *call) (any, error) {
	return s.submitOne(c, "OP_CLUSTER_REDIST_CONF", "redist_config", jsonObject{})
}

// modify submits a job that changes parameters of the cluster. The answer is its id.
func (s *Server) modify(c *call) (any, error) {
	m, err := parseObject(c.body)
	if err != nil {
		return nil, err
	}
	if _, given := m["compression_tools"]; given {
		// Their values are commands, which Ganeti's RAPI does not accept either.
		return nil, newFailure(http.StatusForbidden, "The parameter 'compression_tools' can not be set over the remote API")
	}
	return s.submitOne(c, "OP_CLUSTER_SET_PARAMS", "cluster_modify", m)
}

// submitOne submits a job of one opcode, whose parameters are the body if params is empty. The answer is the id of the job.
func (s *Server) submitOne(c *call, opcode, handler string, params jsonObject) (any, error) {
	if len(params) == 0 && c.body != nil && string(c.body) != "null" {
		var err error
		if params, err = parseObject(c.body); err != nil {
			return nil, err
		}
	}
	for _, key := range []string{opIDKey, "reason"} {
		if _, given := params[key]; given {
			return nil, newFailure(http.StatusBadRequest, "Invalid body parameters: there is no parameter '%s'", key)
		}
	}
	params[opIDKey] = quoteJSON(opcode)
	params["reason"] = c.reasonTrail(nil, librarySource+handler, "")
	id, err := s.luxi(c, Short, "SubmitJob", []jsonObject{params})
	return id, asClientError(err)
}

// isReserved reports whether an entry of a client's reason trail has a source that only the daemon writes.
func isReserved(entry raw) bool {
	var parts []raw
	var source string
	return json.Unmarshal(entry, &parts) == nil &&
		len(parts) > 0 &&
		json.Unmarshal(parts[0], &source) == nil &&
		(source == job.RemoteSource || source == job.UserSource)
}

// reasonTrail returns a reason trail: the entries before, the reason in the query, and an entry for the remote API. Another entry names
// the user, if that entry does not.
func (c *call) reasonTrail(before []raw, source, text string) raw {
	now := time.Now().UnixNano()
	entries := before
	if reason := c.URL.Query().Get("reason"); reason != "" {
		entries = append(entries, reasonEntry(userSource, reason, now))
	}
	entries = append(entries, reasonEntry(source, text, now))
	if source != job.RemoteSource {
		entries = append(entries, reasonEntry(job.RemoteSource, "user="+c.user.Name(), now))
	}
	data, err := json.Marshal(entries)
	if err != nil {
		panic(fmt.Errorf("a reason trail cannot be encoded: %w", err)) // JSON and strings can be encoded
	}
	return data
}

func reasonEntry(source, text string, now int64) raw {
	return fmt.Appendf(nil, "[%s, %s, %d]", quoteJSON(source), quoteJSON(text), now)
}

func quoteJSON(s string) raw {
	data, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Errorf("a string cannot be encoded: %w", err))
	}
	return data
}

// asClientError maps a submission that LUXI cannot parse, or that no queue would accept, to a
// client's error.
func asClientError(err error) error {
	var refused *wire.RequestError
	if errors.As(err, &refused) {
		text := strings.TrimPrefix(refused.Text, "Failed to parse request: ")
		for _, method := range []string{"SubmitJob: ", "SubmitManyJobs: ", "LockstepSubmitJobs: ", "LockstepOrderJobs: ",
			"LockstepPutSchedule: ", "LockstepSchedules: "} {
			text = strings.TrimPrefix(text, method)
		}
		return newFailure(http.StatusBadRequest, "Invalid body parameters: %s", text)
	}
	var failed *wire.Error
	if errors.As(err, &failed) && failed.Class == "OpPrereqError" && !hasCode(err, messages.NotPermitted) {
		return newFailure(http.StatusBadRequest, "%s", failed)
	}
	return err
}

// submit submits jobs, all of them or none: {"ops": [opcode, ...], "name": text, "at": time} for one job,
// {"jobs": [[opcode, ...], ...]} for several, of which each may be an object with "ops", "name" and "at".
func (s *Server) submit(c *call) (any, error) {
	m, err := parseObject(c.body)
	if err != nil {
		return nil, err
	}
	if err := m.allowOnly("ops", "jobs", "name", "at"); err != nil {
		return nil, err
	}
	if (m["ops"] == nil) == (m["jobs"] == nil) {
		return nil, newFailure(http.StatusBadRequest, "Give either 'ops', the opcodes of one job, or 'jobs', a list of such lists")
	}
	for _, key := range []string{"name", "at"} {
		if m["jobs"] != nil && m[key] != nil {
			return nil, newFailure(http.StatusBadRequest, "Give '%s' beside the 'ops' of each job", key)
		}
	}
	jobs := []jobDraft{{ops: m["ops"], name: m["name"], at: m["at"]}}
	if m["jobs"] != nil {
		if jobs, err = readJobs(m["jobs"]); err != nil {
			return nil, err
		}
	}
	return s.submitJobs(c, jobs)
}

// jobDraft is one job of a submission.
type jobDraft struct {
	ops  raw
	name raw // nil: none
	at   raw // before which time it does not start; nil: it starts at once
}

func readJobs(list raw) ([]jobDraft, error) {
	var elements []raw
	if err := json.Unmarshal(list, &elements); err != nil {
		return nil, newFailure(http.StatusBadRequest, "The 'jobs' parameter should be a list")
	}
	jobs := make([]jobDraft, len(elements))
	for i, element := range elements {
		jobs[i].ops = element
		if len(element) == 0 || element[0] != '{' {
			continue
		}
		m, err := parseObject(element)
		if err == nil {
			err = m.allowOnly("ops", "name", "at")
		}
		if err != nil {
			return nil, err
		}
		jobs[i] = jobDraft{ops: m["ops"], name: m["name"], at: m["at"]}
	}
	return jobs, nil
}

// submitJobs submits jobs with Ganeti's call, or with lockstep's if a job has a name or a time. It returns their ids.
func (s *Server) submitJobs(c *call, jobs []jobDraft) (any, error) {
	type namedJob struct {
		Ops  []jsonObject `json:"ops"`
		Name raw          `json:"name,omitempty"`
		At   raw          `json:"at,omitempty"`
	}
	drafts, named, anyNamed := make([][]jsonObject, len(jobs)), make([]namedJob, len(jobs)), false
	for i, draft := range jobs {
		ops, err := s.checkOps(c, draft.ops)
		if err != nil {
			return nil, err
		}
		c.addTrails(ops)
		drafts[i], named[i] = ops, namedJob{ops, draft.name, draft.at}
		anyNamed = anyNamed || draft.name != nil || draft.at != nil
	}
	if anyNamed {
		var ids []int64
		if err := s.luxiInto(c, &ids, "LockstepSubmitJobs", named); err != nil {
			return nil, asClientError(err)
		}
		return createdJobs(ids), nil
	}
	var rows []raw
	if err := s.luxiInto(c, &rows, "SubmitManyJobs", drafts); err != nil {
		return nil, asClientError(err)
	}
	return submittedIDs(rows)
}

// submittedIDs returns the ids of new jobs. If only some jobs were recorded, the disk has failed,
// which is an error.
func submittedIDs(rows []raw) (any, error) {
	ids := make([]int64, len(rows))
	for i, row := range rows {
		var done bool
		var outcome raw
		if err := json.Unmarshal(row, &[]any{&done, &outcome}); err != nil {
			return nil, &wire.MalformedResponse{Err: err}
		}
		if !done || json.Unmarshal(outcome, &ids[i]) != nil {
			return nil, newFailure(
				http.StatusInternalServerError,
				"Job %d of %d was not recorded: %s; look at the list of jobs before you submit again",
				i+1,
				len(rows),
				outcome,
			)
		}
	}
	return createdJobs(ids), nil
}

func createdJobs(ids []int64) created {
	result := created{body: map[string][]int64{"ids": ids}}
	if len(ids) == 1 {
		result.location = fmt.Sprintf("/2/jobs/%d", ids[0])
	} else {
		result.location = "/2/jobs"
	}
	return result
}

// addTrails gives each opcode its reason trail.
func (c *call) addTrails(ops []jsonObject) {
	for _, m := range ops {
		var before []raw
		// LUXI reports a trail that is no list.
		if given := m.nullable("reason"); given == nil || json.Unmarshal(given, &before) == nil {
			m["reason"] = c.reasonTrail(slices.DeleteFunc(before, isReserved), job.RemoteSource, "user="+c.user.Name())
		}
	}
}

// checkOps checks the opcodes of a job. It passes on the parsed form and not the text, so that the queue sees exactly the checked opcodes.
// Errors are for the client.
func (s *Server) checkOps(c *call, ops raw) ([]jsonObject, error) {
	var each []raw
	if ops == nil || json.Unmarshal(ops, &each) != nil {
		return nil, newFailure(http.StatusBadRequest, "The opcodes of a job should be a list")
	}
	draft := make([]jsonObject, len(each))
	for i, op := range each {
		m, err := parseObject(op)
		if err != nil {
			return nil, newFailure(http.StatusBadRequest, "Invalid body parameters: opcode %d of a job: %s", i+1, err)
		}
		var name string
		if json.Unmarshal(m[opIDKey], &name) != nil {
			return nil, newFailure(http.StatusBadRequest, "Invalid body parameters: opcode %d of a job has no %s", i+1, opIDKey)
		}
		if problem := s.config.Commands.Problem(c.user); problem != "" && name == opRunCommand {
			return nil, newFailure(http.StatusForbidden, "%s", problem)
		}
		m[opIDKey] = quoteJSON(name)
		draft[i] = m
	}
	return draft, nil
}
