package rapi

import (
	"math"
	"net/http"
	"net/url"
	"time"

	"lockstep/core/audit"
)

// Arguments of the audit log that lists of jobs do not have.
const (
	argumentBefore = "before"
	argumentAfter  = "after"
)

// audit returns entries of the audit log: the newest, those before a number, or the first after a number.
func (s *Server) audit(c *call) (any, error) {
	q, err := AuditQuery(c.URL.Query())
	if err != nil {
		return nil, err
	}
	return s.luxi(c, Short, "LockstepAudit", q)
}

// AuditQuery reads the query arguments of the audit log. The error is a *Failure.
func AuditQuery(values url.Values) (q audit.Query, err error) {
	q.User = values.Get(argumentUser)
	sinceUS, err := sinceArgument(values.Get(argumentSince))
	if err != nil {
		return q, err
	}
	if sinceUS != 0 {
		q.Since = time.UnixMicro(sinceUS).UTC()
	}
	limit, err := numberArgument(values, argumentLimit, audit.LimitMax)
	if err != nil {
		return q, err
	}
	q.Limit = int(limit)
	before, err := numberArgument(values, argumentBefore, math.MaxInt64)
	if err != nil {
		return q, err
	}
	q.Before = uint64(before)
	if values.Has(argumentAfter) {
		after, err := numberArgument(values, argumentAfter, math.MaxInt64-1)
		if err != nil {
			return q, err
		}
		if before != 0 {
			return q, newFailure(http.StatusBadRequest, "The arguments 'before' and 'after' exclude each other")
		}
		n := uint64(after)
		q.After = &n
	}
	return q, nil
}
