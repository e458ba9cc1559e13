package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lockstep/actors/luxi/call"
	"lockstep/actors/standby"
	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
)

// answerMax bounds the wait for one answer. It is short, so that a frozen node does not
// delay a test.
const answerMax = 10 * time.Second

// user is a client that uses another node if a node is gone or is not the master, as the
// command line program does. One goroutine uses it at a time.
type user struct {
	c      *cluster
	at     int // the node that it is connected to
	client *luxiclient.Client
}

func (c *cluster) user(at int) *user { return &user{c: c, at: at % len(c.nodes)} }

func (m *member) socket() string { return m.path("run", "socket", "ganeti-query") }

func isNotMaster(err error) bool {
	var failed *wire.Error
	return errors.As(err, &failed) && failed.Class == "NotMaster"
}

// once makes one call to the user's current node, which may forward it to the master.
func (u *user) once(method string, result any, args ...any) error {
	ctx := context.Background()
	if u.client == nil {
		client, err := luxiclient.Dial(ctx, u.c.nodes[u.at].socket(), luxiclient.Options{ConnectTimeout: answerMax, AnswerTimeout: answerMax})
		if err != nil {
			return err
		}
		u.client = client
	}
	err := u.client.Call(ctx, method, args, result)
	if isNotMaster(err) {
		if err = u.client.Call(ctx, standby.ForwardMethod, nil, nil); err == nil {
			err = u.client.Call(ctx, method, args, result)
		}
	}
	var failed *wire.Error
	if err != nil && (!errors.As(err, &failed) || isNotMaster(err)) {
		u.close()
	}
	return err
}

func (u *user) close() {
	if u.client != nil {
		_ = u.client.Close()
		u.client = nil
	}
}

// isTransient reports whether the call may succeed at another node or at another time.
func isTransient(err error) bool {
	var lost *luxiclient.ConnectionLostError
	var none *luxiclient.NoDaemonError
	return errors.As(err, &lost) || errors.As(err, &none) || isNotMaster(err)
}

// call tries one node after the other until a node answers or ctx ends.
func (u *user) call(ctx context.Context, method string, result any, args ...any) error {
	for {
		err := u.once(method, result, args...)
		if err == nil || !isTransient(err) {
			return err
		}
		u.at = (u.at + 1) % len(u.c.nodes)
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// must is call for a request that has to succeed within the time of a test.
func (u *user) must(method string, result any, args ...any) {
	u.c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	require.NoError(u.c.t, u.call(ctx, method, result, args...), method)
}

// withNames gives a submission the request name by which the daemon recognizes a repetition.
func withNames(jobs [][]op) [][]op {
	name := uuid.NewString()
	for _, ops := range jobs {
		ops[0]["reason"] = [][]any{{job.SubmissionSource, name, time.Now().UnixNano()}}
	}
	return jobs
}

// submitMany repeats the same submission until it is acknowledged.
func (u *user) submitMany(ctx context.Context, jobs [][]op) ([]int64, error) {
	var answers [][2]json.RawMessage
	if err := u.call(ctx, "SubmitManyJobs", &answers, withNames(jobs)); err != nil {
		return nil, err
	}
	ids := make([]int64, len(answers))
	for i, answer := range answers {
		if string(answer[0]) != "true" {
			return nil, fmt.Errorf("job %d of a submission was refused: %s", i, answer[1])
		}
		if err := json.Unmarshal(answer[1], &ids[i]); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// submit is submitMany for one job.
func (u *user) submit(ops ...op) int64 {
	u.c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	ids, err := u.submitMany(ctx, [][]op{ops})
	require.NoError(u.c.t, err)
	return ids[0]
}

// statuses are the statuses of jobs. The status of a job that does not exist is "".
func (u *user) statuses(ctx context.Context, ids []int64) ([]string, error) {
	var rows [][]string
	if err := u.call(ctx, "QueryJobs", &rows, ids, []string{"status"}); err != nil {
		return nil, err
	}
	statuses := make([]string, len(ids))
	for i, row := range rows {
		if len(row) == 1 {
			statuses[i] = row[0]
		}
	}
	return statuses, nil
}

func (u *user) status(id int64) string {
	u.c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	statuses, err := u.statuses(ctx, []int64{id})
	require.NoError(u.c.t, err)
	return statuses[0]
}

func isFinal(status string) bool {
	return slices.Contains([]string{"success", "error", "canceled"}, status)
}

// awaitStatus waits until the job has one of these statuses.
func (u *user) awaitStatus(id int64, wanted ...string) {
	u.c.t.Helper()
	u.c.eventually(fmt.Sprintf("job %d", id), func() error {
		if s := u.status(id); !slices.Contains(wanted, s) {
			return fmt.Errorf("it is %q, not %q", s, wanted)
		}
		return nil
	})
}

// list asks a node, whatever its role is, for all nodes.
func (m *member) list() (answer.Nodes, error) {
	var nodes answer.Nodes
	return nodes, m.direct(call.NodesMethod, &nodes)
}

// direct sends the request to this node only.
func (m *member) direct(method string, result any, args ...any) error {
	client, err := luxiclient.Dial(context.Background(), m.socket(), luxiclient.Options{ConnectTimeout: answerMax, AnswerTimeout: answerMax})
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Call(context.Background(), method, args, result)
}

// serves reports whether this node is the master, and takes requests.
func (m *member) serves() bool {
	return m.direct("QueryConfigValues", nil, []string{"drain_flag"}) == nil
}

func (c *cluster) findMaster() (*member, error) {
	for _, m := range c.nodes {
		if m.up && m.serves() {
			return m, nil
		}
	}
	return nil, errors.New("no node is the master")
}

// master waits until the cluster has a master, and returns it.
func (c *cluster) master() (master *member) {
	c.t.Helper()
	c.eventually("no master", func() (err error) { master, err = c.findMaster(); return err })
	return master
}

// awaitUp waits until a node answers and has the master's entries but for the latest.
func (c *cluster) awaitUp(m *member) {
	c.t.Helper()
	c.awaitBehind(m, 100)
}

// awaitBehind waits until a node is at most this number of entries behind.
func (c *cluster) awaitBehind(m *member, most uint64) {
	c.t.Helper()
	c.eventually("node "+m.name+" does not come up", func() error {
		master, err := c.findMaster()
		if err != nil {
			return err
		}
		nodes, err := master.list()
		if err != nil {
			return err
		}
		for _, n := range nodes.Nodes {
			if n.Name == m.name && n.Answers && n.Behind <= most && n.Error == "" {
				return nil
			}
		}
		return fmt.Errorf("%+v", nodes.Nodes)
	})
}

// check returns the result of LockstepNodeCheck: nil if all nodes have the files of the
// master.
func (c *cluster) check() error {
	var checked answer.NodesCheck
	master, err := c.findMaster()
	if err != nil {
		return err
	}
	if err := master.direct("LockstepNodeCheck", &checked, false); err != nil {
		return err
	}
	if len(checked.Nodes) != len(c.nodes)-1 {
		return fmt.Errorf("%d other nodes were compared, not %d", len(checked.Nodes), len(c.nodes)-1)
	}
	for _, n := range checked.Nodes {
		if !n.Answers || n.Error != "" || len(n.Differs) > 0 {
			return fmt.Errorf("node %s: answers: %v, %s, %d of %d files differ, such as %v",
				n.Name, n.Answers, n.Error, len(n.Differs), checked.Files, n.Differs[:min(3, len(n.Differs))])
		}
	}
	return nil
}

// awaitEqual waits until all nodes have the same files.
func (c *cluster) awaitEqual() {
	c.t.Helper()
	c.eventually("the nodes do not come to agree", c.check)
}

// files are the job files on a node's disk, by id, read without the daemon.
func (m *member) files() map[int64]string {
	m.t.Helper()
	entries, err := os.ReadDir(m.path("lib", paths.QueueDir))
	require.NoError(m.t, err)
	jobs := map[int64]string{}
	for _, entry := range entries {
		if id, ok := paths.ParseJobName(entry.Name()); ok {
			content, err := os.ReadFile(filepath.Join(m.path("lib", paths.QueueDir), entry.Name()))
			require.NoError(m.t, err)
			jobs[id] = string(content)
		}
	}
	return jobs
}
