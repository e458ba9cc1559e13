package main

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

// session makes calls to one daemon, over a connection that it makes when needed. It
// is used by one goroutine at a time.
type session struct {
	path   string
	client *luxiclient.Client // nil: not connected
	// carried: another node than the one it is connected to has answered. That one may
	// vanish, and another take its place.
	carried bool
	after   func(time.Duration) <-chan time.Time
	notice  func(text string) // tells people about a lost connection; nil: nobody to tell
}

// call makes one call, once. Whether a request with an effect may be sent again is not
// for it to decide (queue.md 1.1). The errors are those of
// luxiclient.Dial and luxiclient.Client.Call.
func (s *session) call(ctx context.Context, method string, args []any, result any) error {
	if s.client == nil {
		client, err := luxiclient.Dial(ctx, s.path, luxiclient.Options{})
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
		s.close() // what is left of the connection is not to be trusted
	}
	return err
}

// ask is call for requests without effect, which may be repeated: if the daemon has
// gone, it connects again for up to reconnectLimit and asks once more. A daemon that
// never was there is an error at once.
func (s *session) ask(ctx context.Context, method string, args []any, result any) error {
	first := s.client == nil
	err := s.call(ctx, method, args, result)
	if first && !s.carried {
		return err
	}
	return s.again(ctx, err, gone, method, args, result)
}

// again makes a call once more, over new connections, as long as its error, of which err
// is the first, is a loss that may pass and reconnectLimit is not over. It returns the
// last error.
func (s *session) again(ctx context.Context, err error, passes func(error) bool, method string, args []any, result any) error {
	pause, waited := reconnectPauseFirst, time.Duration(0)
	for passes(err) && ctx.Err() == nil && waited < reconnectLimit {
		if waited == 0 {
			s.tell("the connection to the daemon was lost; trying to get it back for up to a minute")
		}
		select {
		case <-ctx.Done():
			return err
		case <-s.after(pause):
		}
		waited += pause
		pause = min(2*pause, reconnectPauseLongest)
		err = s.call(ctx, method, args, result)
	}
	if waited > 0 && !gone(err) {
		s.tell("the daemon is back")
	}
	return err
}

func (s *session) tell(text string) {
	if s.notice != nil {
		s.notice(text)
	}
}

// gone tells whether err says that nobody is there, as opposed to an answer. A node
// of a cluster that knows of no master is nobody, either.
func gone(err error) bool {
	var lost *luxiclient.ConnectionLost
	var none *luxiclient.NoDaemon
	return errors.As(err, &lost) || errors.As(err, &none) || isReferral(err)
}

// isReferral tells whether err is that of a node that is not the master, which has done
// nothing.
func isReferral(err error) bool {
	var failed *wire.Error
	return errors.As(err, &failed) && failed.Class == "NotMaster"
}

// other returns a second session with the same daemon, for calls while this one waits
// for an answer.
func (s *session) other() *session { return &session{path: s.path, after: s.after} }

func (s *session) close() {
	if s.client != nil {
		// Nothing was promised over this connection that closing it could undo.
		_ = s.client.Close()
		s.client = nil
	}
}

// submit makes a submitting call. If the connection is lost before the answer it connects
// again, as ask does, and sends the same submission: the daemon tells by its name whether
// it was taken (see newTrails). Where that is of no avail it says so: a job may exist,
// and under another name it might run twice.
func (s *session) submit(ctx context.Context, method string, jobs any, result any) error {
	args := []any{jobs}
	err := s.call(ctx, method, args, result)
	var lost *luxiclient.ConnectionLost
	unanswered := errors.As(err, &lost) && lost.Sent
	if unanswered {
		err = s.again(ctx, err, hungUp, method, args, result)
	}
	var malformed *wire.MalformedAnswer
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

// hungUp is gone without a daemon that is there but does not answer: it has had its time.
func hungUp(err error) bool { return gone(err) && !errors.Is(err, luxiclient.ErrNoAnswer) }
