package console

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
