package rapi

import (
	"context"
	"time"

	"lockstep/edge/luxiclient"
)

// slots bound the calls that are made at a time, by class.
type slots map[Class]chan struct{}

func newSlots() slots {
	return slots{Short: make(chan struct{}, shortCallsMax), Long: make(chan struct{}, longCallsMax), Large: make(chan struct{}, largeCallsMax),
		Live: make(chan struct{}, liveCallsMax)}
}

// acquire waits for a slot, at most slotTimeout. The caller frees it by a receive.
func (s slots) acquire(ctx context.Context, class Class, method string) error {
	timer := time.NewTimer(slotTimeout)
	defer timer.Stop()
	select {
	case s[class] <- struct{}{}:
		return nil
	case <-timer.C:
		return &BusyError{Method: method}
	case <-ctx.Done():
		return &luxiclient.ConnectionLostError{Method: method, Err: context.Cause(ctx)}
	}
}

// Remote makes calls to the queue of another process, over its socket. Each call has a connection, so that no call meets one
// that a daemon has closed when it was restarted.
type Remote struct {
	path  string
	slots slots
}

// NewRemote makes calls over the LUXI socket at path.
func NewRemote(path string) *Remote { return &Remote{path, newSlots()} }

// Call is part of Luxi. A further error is *luxiclient.NoDaemonError.
func (r *Remote) Call(ctx context.Context, class Class, method string, args ...any) (raw, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, luxiclient.ErrNoAnswer)
	defer cancel()
	if err := r.slots.acquire(ctx, class, method); err != nil {
		return nil, err
	}
	defer func() { <-r.slots[class] }()
	c, err := luxiclient.Dial(ctx, r.path, luxiclient.Options{AnswerTimeout: callTimeout})
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	var result raw
	err = c.Call(ctx, method, args, &result)
	return result, err
}
