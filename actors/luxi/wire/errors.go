package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Error is an answer whose handler failed: a class of Ganeti's exceptions and its
// arguments, `["JobLost", ["Can't load job file"]]` (queue.md 1.3). The
// connection stays usable.
type Error struct {
	Class string
	Args  []json.RawMessage
}

// Error gives the first argument, which is the text for nearly every class;
// JobQueueFull has none, its name must do.
func (e *Error) Error() string {
	if len(e.Args) == 0 {
		return e.Class
	}
	var text string
	if err := json.Unmarshal(e.Args[0], &text); err != nil {
		return string(e.Args[0])
	}
	return text
}

// RequestError is an answer that is a plain string: the server could not make
// sense of the request. The server closes the connection after it (queue.md 1.3).
type RequestError struct {
	Text string
}

func (e *RequestError) Error() string { return e.Text }

// MalformedAnswer is a frame that is no LUXI answer at all, or one whose result
// has another form than the caller asked for.
type MalformedAnswer struct {
	Err error
}

func (e *MalformedAnswer) Error() string { return "malformed answer: " + e.Err.Error() }
func (e *MalformedAnswer) Unwrap() error { return e.Err }

// NoDaemon says that no connection could be made: there is no socket at Path,
// nobody listens on it, or the caller may not open it; Err tells which.
type NoDaemon struct {
	Path string
	Err  error
}

func (e *NoDaemon) Error() string {
	return fmt.Sprintf("no daemon answers at %s: %v", e.Path, e.Err)
}

func (e *NoDaemon) Unwrap() error { return e.Err }

// ConnectionLost says that a call got no answer. Sent false: the request did not
// reach the server whole, so it was not acted on. Sent true: it may have been, and
// only a request without effect may be sent again.
type ConnectionLost struct {
	Method string
	Sent   bool
	Err    error
}

func (e *ConnectionLost) Error() string {
	if e.Sent {
		return fmt.Sprintf("no answer to %s: %v", e.Method, e.Err)
	}
	return fmt.Sprintf("%s could not be sent: %v", e.Method, e.Err)
}

func (e *ConnectionLost) Unwrap() error { return e.Err }

// ErrNoAnswer is the cause within a ConnectionLost when the time for the answer
// was up.
var ErrNoAnswer = errors.New("the server did not answer in time")

// ErrClosed is the cause within a ConnectionLost for a call on a client that was
// closed, or whose connection an earlier call has lost.
var ErrClosed = errors.New("the connection is closed")
