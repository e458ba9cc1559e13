package noded_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	corenoded "lockstep/core/noded"
	"lockstep/core/paths"
	"lockstep/core/queuecopy"
	"lockstep/edge/noded"
	"lockstep/edge/noded/nodedtest"
)

// copies makes calls of a node daemon for a queue of three jobs with the serial 3.
type copies struct {
	*bench
	*noded.Copies
}

func newCopies(t *testing.T) *copies {
	b, dir := newBench(t), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, paths.QueueDir), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, paths.SerialPath), paths.FormatSerial(3), 0o600))
	for id := range int64(3) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, paths.JobPath(id+1)), fmt.Append(nil, "job ", id+1), 0o600))
	}
	c := &copies{b, noded.NewCopies(noded.NewClient(b.config), dir)}
	t.Cleanup(c.Close)
	return c
}

// begin makes a call. Its result comes later.
func (c *copies) begin(op queuecopy.Op, units ...queuecopy.Unit) <-chan queuecopy.Result {
	return c.beginCall(queuecopy.Call{Op: op, Units: units})
}

func (c *copies) beginCall(call queuecopy.Call) <-chan queuecopy.Result {
	call.Node = c.daemon.Node()
	results := make(chan queuecopy.Result, 1)
	c.Call(call, func(r queuecopy.Result) { results <- r })
	return results
}

// The serial of a candidate runs ahead by what the call says.
func TestCopiesOfTheSerial(t *testing.T) {
	c := newCopies(t)
	for _, s := range []struct{ least, ahead, sent int64 }{{0, 0, 3}, {0, 200, 203}, {100, 200, 300}} {
		r := <-c.beginCall(queuecopy.Call{Op: queuecopy.Update, Units: []queuecopy.Unit{queuecopy.Serial}, Least: s.least, Ahead: s.ahead})
		require.Equal(t, queuecopy.Result{Serial: s.sent}, r)
		require.Equal(t, string(paths.FormatSerial(s.sent)), c.daemon.File(nodedtest.QueueDir+"serial"))
	}
}

// Calls of one incarnation of the copier are made at once. The first call of the next one waits for them.
func TestCopiesAreMadeAtOnce(t *testing.T) {
	c := newCopies(t)
	c.daemon.Put(nodedtest.SsconfPath("master_node"), "master\n")
	require.Equal(t, "master", (<-c.begin(queuecopy.AskMaster)).Master)
	release := c.daemon.Hold()
	var former []<-chan queuecopy.Result
	for id := range queuecopy.Unit(3) {
		former = append(former, c.begin(queuecopy.Update, id+1))
	}
	c.daemon.Await(4)
	next := c.begin(queuecopy.AskMaster)
	release()
	for _, results := range former {
		require.NoError(t, (<-results).Err)
	}
	require.Equal(t, "master", (<-next).Master)
	calls := c.daemon.Calls()
	require.Len(t, calls, 5)
	require.Equal(t, corenoded.MasterNodeName, calls[4].Procedure)
	require.GreaterOrEqual(t, c.daemon.MostAtOnce(), 3)
	require.Equal(t, "job 2", c.daemon.File(nodedtest.QueueDir+"job-2"))
}
