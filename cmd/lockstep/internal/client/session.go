// Package client talks to the daemon over the daemon's LUXI socket. It chooses the socket and
// connects. After the connection is lost it connects again and repeats the request if that is
// safe: a query, or a submission with a unique name, by which the daemon recognises the repeat.
// It repeats no other request. It also has the fields of jobs as lists show them, the reason
// trail that a submission adds to its jobs, and explanations of errors.
package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
)

// The pauses between attempts to reconnect double from first to longest, until their sum reaches
// the limit. In a cluster another node is master after a second or two.
const (
	reconnectPauseFirst   = 250 * time.Millisecond
	reconnectPauseLongest = time.Second
	reconnectLimit        = time.Minute
)

// Session makes calls to one daemon over one connection, which it opens at the first call and again after a loss. One goroutine at a time
// may use it.
type Session struct {
	Path   string
	Whose  Whose              // daemon
	client *luxiclient.Client // nil: not connected
	// carried: the connected node forwards to another node, the master. The master can fail, and
	// a third node become master.
	carried bool
	After   func(time.Duration) <-chan time.Time
	Notice  func(text string) // reports a lost connection to the user; nil: no report
	// AnswerTimeout bounds the wait for one answer; 0 is the default of luxiclient.
	AnswerTimeout time.Duration
	// InJob: this process seems to belong to a job. It says which ends it waits for, so that a wait that would never end is refused.
	InJob   bool
	awaited []int64 // the jobs of the last Await
}

// Call makes one call and does not repeat it: the request may have an effect (queue.md 1.1). The
// errors are those of luxiclient.Dial and luxiclient.Client.Call.
func (s *Session) Call(ctx context.Context, method string, args []any, result any) error {
	if s.client == nil {
		client, err := luxiclient.Dial(ctx, s.Path, luxiclient.Options{AnswerTimeout: s.AnswerTimeout})
		if err != nil {
			return err
		}
		s.client = client
		if s.awaited != nil && method != awaitMethod {
			if err := s.Call(ctx, awaitMethod, []any{s.awaited}, nil); err != nil {
				return err
			}
		}
	}
	err := s.client.Call(ctx, method, args, result)
	if isReferral(err) {
		// The call had no effect: the daemon is not the master of its cluster. It forwards the
		// connection to the master, if it knows the master.
		if err = s.client.Call(ctx, "LockstepForward", []any{}, nil); err == nil {
			s.carried = true
			err = s.client.Call(ctx, method, args, result)
		}
	}
	var failed *wire.Error
	if err != nil && (!errors.As(err, &failed) || isReferral(err)) {
		s.Close() // the state of the connection is unknown
	}
	return err
}

// Query is Call for requests without effect: after a lost connection it reconnects for up to
// reconnectLimit and repeats the request. If the first connection fails, the error is immediate.
func (s *Session) Query(ctx context.Context, method string, args []any, result any) error {
	first := s.client == nil
	err := s.Call(ctx, method, args, result)
	if first && !s.carried {
		return err
	}
	return s.retry(ctx, err, gone, method, args, result)
}

// retry repeats a call over new connections while its error is a lost connection and
// reconnectLimit is not over. err is the error of the first call. It returns the last error.
func (s *Session) retry(ctx context.Context, err error, passes func(error) bool, method string, args []any, result any) error {
	pause, waited := reconnectPauseFirst, time.Duration(0)
	for passes(err) && ctx.Err() == nil && waited < reconnectLimit {
		if waited == 0 {
			s.notify("the connection to the daemon was lost; reconnecting for up to a minute")
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
		s.notify("reconnected to the daemon")
	}
	return err
}

func (s *Session) notify(text string) {
	if s.Notice != nil {
		s.Notice(text)
	}
}

// gone reports whether err means that no daemon serves requests at the socket, unlike an error
// answer. A node of a cluster without known master serves none, either.
func gone(err error) bool {
	var lost *luxiclient.ConnectionLostError
	var none *luxiclient.NoDaemonError
	return errors.As(err, &lost) || errors.As(err, &none) || isReferral(err)
}

// isReferral reports whether a node refused the call because it is not the master.
func isReferral(err error) bool {
	var failed *wire.Error
	return errors.As(err, &failed) && failed.Class == "NotMaster"
}

// awaitMethod is the call by which a client says that it waits for the ends of jobs. It holds for its connection.
const awaitMethod = "LockstepAwaitJobs"

// Await says that the caller waits for the ends of jobs from now on. The error says that this wait would never end.
func (s *Session) Await(ctx context.Context, ids []int64) error {
	if !s.InJob || len(ids) == 0 {
		return nil
	}
	err := s.Query(ctx, awaitMethod, []any{ids}, nil)
	var unknown *wire.RequestError
	if errors.As(err, &unknown) { // a daemon of an earlier version
		return nil
	}
	if err == nil {
		s.awaited = ids
	}
	return err
}

// Other returns a second session with the same daemon, for calls while this one waits
// for an answer.
func (s *Session) Other() *Session {
	return &Session{Path: s.Path, Whose: s.Whose, After: s.After, AnswerTimeout: s.AnswerTimeout}
}

// Close closes the connection, if there is one; the next call connects again.
func (s *Session) Close() {
	if s.client != nil {
		// An error of Close has no consequence: no answer is pending.
		_ = s.client.Close()
		s.client = nil
	}
}

// SubmitToAwait submits jobs, of the form of LockstepSubmitJobs, whose ends the caller will wait for. The daemon refuses them if this
// wait would never end.
func (s *Session) SubmitToAwait(ctx context.Context, jobs any, result any) error {
	err := s.submit(ctx, "LockstepSubmitJobs", []any{jobs, map[string]any{"wait": true}}, result)
	var invalid *wire.RequestError
	if errors.As(err, &invalid) { // a daemon of an earlier version, or a mistake in the jobs
		return s.Submit(ctx, "LockstepSubmitJobs", jobs, result)
	}
	return err
}

// Submit makes a submitting call. If the connection is lost before the answer, it reconnects as
// Query does and repeats the submission; its name prevents a second set of jobs (see NewTrails).
// If this fails, too, the error says that the jobs may exist.
func (s *Session) Submit(ctx context.Context, method string, jobs any, result any) error {
	return s.submit(ctx, method, []any{jobs}, result)
}

func (s *Session) submit(ctx context.Context, method string, args []any, result any) error {
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
		return fmt.Errorf(`the daemon's answer was lost; the jobs may exist: check "lockstep list"
before you submit again (%w)`, err)
	case errors.As(err, &lost):
		return fmt.Errorf("nothing was submitted: %w", err)
	case isReferral(err):
		return fmt.Errorf("nothing was submitted: %w", err)
	case gone(err):
		return err
	}
	return fmt.Errorf("the daemon refused the submission: %w", err)
}

// lostWithoutReply is gone, except for a timeout: such a daemon is alive.
func lostWithoutReply(err error) bool { return gone(err) && !errors.Is(err, luxiclient.ErrNoAnswer) }
