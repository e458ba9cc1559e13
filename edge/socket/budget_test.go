package socket

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// budgetReader is a connection that reads a request.
type budgetReader struct {
	share
	interrupted bool
}

func newReader(b *budget) *budgetReader {
	r := &budgetReader{}
	r.share = share{budget: b, interrupt: func() { r.interrupted = true }}
	r.beginRead(0)
	return r
}

// Small requests are read however many there are, and without a budget all requests are.
func TestTheBudgetRefusesNoSmallRequest(t *testing.T) {
	b := newBudget(100)
	require.NoError(t, newReader(b).grow(freeAllowance+100))
	for range 10 {
		r := newReader(b)
		require.NoError(t, r.grow(freeAllowance))
		require.NoError(t, r.endRead(nil))
	}
	unbounded := newReader(newBudget(0))
	require.NoError(t, unbounded.grow(1<<30))
	require.ErrorIs(t, unbounded.endRead(errors.ErrUnsupported), errors.ErrUnsupported)
	unbounded.release()
}

// The request that is read for the longest time makes room for the next one.
func TestTheBudgetEndsTheOldestRead(t *testing.T) {
	b := newBudget(100)
	oldest, middle, newest := newReader(b), newReader(b), newReader(b)
	require.NoError(t, oldest.grow(freeAllowance+40))
	require.NoError(t, middle.grow(freeAllowance+40))
	require.NoError(t, newest.grow(freeAllowance+60))
	require.True(t, oldest.interrupted)
	require.False(t, middle.interrupted)
	require.ErrorIs(t, oldest.grow(freeAllowance+50), errBudgetUsedUp)
	require.ErrorIs(t, oldest.endRead(errors.ErrUnsupported), errBudgetUsedUp, "the reason for the end, not its result")
	require.NoError(t, middle.endRead(nil))
	require.NoError(t, newest.endRead(nil))
}

// A request that the whole budget cannot hold is refused when no older one is left.
func TestTheBudgetRefusesTheOldestItself(t *testing.T) {
	b := newBudget(100)
	large := newReader(b)
	require.NoError(t, large.grow(freeAllowance+90))
	require.ErrorIs(t, large.grow(freeAllowance+101), errBudgetUsedUp)
	require.False(t, large.interrupted, "it learns it from the answer")
	require.NoError(t, newReader(b).grow(freeAllowance+100), "its bytes are free")
}

// A complete request keeps its bytes until it is answered, and is not ended for another one.
func TestTheBudgetKeepsCompleteRequests(t *testing.T) {
	b := newBudget(100)
	complete, next := newReader(b), newReader(b)
	require.NoError(t, complete.grow(freeAllowance+60))
	require.NoError(t, complete.endRead(nil))
	require.ErrorIs(t, next.grow(freeAllowance+50), errBudgetUsedUp)
	require.False(t, complete.interrupted)

	// Part of the following request was read with this one and stays in the buffer.
	complete.beginRead(freeAllowance + 60)
	next = newReader(b)
	require.NoError(t, next.grow(freeAllowance+50), "the read that has begun is the oldest")
	require.True(t, complete.interrupted)
	require.NoError(t, next.endRead(nil))

	complete = newReader(b)
	require.ErrorIs(t, complete.grow(freeAllowance+100), errBudgetUsedUp)
	next.beginRead(0) // the answer is sent
	complete = newReader(b)
	require.NoError(t, complete.grow(freeAllowance+100))
	complete.release() // the connection has ended
	require.NoError(t, newReader(b).grow(freeAllowance+100))
}
