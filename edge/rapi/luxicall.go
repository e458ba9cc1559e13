package rapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"lockstep/core/wire"
	"lockstep/edge/tlsserver"
)

// luxi makes a call for a request. The call ends with the client's connection.
func (s *Server) luxi(c *call, class Class, method string, args ...any) (raw, error) {
	return s.config.Luxi.Call(c.callContext(), class, method, args...)
}

// luxiParts is luxi for a result that may be large.
func (s *Server) luxiParts(c *call, class Class, method string, args ...any) (parts, error) {
	return s.config.Luxi.CallParts(c.callContext(), class, method, args...)
}

// callContext is the context of a call for the request. Its caller is the user who has logged in.
func (c *call) callContext() context.Context {
	if c.user == "" {
		return c.Context()
	}
	return WithCaller(c.Context(), "user="+c.user+", from="+tlsserver.RemoteHost(c.Request))
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
