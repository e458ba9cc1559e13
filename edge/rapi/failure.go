package rapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
)

// Failure is an answer that is an error (queue.md 6.3). Message is for people, and
// empty means the name of the code.
type Failure struct {
	Code    int
	Message string
	// RetryAfter is in seconds; 0: nothing is said about it.
	RetryAfter int
	// Allow are the methods of the path; empty: nothing is said about them.
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

// errorBody is what a client is sent.
type errorBody struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Explain string `json:"explain"`
}

func (f *Failure) body() errorBody {
	return errorBody{f.Code, escape(f.message()), explain(f.Code)}
}

// explain says what a code means, in the words that Ganeti's clients know.
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

// escape is Python's html.escape, which Ganeti's messages go through.
func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;").Replace(text)
}

// errInternal hides from clients what only operators may know.
var errInternal = &Failure{Code: http.StatusInternalServerError}

// asFailure maps errors of handlers to answers.
func asFailure(err error) *Failure {
	var f *Failure
	var failed *wire.Error
	var refused *wire.RequestError
	var malformed *wire.MalformedResponse
	var lost *luxiclient.ConnectionLostError
	var busy *BusyError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &failed):
		return luxiFailure(failed)
	case errors.As(err, &refused), errors.As(err, &malformed):
		return newFailure(http.StatusBadGateway, "%s", err)
	case errors.As(err, &busy):
		return &Failure{Code: http.StatusServiceUnavailable, Message: err.Error(), RetryAfter: 5}
	case errors.As(err, &lost) && (errors.Is(err, luxiclient.ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded)):
		return newFailure(http.StatusGatewayTimeout, "%s", err)
	case errors.As(err, &lost):
		return newFailure(http.StatusBadGateway, "%s", err)
	default:
		return errInternal
	}
}

// luxiFailure is for errors of LUXI methods. Ganeti answers 500 to most; an
// unknown job is 404 here, a queue that takes no job 503, and so is a node that is not
// the master (design.md 8 and 9).
func luxiFailure(e *wire.Error) *Failure {
	switch e.Class {
	case "JobQueueFull", "JobQueueDrainError":
		return &Failure{Code: http.StatusServiceUnavailable, Message: e.Error(), RetryAfter: 60}
	case "NotMaster":
		// An election takes a second or two; whoever is the master has its own address.
		return &Failure{Code: http.StatusServiceUnavailable, Message: e.Error(), RetryAfter: 2}
	case "JobLost":
		return newFailure(http.StatusNotFound, "%s", e)
	default:
		return newFailure(http.StatusInternalServerError, "%s", e)
	}
}
