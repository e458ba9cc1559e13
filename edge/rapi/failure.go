package rapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"lockstep/core/access"
	"lockstep/core/wire"
	"lockstep/edge/admission"
	"lockstep/edge/login"
	"lockstep/edge/luxiclient"
	"lockstep/messages"
)

// Failure is an answer with an error code (queue.md 6.3). Message is for users; if it is empty,
// the name of the code is sent.
type Failure struct {
	Code    int
	Message string
	// RetryAfter is the header Retry-After in seconds; 0: none.
	RetryAfter int
	// Allow is the header Allow; "": none.
	Allow string
}

func (f *Failure) Error() string { return f.message() }

func (f *Failure) message() string {
	if f.Message == "" {
		return http.StatusText(f.Code)
	}
	return f.Message
}

func newFailure(code int, format string, args ...any) *Failure {
	return &Failure{Code: code, Message: fmt.Sprintf(format, args...)}
}

// errorBody is the body of an answer with an error code.
type errorBody struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Explain string `json:"explain"`
}

func (f *Failure) body() errorBody {
	return errorBody{f.Code, escape(f.message()), explain(f.Code)}
}

// explain returns Ganeti's text for a code of HTTP.
func explain(code int) string {
	switch code {
	case http.StatusBadRequest:
		return "Bad request syntax or unsupported method"
	case http.StatusUnauthorized:
		return "No permission -- see authorization schemes"
	case http.StatusForbidden:
		return "Request forbidden -- authorization will not help"
	case http.StatusNotFound:
		return "Nothing matches the given URI"
	case http.StatusMethodNotAllowed:
		return "Specified method is invalid for this resource."
	case http.StatusRequestTimeout:
		return "Request timed out; try again later."
	case http.StatusRequestEntityTooLarge:
		return "Entity is too large."
	case http.StatusUnsupportedMediaType:
		return "Entity body in unsupported format."
	case http.StatusTooManyRequests:
		return "The user has sent too many requests in a given amount of time."
	case http.StatusBadGateway:
		return "Invalid responses from another server/proxy"
	case http.StatusServiceUnavailable:
		return "The server cannot process the request due to a high load"
	case http.StatusGatewayTimeout:
		return "The gateway server did not receive a timely response"
	default:
		return "Server got itself in trouble"
	}
}

// escape is Python's html.escape, which Ganeti applies to messages.
func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;").Replace(text)
}

// errInternal hides the cause from clients. The log has it.
var errInternal = &Failure{Code: http.StatusInternalServerError}

// errBusy says that the client has to try again later.
var errBusy = &Failure{
	Code:       http.StatusServiceUnavailable,
	Message:    "The daemon is busy with other requests; try again later",
	RetryAfter: 5,
}

// asFailure maps an error of a handler to an answer.
func asFailure(err error) *Failure {
	var f *Failure
	var many *login.TooManyError
	var failed *wire.Error
	var refused *wire.RequestError
	var malformed *wire.MalformedResponse
	var lost *luxiclient.ConnectionLostError
	var absent *luxiclient.NoDaemonError
	var account *login.AccountError
	var refusal *access.Refusal
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, login.ErrWrong):
		return &Failure{Code: http.StatusUnauthorized}
	case errors.As(err, &refusal):
		return newFailure(http.StatusForbidden, "%s", refusal)
	case errors.As(err, &many):
		return &Failure{Code: http.StatusTooManyRequests, Message: many.Error(), RetryAfter: many.RetryAfter}
	case errors.As(err, &account) && account.Temporary():
		return &Failure{Code: http.StatusServiceUnavailable, Message: account.Error(), RetryAfter: 5}
	case errors.As(err, &account):
		return newFailure(http.StatusForbidden, "%s", account)
	case errors.As(err, &failed):
		return luxiFailure(failed)
	case errors.As(err, &refused), errors.As(err, &malformed):
		return newFailure(http.StatusBadGateway, "%s", err)
	case errors.Is(err, admission.ErrBusy):
		return errBusy
	case errors.As(err, &lost) && (errors.Is(err, luxiclient.ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded)):
		return newFailure(http.StatusGatewayTimeout, "%s", err)
	case errors.As(err, &lost), errors.As(err, &absent):
		return newFailure(http.StatusBadGateway, "%s", err)
	default:
		return errInternal
	}
}

// luxiFailure maps an error of a LUXI method to an answer. Ganeti answers 500 to most. Here an
// unknown job is 404, and a queue that takes no jobs or a node that is not the master is 503
// (design.md "Differences" and "Replication").
func luxiFailure(e *wire.Error) *Failure {
	if hasCode(e, messages.NotPermitted) {
		return newFailure(http.StatusForbidden, "%s", e)
	}
	switch e.Class {
	case "JobQueueFull", "JobQueueDrainError":
		return &Failure{Code: http.StatusServiceUnavailable, Message: e.Error(), RetryAfter: 60}
	case "NotMaster":
		// An election takes a second or two, and the new master has another address.
		return &Failure{Code: http.StatusServiceUnavailable, Message: e.Error(), RetryAfter: 2}
	case "JobLost":
		return newFailure(http.StatusNotFound, "%s", e)
	default:
		return newFailure(http.StatusInternalServerError, "%s", e)
	}
}

// hasCode reports whether an error of a method is OpPrereqError with that code.
func hasCode(err error, code string) bool {
	var failed *wire.Error
	return errors.As(err, &failed) && failed.Class == "OpPrereqError" && len(failed.Args) > 1 && string(failed.Args[1]) == strconv.Quote(code)
}

// AsFailure maps an error of a call to an answer, for other servers of the same calls.
func AsFailure(err error) *Failure { return asFailure(err) }

// AsScheduleFailure is AsFailure for a call about a schedule: one that does not exist is 404.
func AsScheduleFailure(err error) *Failure { return asFailure(asScheduleError(err)) }

// AsClientFailure is AsFailure for a submission: what LUXI cannot parse is an error of the client.
func AsClientFailure(err error) *Failure { return asFailure(asClientError(err)) }
