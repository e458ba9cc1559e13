// Package client talks to the daemon over its LUXI socket. It owns the choice of the
// socket, the connection, and what happens when that is lost: a query is sent again, a
// submission under its name, any other request never. It may be asked for a session, for
// rows of jobs, for the trails of a submission, and for the explanation of an error.
package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
)

// How long a session that was working is patient with a daemon that has gone: pauses
// double from first to longest, until they add up to the limit. In a cluster another
// node is the master after a second or two.
const (
	reconnectPauseFirst   = 250 * time.Millisecond
	reconnectPauseLongest = time.Second
	reconnectLimit        = time.Minute
)

// Session makes calls to one daemon, over a connection that it makes when needed. It
// is used by one goroutine at a time.
type Session struct {
	Path   string
	client *luxiclient.Client // nil: not connected
	// carried: a node other than the connected one has answered. It can vanish, and a
	// third node become master.
	carried bool
	After   func(time.Duration) <-chan time.Time
	Notice  func(text string) // tells people about a lost connection; nil: no person listens
	// AnswerTimeout is how long the daemon may take for one answer; 0 is the usual time.
	AnswerTimeout time.Duration
}

// Call makes one call, once. Whether a request with an effect may be sent again is not
// for it to decide (queue.md 1.1). The errors are those of
// luxiclient.Dial and luxiclient.Client.Call.
func (s *Session) Call(ctx context.Context, method string, args []any, result any) error {
	if s.client == nil {
		client, err := luxiclient.Dial(ctx, s.Path, luxiclient.Options{AnswerTimeout: s.AnswerTimeout})
		if err != nil {
			return err
		}
		s.client = client
	}
	err := s.client.Call(ctx, method, args, result)
	if isReferral(err) {
		// Nothing was done: the daemon is not the master of its cluster. It carries
		// us on to the one that is, if it knows it.
		if err = s.client.Call(ctx, "LockstepForward", []any{}, nil); err == nil {
			s.carried = true
			err = s.client.Call(ctx, method, args, result)
		}
	}
	var failed *wire.Error
	if err != nil && (!errors.As(err, &failed) || isReferral(err)) {
		s.Close() // what is left of the connection is not to be trusted
	}
	return err
}

// Query is call for requests without effect, which may be repeated: if the daemon has
// gone, it connects again for up to reconnectLimit and asks once more. A daemon that
// never was there is an error at once.
func (s *Session) Query(ctx context.Context, method string, args []any, result any) error {
	first := s.client == nil
	err := s.Call(ctx, method, args, result)
	if first && !s.carried {
		return err
	}
	return s.retry(ctx, err, gone, method, args, result)
}

// retry makes a call once more, over new connections, as long as its error, of which err
// is the first, is a loss that may pass and reconnectLimit is not over. It returns the
// last error.
func (s *Session) retry(ctx context.Context, err error, passes func(error) bool, method string, args []any, result any) error {
	pause, waited := reconnectPauseFirst, time.Duration(0)
	for passes(err) && ctx.Err() == nil && waited < reconnectLimit {
		if waited == 0 {
			s.notify("the connection to the daemon was lost; trying to get it back for up to a minute")
		}
		select {
		case <-ctx.Done():
			return err
		case <-s.After(pause):
		}
		waited += pause
		pause = min(2*pause, reconnectPauseLongest)
		err = s.Call(ctx, method, args, result)
	}
	if waited > 0 && !gone(err) {
		s.notify("the daemon is back")
	}
	return err
}

func (s *Session) notify(text string) {
	if s.Notice != nil {
		s.Notice(text)
	}
}

// gone tells whether err says that no daemon serves requests there, as opposed to an
// answer. A node of a cluster that knows of no master serves none, either.
func gone(err error) bool {
	var lost *luxiclient.ConnectionLostError
	var none *luxiclient.NoDaemonError
	return errors.As(err, &lost) || errors.As(err, &none) || isReferral(err)
}

// isReferral tells whether err is that of a node that is not the master, which has done
// nothing.
func isReferral(err error) bool {
	var failed *wire.Error
	return errors.As(err, &failed) && failed.Class == "NotMaster"
}

// Other returns a second session with the same daemon, for calls while this one waits
// for an answer.
func (s *Session) Other() *Session {
	return &Session{Path: s.Path, After: s.After, AnswerTimeout: s.AnswerTimeout}
}

// Close closes the connection, if there is one; the next call makes a new one.
func (s *Session) Close() {
	if s.client != nil {
		// Nothing was promised over this connection that closing it could undo.
		_ = s.client.Close()
		s.client = nil
	}
}

// Submit makes a submitting call. If the connection is lost before the answer it connects
// again, as Query does, and sends the same submission: the daemon knows by its name whether
// it was taken (see NewTrails). If that fails, too, the error says that a job may exist;
// under another name it might run twice.
func (s *Session) Submit(ctx context.Context, method string, jobs any, result any) error {
	args := []any{jobs}
	err := s.Call(ctx, method, args, result)
	var lost *luxiclient.ConnectionLostError
	unanswered := errors.As(err, &lost) && lost.Sent
	if unanswered {
		err = s.retry(ctx, err, lostWithoutReply, method, args, result)
	}
	var malformed *wire.MalformedResponse
	switch {
	case err == nil:
		return nil
	case unanswered && gone(err), errors.As(err, &malformed):
		return fmt.Errorf(`the daemon's answer was lost, so it is unknown whether the submission was taken;
look for it in "lockstep list" before you submit again (%w)`, err)
	case errors.As(err, &lost):
		return fmt.Errorf("nothing was submitted: %w", err)
	case isReferral(err):
		return fmt.Errorf("nothing was submitted: %w", err)
	case gone(err):
		return err
	}
	return fmt.Errorf("the daemon refused the submission: %w", err)
}

// lostWithoutReply is like gone, but false after a timeout: that daemon is alive.
func lostWithoutReply(err error) bool { return gone(err) && !errors.Is(err, luxiclient.ErrNoAnswer) }
