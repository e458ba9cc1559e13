package rapi

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"lockstep/core/wire"
	"lockstep/edge/tlsserver"
)

// luxi makes a call for a request. The call ends with the client's connection.
func (s *Server) luxi(c *call, class Class, method string, args ...any) (raw, error) {
	ctx, err := s.callContext(c, method)
	if err != nil {
		return nil, err
	}
	return s.config.Luxi.Call(ctx, class, method, args...)
}

// luxiParts is luxi for a result that may be large.
func (s *Server) luxiParts(c *call, class Class, method string, args ...any) (parts, error) {
	ctx, err := s.callContext(c, method)
	if err != nil {
		return nil, err
	}
	return s.config.Luxi.CallParts(ctx, class, method, args...)
}

// callContext is the context of a call for the request. Its caller is the user who has logged in; guests have none. The error of a
// submission, or of a schedule, is about the account as which the user's jobs run.
func (s *Server) callContext(c *call, method string) (context.Context, error) {
	if c.user.Name() == "" {
		return c.Context(), nil
	}
	from, err := c.user.Identity(), error(nil)
	if isSubmission(method) {
		from, err = s.config.Logins.Submitter(c.Context(), c.user)
	}
	return WithCaller(c.Context(), "user="+c.user.Name()+", from="+tlsserver.RemoteHost(c.Request), from), err
}

// isSubmission reports whether a method submits jobs, or defines those that a schedule submits.
func isSubmission(method string) bool {
	return slices.Contains([]string{"SubmitJob", "SubmitManyJobs", "LockstepSubmitJobs", "LockstepPutSchedule"}, method)
}

// luxiInto is luxi with the result decoded into result.
func (s *Server) luxiInto(c *call, result any, method string, args ...any) error {
	data, err := s.luxi(c, Short, method, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, result); err != nil {
		return &wire.MalformedResponse{Err: err}
	}
	return nil
}

// flagArgument reports whether a numeric query argument is not 0. An absent one is false; one that is no number is an error for the
// client.
func (c *call) flagArgument(name string) (bool, error) {
	values := c.URL.Query()[name]
	if len(values) == 0 {
		return false, nil
	}
	n, err := strconv.Atoi(values[0])
	if err != nil {
		return false, newFailure(http.StatusBadRequest, "Invalid value for the '%s' parameter", name)
	}
	return n != 0, nil
}

// jobID is the job id in the path. A number out of range is an unknown job.
func (c *call) jobID() (int64, error) {
	id, err := strconv.ParseInt(c.params["id"], 10, 64)
	if err != nil {
		return 0, &Failure{Code: http.StatusNotFound}
	}
	return id, nil
}

func (s *Server) emptyResult(*call) (any, error) { return nil, nil }
