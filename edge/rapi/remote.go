package rapi

import (
	"context"

	"lockstep/edge/admission"
	"lockstep/edge/luxiclient"
)

// Remote makes calls to the queue of another process, over its socket. Each call has a connection, so that no call meets one
// that a daemon has closed when it was restarted.
type Remote struct {
	path  string
	table *admission.Table
}

// NewRemote makes calls over the LUXI socket at path.
func NewRemote(path string, t *admission.Table) *Remote { return &Remote{path, t} }

// Call is part of Luxi. A further error is *luxiclient.NoDaemonError.
func (r *Remote) Call(ctx context.Context, class Class, method string, args ...any) (raw, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, luxiclient.ErrNoAnswer)
	defer cancel()
	ctx, release, err := turn(ctx, r.table, class, method)
	if err != nil {
		return nil, err
	}
	defer release()
	taken := 0
	grow := func(size int) error {
		err := admission.Take(ctx, size-taken)
		if err == nil {
			taken = size
		}
		return err
	}
	c, err := luxiclient.Dial(ctx, r.path, luxiclient.Options{AnswerTimeout: callTimeout, Grow: grow})
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	var result raw
	if err = c.Call(ctx, method, args, &result); err == nil {
		err = grow(len(result))
	}
	return result, err
}

// CallParts is part of LargeLuxi. The answer is one part.
func (r *Remote) CallParts(ctx context.Context, class Class, method string, args ...any) ([][]byte, error) {
	result, err := r.Call(ctx, class, method, args...)
	return [][]byte{result}, err
}
