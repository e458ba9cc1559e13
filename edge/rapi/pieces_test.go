package rapi_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/edge/admission"
	"lockstep/edge/rapi"
)

// A log is delivered in pieces, and its memory counts until the last one is taken. A client that takes nothing gets no more logs than its
// part of the memory has room for.
func TestALogIsFollowedInPieces(t *testing.T) {
	luxi := newFakeLuxi()
	var entries []string
	for serial := range 300 {
		entries = append(entries, fmt.Sprintf(`[%d, [1, 0], "message", %q]`, serial+1, strings.Repeat("x", 10_000)))
	}
	luxi.answers["QueryJobs"] = func([]any) (string, error) { return `[["success", [[` + strings.Join(entries, ",") + `]]]]`, nil }
	table := admission.NewTable()
	follow := func(each func([]rapi.LogEntry) error) error {
		ctx := admission.WithShare(context.Background(), table.Share(admission.User("reader"), func() {}))
		_, err := rapi.FollowLog(ctx, luxi, 1, 0, each)
		return err
	}
	seen := int64(0)
	require.NoError(t, follow(func(piece []rapi.LogEntry) error {
		size := 0
		for _, e := range piece {
			seen++
			require.Equal(t, seen, e.Serial)
			size += len(e.Text)
		}
		require.LessOrEqual(t, size, 80_000)
		require.Greater(t, table.Used(), 3_000_000)
		return nil
	}))
	require.EqualValues(t, 300, seen)
	require.Zero(t, table.Used())

	blocked, begun, ended := make(chan struct{}), make(chan struct{}, 20), make(chan error, 20)
	for range 20 {
		go func() {
			ended <- follow(func([]rapi.LogEntry) error { begun <- struct{}{}; <-blocked; return nil })
		}()
	}
	refused := 0
	for range 20 {
		select {
		case <-begun:
		case err := <-ended:
			require.ErrorIs(t, err, admission.ErrBusy)
			refused++
		}
	}
	require.Equal(t, 15, refused)
	require.LessOrEqual(t, table.Used(), 64<<20)
	close(blocked)
}
