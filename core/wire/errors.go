package wire

import "encoding/json"

// Error is an answer whose handler failed: a class of Ganeti's exceptions and its
// arguments, `["JobLost", ["Can't load job file"]]` (queue.md 1.3). The
// connection stays usable.
type Error struct {
	Class string
	Args  []json.RawMessage
}

// Error is the first argument, which is the text for nearly every class, or the class if there is no argument, as for
// JobQueueFull.
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

// RequestError is an answer that is a plain string: the server could not parse the request. The server closes the
// connection after it (queue.md 1.3).
type RequestError struct {
	Text string
}

func (e *RequestError) Error() string { return e.Text }

// MalformedResponse is a frame that is not a LUXI answer, or whose result has another form than the caller expects.
type MalformedResponse struct {
	Err error
}

func (e *MalformedResponse) Error() string { return "malformed answer: " + e.Err.Error() }
func (e *MalformedResponse) Unwrap() error { return e.Err }
