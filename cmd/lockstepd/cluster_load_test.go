package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
)

// load is a set of users who submit small jobs all the time, and the answers that they got.
type load struct {
	c     *cluster
	stop  context.CancelFunc
	users sync.WaitGroup

	mu         sync.Mutex
	accepted   map[int64]string // by id, the last status that a user has seen
	violations []string         // broken invariants as text
	acks       []ack
}

// ack is one acknowledged submission.
type ack struct {
	begun time.Time // the last attempt
	ended time.Time
	ids   []int64
}

// startLoad starts the users. Users with different seeds behave differently.
func (c *cluster) startLoad(users int, seed uint64) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{c: c, stop: cancel, accepted: map[int64]string{}}
	for i := range users {
		u := c.user(i)
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		l.users.Go(func() {
			defer u.close()
			for ctx.Err() == nil {
				l.round(ctx, u, random)
			}
		})
	}
	c.t.Cleanup(l.end)
	return l
}

// end returns when the last user has ended.
func (l *load) end() {
	l.stop()
	l.users.Wait()
}

// round submits a few jobs and follows them for a while.
func (l *load) round(ctx context.Context, u *user, random *rand.Rand) {
	jobs := withNames(l.jobs(random))
	var ids []int64
	for ids == nil {
		begun := time.Now()
		attempt, err := l.attempt(u, jobs)
		switch {
		case err == nil:
			ids = attempt
			l.accept(ids, ack{begun, time.Now(), ids})
		case !isTransient(err):
			l.violation("a submission was refused: %v", err)
			return
		case ctx.Err() != nil:
			return // the client got no answer: the jobs may exist
		}
		if err != nil {
			u.at = random.IntN(len(u.c.nodes))
			<-time.After(10 * time.Millisecond)
		}
	}
	if random.IntN(4) == 0 {
		u.close() // the next call uses another node
		u.at = random.IntN(len(u.c.nodes))
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end) && ctx.Err() == nil; {
		asked, cancel := context.WithTimeout(ctx, time.Second)
		statuses, err := u.statuses(asked, ids)
		cancel()
		if err == nil {
			l.observe(ids, statuses)
		}
		if err == nil && !slices.ContainsFunc(statuses, func(s string) bool { return !isFinal(s) }) {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (l *load) attempt(u *user, jobs [][]op) ([]int64, error) {
	var answers [][2]any
	if err := u.once("SubmitManyJobs", &answers, jobs); err != nil {
		return nil, err
	}
	ids := []int64{}
	for i, answer := range answers {
		if answer[0] != true {
			return nil, fmt.Errorf("job %d: %v", i, answer[1])
		}
		ids = append(ids, int64(answer[1].(float64)))
	}
	return ids, nil
}

// jobs are like the jobs of the chaos test: each opcode leaves a trace, and a kernel lock
// shows whether the lock manager has granted one lock twice.
func (l *load) jobs(random *rand.Rand) [][]op {
	var list [][]op
	for range 1 + random.IntN(3) {
		var ops []op
		for k := range 1 + random.IntN(2) {
			ran := fmt.Sprintf("echo ran >> %s/ran-$LOCKSTEP_JOB_ID-%d; sleep 0.%02d", l.c.shared, k, random.IntN(20))
			if random.IntN(3) > 0 {
				ops = append(ops, command("sh", "-c", ran))
				continue
			}
			node := fmt.Sprintf("node/n%d", random.IntN(3))
			file := filepath.Join(l.c.shared, filepath.Base(node))
			ops = append(ops, command("flock", "--nonblock", "--conflict-exit-code", "99", file, "sh", "-c", ran).
				with("locks", [][2]string{{node, "exclusive"}}))
		}
		list = append(list, ops)
	}
	return list
}

func (l *load) accept(ids []int64, a ack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks = append(l.acks, a)
	for _, id := range ids {
		if _, again := l.accepted[id]; again {
			l.violations = append(l.violations, fmt.Sprintf("the id %d was given twice", id))
		}
		l.accepted[id] = ""
	}
}

// observe records the status of jobs. A job that has ended must keep its status, and a job
// that exists must stay.
func (l *load) observe(ids []int64, statuses []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, id := range ids {
		before, now := l.accepted[id], statuses[i]
		switch {
		case now == "":
			l.violations = append(l.violations, fmt.Sprintf("job %d was accepted and does not exist", id))
		case isFinal(before) && now != before:
			l.violations = append(l.violations, fmt.Sprintf("job %d has ended with %s, and then was %s", id, before, now))
		}
		l.accepted[id] = now
	}
}

// violation records a broken invariant.
func (l *load) violation(text string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violations = append(l.violations, fmt.Sprintf(text, args...))
}

// nextAck waits until a submission that was begun later than after is acknowledged, and
// returns the time from after to the acknowledgment.
func (l *load) nextAck(after time.Time) time.Duration {
	l.c.t.Helper()
	var took time.Duration
	l.c.eventually("no submission is acknowledged any more", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := len(l.acks) - 1; i >= 0 && l.acks[i].ended.After(after); i-- {
			if l.acks[i].begun.After(after) {
				took = l.acks[i].ended.Sub(after)
			}
		}
		if took == 0 {
			return fmt.Errorf("%d were before", len(l.acks))
		}
		return nil
	})
	return took
}

// nextStart waits until a job starts whose submission was begun later than after and is acknowledged, and returns the time from after to
// its start, by the clock of the node that started it.
func (l *load) nextStart(after time.Time) (took time.Duration) {
	l.c.t.Helper()
	u := l.c.user(0)
	defer u.close()
	l.c.eventually("no job starts any more", func() error {
		l.mu.Lock()
		var ids []int64
		for _, a := range l.acks {
			if a.begun.After(after) {
				ids = append(ids, a.ids...)
			}
		}
		l.mu.Unlock()
		var rows [][]any
		u.must("QueryJobs", &rows, ids, []string{"start_ts"})
		for _, row := range rows {
			if at, started := row[0].([]any); started {
				began := time.Unix(int64(at[0].(float64)), int64(at[1].(float64))*1000).Sub(after)
				if took == 0 || began < took {
					took = began
				}
			}
		}
		return unless(took > 0, "%d jobs wait", len(rows))
	})
	return took
}

// awaitAcks waits until this number of further submissions is acknowledged.
func (l *load) awaitAcks(submissions int) {
	l.c.t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.acks)
	}
	want := count() + submissions
	l.c.eventually("too few submissions are acknowledged", func() error {
		if have := count(); have < want {
			return fmt.Errorf("%d, not %d", have, want)
		}
		return nil
	})
}

func (l *load) ids() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]int64, 0, len(l.accepted))
	for id := range l.accepted {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// awaitEnds waits until every job has ended and every node has its end.
func (l *load) awaitEnds() {
	l.c.t.Helper()
	l.end()
	u := l.c.user(0)
	defer u.close()
	l.c.eventually("not every job ends", func() error {
		var rows [][]any
		u.must("QueryJobs", &rows, nil, []string{"id", "status"})
		for _, row := range rows {
			if !isFinal(row[1].(string)) {
				return fmt.Errorf("job %v is %v", row[0], row[1])
			}
		}
		return nil
	})
	ids := l.ids()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	statuses, err := u.statuses(ctx, ids)
	require.NoError(l.c.t, err)
	l.observe(ids, statuses)
	l.c.awaitEqual()
}

// check checks the final state on the disks of all nodes.
func (l *load) check() {
	t := l.c.t
	t.Helper()
	require.Empty(t, l.violations)
	failed := 0
	for _, m := range l.c.nodes {
		files := m.files()
		for _, id := range l.ids() {
			file, there := files[id]
			require.True(t, there, "job %d is not on node %s", id, m.name)
			require.NotContains(t, file, `"end_timestamp": null, "received_timestamp"`, "job %d has not ended on node %s", id, m.name)
			require.NotContains(t, file, `"exit_status": 99`, "job %d worked with a lock that another one had", id)
		}
	}
	first := l.c.nodes[0].files()
	for id, status := range l.accepted {
		if status != "success" {
			failed++
			require.Regexp(t, "detected death|failed to start", first[id], "job %d has failed for another reason than the loss of its node", id)
		}
	}
	t.Logf("%d submissions of %d jobs acknowledged, %d of them did not succeed", len(l.acks), len(l.accepted), failed)
	traces, err := filepath.Glob(filepath.Join(l.c.shared, "ran-*"))
	require.NoError(t, err)
	for _, trace := range traces {
		content, err := os.ReadFile(trace)
		require.NoError(t, err)
		// Empty: it was killed between opening the file and writing.
		require.Contains(t, []string{"ran\n", ""}, string(content), "%s: a command has run twice", filepath.Base(trace))
	}
	l.c.checkSucceeded(l.accepted, len(traces))
	for _, m := range l.c.nodes {
		for line := range strings.Lines(m.logged()) {
			require.NotContains(t, line, "panic", "node %s", m.name)
		}
	}
}

// checkSucceeded checks that every job that has succeeded has run.
func (c *cluster) checkSucceeded(accepted map[int64]string, traces int) {
	c.t.Helper()
	for id, status := range accepted {
		if status == "success" {
			_, err := os.Stat(filepath.Join(c.shared, fmt.Sprintf("ran-%d-0", id)))
			require.NoError(c.t, err, "job %d has succeeded and not run; %d opcodes have", id, traces)
		}
	}
}

// spread formats the distribution of durations.
func spread(all []time.Duration) string {
	sorted := slices.Sorted(slices.Values(all))
	texts := make([]string, len(sorted))
	for i, d := range sorted {
		texts[i] = d.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("min %s, median %s, max %s (%s)", texts[0], texts[len(texts)/2], texts[len(texts)-1], strings.Join(texts, " "))
}
