package rapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"lockstep/core/job"
	"lockstep/core/wire"
)

// waitOnceSeconds is how long a call waits for a change of a job. The job may need several calls.
const waitOnceSeconds = 20

// operatingSystems submits a job that looks for operating systems, waits for its end, and returns their names with variants.
func (s *Server) operatingSystems(c *call) (any, error) {
	op := jsonObject{opIDKey: raw(`"OP_OS_DIAGNOSE"`), "output_fields": raw(`["name","variants"]`), "names": raw("[]"),
		"reason": c.reasonTrail(nil, librarySource+"os", "")}
	var id int64
	if err := s.luxiInto(c, &id, "SubmitJob", []jsonObject{op}); err != nil {
		return nil, err
	}
	result, err := s.awaitResult(c, id)
	if err != nil {
		return nil, err
	}
	var found []raw
	if json.Unmarshal(result, &found) != nil {
		return nil, newFailure(http.StatusBadGateway, "Can't get OS list")
	}
	names := []string{}
	for _, each := range found {
		var name string
		var variants []string
		if err := json.Unmarshal(each, &[]any{&name, &variants}); err != nil {
			return nil, &wire.MalformedResponse{Err: err}
		}
		if len(variants) == 0 {
			names = append(names, name)
		}
		for _, variant := range variants {
			names = append(names, name+"+"+variant)
		}
	}
	return names, nil
}

// awaitResult waits for the end of a job of one opcode and returns its result. If the client leaves, the job is canceled.
func (s *Server) awaitResult(c *call, id int64) (raw, error) {
	previous := any(nil)
	for {
		change, err := s.callUntilStop(c, "WaitForJobChange", id, []string{"status"}, previous, nil, waitOnceSeconds)
		switch {
		case c.Context().Err() != nil:
			ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
			defer cancel()
			_, _ = s.config.Luxi.Call(ctx, Short, "CancelJob", id, false) // a job that cannot be canceled ends by itself
			return nil, c.Context().Err()
		case err != nil:
			return nil, err
		case change == nil:
			return nil, &Failure{Code: http.StatusServiceUnavailable, Message: "The server stops", RetryAfter: 1}
		case string(change) == `"nochange"`:
			continue
		}
		var states []string
		if err := json.Unmarshal(change, &[]any{&states, new(raw)}); err != nil || len(states) != 1 {
			return nil, &wire.MalformedResponse{Err: errors.New("a change of a job has no status")}
		}
		if status, known := job.ParseStatus(states[0]); known && status.Final() {
			return s.resultOf(c, id)
		}
		previous = states
	}
}

func (s *Server) resultOf(c *call, id int64) (raw, error) {
	var rows [][]raw
	if err := s.luxiInto(c, &rows, "QueryJobs", []int64{id}, []string{"status", "opresult"}); err != nil {
		return nil, err
	}
	var results []raw
	if len(rows) != 1 || len(rows[0]) != 2 || json.Unmarshal(rows[0][1], &results) != nil || len(results) != 1 {
		return nil, &wire.MalformedResponse{Err: errors.New("the answer is not one job with the result of one opcode")}
	}
	if string(rows[0][0]) != `"success"` {
		return nil, newFailure(http.StatusInternalServerError, "Job %d has not succeeded: %s", id, results[0])
	}
	return results[0], nil
}
