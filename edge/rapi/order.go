package rapi

import (
	"encoding/json"
	"math"

	"lockstep/core/wire"
)

// nextJobsDefault is the number of jobs in an answer without the argument limit.
const nextJobsDefault = 20

// nextJobs is the answer about the jobs that start next. The values are as the daemon sends them.
type nextJobs struct {
	Jobs     []map[string]raw `json:"jobs"`
	Examined raw              `json:"examined"`
	More     raw              `json:"more"`
	Order    raw              `json:"order"`
	Preview  raw              `json:"preview,omitempty"`
}

// jobEstimates is the answer about expected starts and ends.
type jobEstimates struct {
	Jobs    []raw `json:"jobs"`
	Order   raw   `json:"order"`
	Preview raw   `json:"preview"`
}

// order returns the jobs that start next, each with its estimate. With the argument high it adds what would change if
// that job had high priority.
func (s *Server) order(c *call) (any, error) {
	values := c.URL.Query()
	limit, err := numberArgument(values, argumentLimit, 100)
	if err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = nextJobsDefault
	}
	high, err := numberArgument(values, argumentHigh, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	next, estimates := nextJobs{}, jobEstimates{}
	if err := s.luxiInto(c, &next, "LockstepNextJobs", limit); err != nil {
		return nil, err
	}
	ids := []raw{}
	for _, j := range next.Jobs {
		ids = append(ids, j["id"])
	}
	var preview any
	if high != 0 {
		preview = high
	}
	if err := s.luxiInto(c, &estimates, "LockstepOrder", ids, preview); err != nil {
		return nil, err
	}
	next.Order, next.Preview = estimates.Order, estimates.Preview
	if err := addEstimates(next.Jobs, estimates.Jobs); err != nil {
		return nil, err
	}
	return withTimes(json.Marshal(next))
}

// addEstimates adds to each job its estimate, if it has one.
func addEstimates(jobs []map[string]raw, estimates []raw) error {
	byID := map[string]raw{}
	for _, e := range estimates {
		var of struct {
			ID raw `json:"id"`
		}
		if err := json.Unmarshal(e, &of); err != nil {
			return &wire.MalformedResponse{Err: err}
		}
		byID[string(of.ID)] = e
	}
	for _, j := range jobs {
		if e, known := byID[string(j["id"])]; known {
			j["estimate"] = e
		}
	}
	return nil
}
