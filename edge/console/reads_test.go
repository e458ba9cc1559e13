package console

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"lockstep/edge/admission"
	"lockstep/edge/rapi"
)

// largeAnswers answers each call with a megabyte.
type largeAnswers struct{ calls int }

func (q *largeAnswers) Call(context.Context, rapi.Class, string, ...any) (json.RawMessage, error) {
	q.calls++
	return json.RawMessage(`"` + strings.Repeat("x", 1<<20-2) + `"`), nil
}

// Answers are kept up to a number of bytes, the newest ones, for as long as pages use them.
func TestFewAnswersAreKept(t *testing.T) {
	queue := &largeAnswers{}
	c := newReads(queue)
	for i := range 250 {
		_, err := c.get(t.Context(), historyFresh, rapi.Short, fmt.Sprint("m", i))
		require.NoError(t, err)
		require.LessOrEqual(t, c.size, readsKept)
		require.LessOrEqual(t, len(c.open), readsKept>>20+1)
	}
	_, err := c.get(t.Context(), historyFresh, rapi.Short, "m249")
	require.NoError(t, err)
	require.Equal(t, 250, queue.calls, "the newest is kept")
	c.forget()
	require.Empty(t, c.open)
	require.Zero(t, c.size)
}

// A call that waits for the turns of one client keeps no other client from the same answer: that one makes the call itself.
func TestAReaderDoesNotWaitForAnothersTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := &countingLuxi{may: make(chan struct{})}
		r := newReads(queue)
		ask := func(name string) {
			_, err := r.get(admission.WithClient(t.Context(), admission.User(name)), readFresh, rapi.Short, "LockstepStatus")
			require.NoError(t, err)
		}
		var all sync.WaitGroup
		all.Go(func() { ask("flood") })
		synctest.Wait()
		all.Go(func() { ask("ada") })
		synctest.Wait()
		require.EqualValues(t, 2, queue.calls.Load())
		close(queue.may)
		all.Wait()
		ask("bob")
		require.EqualValues(t, 2, queue.calls.Load(), "an answer serves all")
	})
}
