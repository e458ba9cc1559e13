package luxiclient

import (
	"errors"
	"fmt"
)

// NoDaemonError says that no connection could be made: there is no socket at Path, no process
// listens on it, or the caller may not open it. Err tells which.
type NoDaemonError struct {
	Path string
	Err  error
}

func (e *NoDaemonError) Error() string {
	return fmt.Sprintf("no daemon answers at %s: %v", e.Path, e.Err)
}

func (e *NoDaemonError) Unwrap() error { return e.Err }

// ConnectionLostError says that a call got no answer. With Sent false the server did not receive
// the whole request, and has not acted on it. With Sent true it may have; only a request without
// effect may be sent again.
type ConnectionLostError struct {
	Method string
	Sent   bool
	Err    error
}

func (e *ConnectionLostError) Error() string {
	if e.Sent {
		return fmt.Sprintf("no answer to %s: %v", e.Method, e.Err)
	}
	return fmt.Sprintf("%s could not be sent: %v", e.Method, e.Err)
}

func (e *ConnectionLostError) Unwrap() error { return e.Err }

// ErrNoAnswer is the cause in a ConnectionLostError when the time for the answer is up.
var ErrNoAnswer = errors.New("the server did not answer in time")

// ErrClosed is the cause in a ConnectionLostError for a call on a client that was closed, or
// whose connection was lost in an earlier call.
var ErrClosed = errors.New("the connection is closed")
