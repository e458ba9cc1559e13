package main

import (
	"context"
	"encoding/json"
	"fmt"

	"lockstep/core/job"
	"lockstep/edge/luxiclient"
)

// client is a connection that makes calls.
type client struct {
	ctx  context.Context
	luxi *luxiclient.Client
}

func (c *client) call(result any, method string, args ...any) error {
	if err := c.luxi.Call(c.ctx, method, args, result); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

func (c *client) close() { _ = c.luxi.Close() }

type op map[string]any

// noOp is the cheapest opcode: its process does nothing between its writes.
func noOp() []op { return []op{{"OP_ID": "OP_TEST_DELAY", "duration": 1e-9}} }

// command is an ordinary job.
func command() []op { return []op{{"OP_ID": "OP_RUN_COMMAND", "argv": []string{"true"}}} }

// repeatJobs returns n jobs for SubmitManyJobs, each with the opcodes that ops makes.
func repeatJobs(n int, ops func() []op) [][]op {
	list := make([][]op, n)
	for i := range list {
		list[i] = ops()
	}
	return list
}

func (c *client) submit(ops []op) (id int64, err error) {
	err = c.call(&id, "SubmitJob", ops)
	return id, err
}

// runNoOp runs a no-op job to its end.
func (c *client) runNoOp() error { return c.run(noOp()) }

// run runs a job to its end.
func (c *client) run(ops []op) error {
	id, err := c.submit(ops)
	if err != nil {
		return err
	}
	return c.awaitSuccess(id)
}

func (c *client) submitMany(list [][]op) ([]int64, error) {
	var answers [][2]any
	if err := c.call(&answers, "SubmitManyJobs", list); err != nil {
		return nil, err
	}
	ids := make([]int64, len(answers))
	for i, answer := range answers {
		id, taken := answer[1].(float64)
		if !taken {
			return nil, fmt.Errorf("SubmitManyJobs: job %d of %d was refused: %v", i, len(answers), answer)
		}
		ids[i] = int64(id)
	}
	return ids, nil
}

// awaitStatus waits as clients do, until will is true of the job's status, which it returns. A job that ends with another status is an
// error.
func (c *client) awaitStatus(id int64, will func(job.Status) bool) (job.Status, error) {
	for name := "nothing yet"; ; {
		var change [2]json.RawMessage
		if err := c.call(&change, "WaitForJobChange", id, []string{"status"}, []string{name}, nil, 20); err != nil {
			return 0, err
		}
		var values []string
		if json.Unmarshal(change[0], &values) != nil || len(values) != 1 {
			continue // timeout of the call
		}
		name = values[0]
		status, known := job.ParseStatus(name)
		if known && will(status) {
			return status, nil
		}
		if known && status.Final() {
			return status, fmt.Errorf("job %d has ended: %s", id, name)
		}
	}
}

// awaitSuccess waits until all jobs have succeeded. It waits for the last job first: the others have
// mostly ended then, and each wait costs the daemon time.
func (c *client) awaitSuccess(ids ...int64) error {
	wait := func(id int64) error {
		status, err := c.awaitStatus(id, job.Status.Final)
		if err == nil && status != job.Success {
			err = fmt.Errorf("job %d has ended: %s", id, status)
		}
		return err
	}
	if err := wait(ids[len(ids)-1]); err != nil || len(ids) == 1 {
		return err
	}
	var rows [][]string
	if err := c.call(&rows, "QueryJobs", ids, []string{"status"}); err != nil {
		return err
	}
	for i, row := range rows {
		if row[0] == job.Success.String() {
			continue
		}
		if err := wait(ids[i]); err != nil {
			return err
		}
	}
	return nil
}
