package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/edge/luxiclient"
)

// agreeTimeout is how long all views of a job may take to agree. It is shorter than the 20 s for which a watching client waits, so that a lost
// update is not replaced by the next question.
const agreeTimeout = 15 * time.Second

// view is the data of a job that clients receive.
type view struct {
	Status     string
	Statuses   []string
	Priorities []int
}

// onDisk is the content of the job's file.
func (d *daemon) onDisk(id int64) (v view, err error) {
	content, err := os.ReadFile(d.path("lib", "queue", fmt.Sprintf("job-%d", id)))
	if err != nil {
		return v, err
	}
	j, err := job.Decode(content)
	if err != nil {
		return v, err
	}
	v.Status = j.Status().String()
	for i := range j.Ops {
		v.Statuses, v.Priorities = append(v.Statuses, j.Ops[i].Status.String()), append(v.Priorities, j.Ops[i].Priority)
	}
	return v, nil
}

var viewFields = []string{"status", "opstatus", "oppriority"}

func viewOf(fields []json.RawMessage) (v view, err error) {
	for i, into := range []any{&v.Status, &v.Statuses, &v.Priorities} {
		err = errors.Join(err, json.Unmarshal(fields[i], into))
	}
	return v, err
}

// queried is the answer to QueryJobs; `lockstep list` and the remote API show the same.
func (c *client) queried(id int64) (view, error) {
	var rows [][]json.RawMessage
	if err := c.Call(context.Background(), "QueryJobs", []any{[]int64{id}, viewFields}, &rows); err != nil {
		return view{}, err
	}
	return viewOf(rows[0])
}

// pushedView is the last answer to WaitForJobChange, over all daemons.
type pushedView struct {
	mu   sync.Mutex
	last view
}

// subscribe watches a job over a separate connection until the test ends.
func (d *daemon) subscribe(id int64) *pushedView {
	p := &pushedView{}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	d.t.Cleanup(func() { stop(); <-over })
	go func() {
		defer close(over)
		var known []json.RawMessage
		for ctx.Err() == nil {
			client, err := luxiclient.Dial(ctx, d.path("run", "socket", "ganeti-query"), luxiclient.Options{})
			if err != nil {
				<-time.After(10 * time.Millisecond)
				continue
			}
			for err == nil {
				var change []json.RawMessage
				if err = client.Call(ctx, "WaitForJobChange", []any{id, viewFields, known, 0, 20}, &change); err == nil {
					err = p.apply(change, &known)
				}
			}
			_ = client.Close()
		}
	}()
	return p
}

func (p *pushedView) apply(change []json.RawMessage, known *[]json.RawMessage) error {
	var fields []json.RawMessage
	if err := json.Unmarshal(change[0], &fields); err != nil {
		return err
	}
	v, err := viewOf(fields)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, *known = v, fields
	return err
}

func (p *pushedView) view() view {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// requireAgreement waits until a job's file, the answers to queries and the updates pushed to
// a watching client agree about the job's opcodes.
func (d *daemon) requireAgreement(id int64, p *pushedView, statuses ...string) {
	d.t.Helper()
	eventuallyWithin(d.t, agreeTimeout, "the views of a job that rests do not agree", func() error {
		file, err := d.onDisk(id)
		if err != nil {
			return err
		}
		asked, err := d.dial().queried(id)
		if err != nil {
			return err
		}
		if told := p.view(); !reflect.DeepEqual(file.Statuses, statuses) || !reflect.DeepEqual(asked, file) || !reflect.DeepEqual(told, file) {
			return fmt.Errorf("the file says %v, QueryJobs %v, WaitForJobChange %v", file, asked, told)
		}
		return nil
	})
}

// viewCase is one way in which a job rests between two opcodes. before runs during the
// first opcode; second is the other opcode.
type viewCase struct {
	before func(d *daemon, c *client, id int64)
	second op
	after  func(d *daemon, c *client, id int64) // the first opcode has ended, and the job rests
}

func nothing(*daemon, *client, int64) {}

// addPauseRule adds a rule that pauses one job.
func (c *client) addPauseRule(id int64) (rule string) {
	c.t.Helper()
	c.call("ReplaceFilter", &rule, nil, 0, [][]any{{"jobid", []any{"=", "id", id}}}, "PAUSE", []any{})
	return rule
}

func pauseByRule(_ *daemon, c *client, id int64) { c.addPauseRule(id) }

// blockedByLock makes another job take the locks that a job has released because of a rule
// that pauses it, and then deletes the rule.
func blockedByLock(by func(c *client, work op) int64) func(*daemon, *client, int64) {
	return func(d *daemon, c *client, id int64) {
		work, _ := d.gate("taken")
		other := by(c, work)
		c.awaitStatus(other, "running")
		var rules [][]any
		c.call("QueryFilters", &rules, nil, []string{"uuid"})
		for _, rule := range rules {
			c.call("DeleteFilter", nil, rule[0])
		}
		c.awaitStatus(other, "running")
	}
}

// In each state in which a job waits, its file, the daemon's answers and the pushed updates
// agree. The job can be canceled there, and a new priority takes effect and is shown.
func TestViewsAgreeWhereverAJobRests(t *testing.T) {
	limited := [][]any{{"gnt:user", "rate-limit:1:b", 1}}
	for name, r := range map[string]viewCase{
		"a pause": {pauseByRule, command("true"), nothing},
		"a rate limit": {pauseByRule, command("true").with("reason", limited),
			blockedByLock(func(c *client, work op) int64 { return c.submit(work.with("reason", limited)) })},
		"a slot": {func(d *daemon, c *client, id int64) {
			c.call("LockstepSetSettings", nil, map[string]any{"max_running_jobs": 2}) // the other slot is in use
			c.addPauseRule(id)
		}, command("true"), blockedByLock(func(c *client, work op) int64 { return c.submit(work) })},
		"a dependency":    {nothing, command("true").with("depends", [][]any{{1, []string{"success"}}}), nothing},
		"a lock":          {nothing, command("true").with("locks", [][2]string{{"node/held", "exclusive"}}), nothing},
		"no daemon":       {func(d *daemon, _ *client, _ int64) { d.kill() }, command("true").with("depends", [][]any{{1, []string{"success"}}}), func(d *daemon, _ *client, _ int64) { d.start() }},
		"a daemon's kill": {pauseByRule, command("true"), func(d *daemon, _ *client, _ int64) { d.kill(); d.start() }},
		"a daemon's end":  {pauseByRule, command("true"), func(d *daemon, _ *client, _ int64) { d.stop(); d.start() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, how := range []string{"cancel", "kill"} {
				d := newDaemon(t)
				d.start()
				d.runViewCase(r, how == "kill")
			}
		})
	}
}

func (d *daemon) runViewCase(r viewCase, kill bool) {
	d.t.Helper()
	c := d.dial()
	holds, _ := d.gate("held")
	c.awaitStatus(c.submit(holds.with("locks", [][2]string{{"node/held", "exclusive"}})), "running")
	work, open := d.gate("gate")
	if reason, limited := r.second["reason"]; limited {
		work.with("reason", reason)
	}
	second := op{}
	for name, value := range r.second {
		second[name] = value
	}
	id := c.submit(work, second)
	p := d.subscribe(id)
	c.awaitStatus(id, "running")
	d.requireAgreement(id, p, "running", "queued")
	r.before(d, c, id)
	open()
	eventuallyWithin(d.t, patience, "the first opcode does not end", func() error {
		if file, err := d.onDisk(id); err != nil || file.Statuses[0] != "success" {
			return fmt.Errorf("the file says %v, %v", file, err)
		}
		return nil
	})
	r.after(d, c, id)
	d.requireAgreement(id, p, "success", "waiting")

	c = d.dial()
	done, text := c.ask("ChangeJobPriority", id, -20)
	require.True(d.t, done, text)
	eventuallyWithin(d.t, agreeTimeout, "the priority is not taken", func() error {
		if file, err := d.onDisk(id); err != nil || file.Priorities[1] != -20 {
			return fmt.Errorf("the file says %v, %v", file, err)
		}
		return nil
	})
	d.requireAgreement(id, p, "success", "waiting")
	done, text = c.ask("CancelJob", id, kill)
	require.True(d.t, done, text)
	require.Equal(d.t, "Job successfully cancelled", text)
	d.requireAgreement(id, p, "success", "canceled")
}

// A paused job that has given its run slot back and then gets a new priority continues at the
// new priority, before less urgent jobs.
func TestAnInterruptedJobGoesOnAtItsNewPriority(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	c.call("LockstepSetSettings", nil, map[string]any{"max_running_jobs": 1})
	work, open := d.gate("gate")
	trace := d.path("trace")
	id := c.submit(work, command("sh", "-c", "echo held >> "+trace))
	c.awaitStatus(id, "running")
	rule := c.addPauseRule(id)
	slot, end := d.gate("slot")
	other := c.submit(slot)
	open()
	c.awaitStatus(other, "running")
	urgent := c.submit(command("sh", "-c", "echo urgent >> "+trace).with("priority", -10))
	done, text := c.ask("ChangeJobPriority", id, -20)
	require.True(t, done, text)
	eventuallyWithin(t, agreeTimeout, "the priority is not shown", func() error {
		if v, err := c.queried(id); err != nil || v.Priorities[1] != -20 {
			return fmt.Errorf("it is said to be %v, %v", v, err)
		}
		return nil
	})
	c.call("DeleteFilter", nil, rule)
	end()
	require.Equal(t, "success", c.await(id).Status)
	require.Equal(t, "success", c.await(urgent).Status)
	ran, err := os.ReadFile(trace)
	require.NoError(t, err)
	require.Equal(t, "held\nurgent\n", string(ran))
}

// Clients that cancel a job or change its priority just before its end are all answered at
// once.
func TestClientOrdersThatCrossWithTheEnd(t *testing.T) {
	const clients, rounds = 8, 60
	d := newDaemon(t)
	d.start()
	var asking sync.WaitGroup
	failed := make([]error, clients)
	for i := range clients {
		c := d.dial()
		asking.Go(func() {
			for round := 0; round < rounds && failed[i] == nil; round++ {
				failed[i] = c.crossPriorities(round, time.Duration((i*7+round)%20)*time.Millisecond)
			}
		})
	}
	asking.Wait()
	require.NoError(t, errors.Join(failed...))
}

// crossPriorities submits a job and sends an order for it a little later.
func (c *client) crossPriorities(round int, pause time.Duration) error {
	var id int64
	if err := c.Call(context.Background(), "SubmitJob", []any{[]op{command("true")}}, &id); err != nil {
		return err
	}
	<-time.After(pause)
	method, args := "CancelJob", []any{id, false}
	switch round % 3 {
	case 1:
		args[1] = true
	case 2:
		method, args[1] = "ChangeJobPriority", round%20
	}
	ctx, stop := context.WithTimeout(context.Background(), agreeTimeout)
	defer stop()
	var answer [2]json.RawMessage
	if err := c.Call(ctx, method, args, &answer); err != nil {
		return fmt.Errorf("%s of job %d, %v after its submission: %w", method, id, pause, err)
	}
	if strings.Contains(string(answer[1]), "too busy") {
		return fmt.Errorf("%s of job %d: %s", method, id, answer[1])
	}
	return nil
}

// In a cluster of one node jobs survive a restart of the daemon, including jobs that wait for
// a lock.
func TestClusterOfOneKeepsLockWaitersOverARestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	m := c.nodes[0]
	lock := [][2]string{{"node/a", "exclusive"}}
	client := m.dial()
	client.call("LockstepSetSettings", nil, map[string]any{"order": "plain"}) // with it a job waits in a process
	ids := []int64{client.submit(c.workerOp("holder").with("locks", lock))}
	c.awaitWorker("holder")
	for range 3 {
		ids = append(ids, client.submit(command("true").with("locks", lock)))
	}
	for _, id := range ids[1:] {
		client.awaitStatus(id, "waiting")
	}
	program, stderr, code := m.tryCLI("status")
	require.Zero(t, code, stderr)
	require.Contains(t, program, "It is safe to stop or restart the daemon")
	for _, end := range []func(){m.end, m.crash} {
		end()
		m.start()
		c.awaitVotes(1)
		client = m.dial()
		for _, id := range ids[1:] {
			require.Equal(t, "waiting", client.query(id).Status)
		}
	}
	c.open()
	for _, id := range ids {
		require.Equal(t, "success", client.await(id).Status)
	}
}

// The other nodes have the results of a job's finished opcodes while the job is paused, and a
// failover keeps the results.
func TestClusterKeepsTheSuccessOfAHeldJob(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	master := c.master()
	client := master.dial()
	work, open := master.gate("gate")
	id := client.submit(work, command("true"))
	p := master.subscribe(id)
	client.awaitStatus(id, "running")
	client.addPauseRule(id)
	open()
	master.requireAgreement(id, p, "success", "waiting")
	file, err := master.onDisk(id)
	require.NoError(t, err)
	for _, m := range c.others(master) {
		eventuallyWithin(t, agreeTimeout, "node "+m.name+" has something else", func() error {
			if has, err := m.onDisk(id); err != nil || !reflect.DeepEqual(has, file) {
				return fmt.Errorf("it has %v, the master %v, %v", has, file, err)
			}
			return nil
		})
	}
	master.crash()
	next := c.master()
	ended := next.dial().await(id)
	require.Equal(t, []string{"success", "error"}, ended.Statuses)
	require.Equal(t, "up", ended.lines()[0], "its log is there, too") // what follows says that output of the opcode after it may be missing
	has, err := next.onDisk(id)
	require.NoError(t, err)
	require.Equal(t, ended.Statuses, has.Statuses)
}
