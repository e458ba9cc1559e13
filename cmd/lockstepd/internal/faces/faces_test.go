package faces

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	corenoded "lockstep/core/noded"
	"lockstep/edge/luxiclient"
	"lockstep/edge/socket"
)

// Without ganeti-wconfd a client gets an error in the end, and the next one is served when there is one.
func TestStandIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	log := logrus.New()
	log.SetOutput(io.Discard)
	s := newStandIn(l, 0, log)
	c, err := luxiclient.Dial(t.Context(), path, luxiclient.Options{AnswerTimeout: time.Minute})
	require.NoError(t, err)
	for range 2 {
		require.ErrorContains(t, c.Call(t.Context(), "QueryJobs", []any{}, nil), "ganeti-wconfd does not run")
	}
	s.end()
	require.Error(t, c.Call(t.Context(), "QueryJobs", []any{}, nil))
	next, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer next.Close()
	served, err := socket.Borrow(l).Accept()
	require.NoError(t, err)
	require.NoError(t, served.Close())
}

// The vote is won by more than half of all nodes, asked again while that is possible, and lost at once otherwise.
func TestVoting(t *testing.T) {
	var told strings.Builder
	votes := func(all ...corenoded.Votes) func(int) corenoded.Votes {
		return func(round int) corenoded.Votes { return all[min(round, len(all)-1)] }
	}
	require.NoError(t, decideVote("n1", &told, votes(corenoded.Votes{Nodes: 3, Favor: 2, Unknown: 1})))
	require.Empty(t, told.String())
	require.NoError(t, decideVote("n1", &told, votes(corenoded.Votes{Nodes: 3, Favor: 1, Unknown: 2}, corenoded.Votes{Nodes: 3, Favor: 2})))
	require.Contains(t, told.String(), "1 of 3 nodes name n1 as the master, 2 do not answer")
	require.ErrorContains(t, decideVote("n1", &told, votes(corenoded.Votes{Nodes: 2, Favor: 1})), "Voting cannot be won by n1")
	require.EqualError(t, decideVote("n1", &told, votes(corenoded.Votes{Nodes: 2, Favor: 1, Unknown: 1})), "Couldn't gather voting results of enough nodes")
}
