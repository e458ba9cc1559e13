package why_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/why"
)

var style = why.Style{
	Clean: strings.ToUpper, // shows what is data
	Short: func(text string) string { return strings.ToUpper(text[:min(len(text), 10)]) },
	Span:  time.Duration.String,
	Ago:   func(now, at time.Time) string { return now.Sub(at).String() + " ago" },
	Clock: func(_, at time.Time) string { return at.Format("15:04") },
}

func TestReasonsInWords(t *testing.T) {
	now := time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)
	running, failed := "running", "error"
	since := &answer.Time{Time: now.Add(-time.Hour)}
	later := &answer.Time{Time: now.Add(time.Hour)}
	locks := func(names ...string) (all []answer.LockItem) {
		for _, name := range names {
			all = append(all, answer.LockItem{Lock: name, Mode: "exclusive"})
		}
		return all
	}
	for want, r := range map[string]answer.Reason{
		"It waits for job 7, which is RUNNING, to end with SUCCESS.":                                {Kind: answer.WhyDependency, Job: 7, JobStatus: &running, Statuses: []string{"success"}},
		"It needs job 7, which has ended with ERROR, to end with SUCCESS.":                          {Kind: answer.WhyDependency, Job: 7, JobStatus: &failed, Statuses: []string{"success"}},
		"Its opcode 3 waits for job 7, which is not known, to end with SUCCESS or ERROR.":           {Kind: answer.WhyDependency, Opcode: 2, Job: 7},
		"It waits for job 7, which was archived on another node or removed, to end with A, B or C.": {Kind: answer.WhyDependency, Job: 7, Unknown: true, Statuses: []string{"a", "b", "c"}},
		"It is held by ALICE: it begins no opcode until it is released.":                            {Kind: answer.WhyHold, By: "user=alice"},
		"It cannot end, because jobs wait for each other: job 5 waits for job 6; job 6 needs LOCK/A, which job 7 has; job 7 depends on job 5.": {Kind: answer.WhyCycle, Steps: []answer.WaitStep{
			{Job: 5, For: 6, By: answer.WaitProcess}, {Job: 6, For: 7, By: answer.WaitLock, Lock: "lock/a"}, {Job: 7, For: 5, By: answer.WaitDependency}}},
		"No run slot becomes free, because each of the 2 jobs that have one waits for a job that has none: job 5 waits for job 6.": {Kind: answer.WhyCycle, Slots: 2, Steps: []answer.WaitStep{{Job: 5, For: 6, By: answer.WaitProcess}}},
		"The run slot does not become free, because the job that has it waits for a job that has none: job 5 waits for job 6.":     {Kind: answer.WhyCycle, Slots: 1, Steps: []answer.WaitStep{{Job: 5, For: 6, By: answer.WaitProcess}}},
		"It is held: it begins no opcode until it is released.":                                                                    {Kind: answer.WhyHold},
		"It starts no earlier than 13:00.":                                                              {Kind: answer.WhyDue, Due: later},
		"Try 2 of 6 begins at 13:00.":                                                                   {Kind: answer.WhyDue, Due: later, Try: &answer.Try{Number: 2, Most: 6}},
		"Try 2 of 6 begins at 13:00. The last one has failed: EXIT 75.":                                 {Kind: answer.WhyDue, Due: later, Try: &answer.Try{Number: 2, Most: 6, Last: "exit 75"}},
		"Filter rule ABC (MAINTENANC; made by BOB) holds it back until the rule is changed or deleted.": {Kind: answer.WhyFilter, UUID: "abc", Action: "PAUSE", RuleReason: "maintenance of n1", By: "bob"},
		"Filter rule ABC rejects it: it will be canceled.":                                              {Kind: answer.WhyFilter, UUID: "abc", Action: "REJECT"},
		"Filter rule ABC holds it back (ODD).":                                                          {Kind: answer.WhyFilter, UUID: "abc", Action: "odd"},
		"Filter rule ABC lets 2 such jobs run at a time, and 3 are running.":                            {Kind: answer.WhyFilterLimit, UUID: "abc", Limit: 2, Running: 3},
		`One of its reasons is "disk": 2 such jobs may run at a time, and 2 are running.`:               {Kind: answer.WhyRateLimit, Label: "disk", Limit: 2, Running: 2},
		"All run slots are taken: 20 of 20.":                                                            {Kind: answer.WhySlots, Slots: 20, Running: 20},
		"It is next.":                                                                                   {Kind: answer.WhyOrder, Position: 1, Pending: 1},
		"It is next of 4 pending jobs.":                                                                 {Kind: answer.WhyOrder, Position: 1, Pending: 4},
		"At least 99 of 400 pending jobs go before it.":                                                 {Kind: answer.WhyOrder, Position: 100, AtLeast: true, Pending: 400},
		"It is number 3 of 4 pending jobs.":                                                             {Kind: answer.WhyOrder, Position: 3, Pending: 4},
		"Its process is being started.":                                                                 {Kind: answer.WhyStarting},
		"It cannot be started as ALICE: NO ANSWER.":                                                     {Kind: answer.WhyCannotStart, By: "alice", Text: "no answer"},
		"Job processes cannot be started: NO MEMORY.":                                                   {Kind: answer.WhyCannotStart, Text: "no memory."},
		"The daemon is stopping; jobs start when it runs again.":                                        {Kind: answer.WhyStopping},
		"It is at work.": {Kind: answer.WhyRunning, Opcodes: 1},
		"It has been at opcode 2 of 3 for 1h0m0s, since 11:00.": {Kind: answer.WhyRunning, Opcode: 1, Opcodes: 3, Since: since},
		"The time of its end is unknown.":                       {Kind: answer.WhyEnded},
		"It ended 1h0m0s ago: BROKEN.":                          {Kind: answer.WhyEnded, Since: since, Text: "broken"},
		"It has been waiting for N1 (EXCLUSIVE) for 1m5s; they are free now, and it is about to begin.": {Kind: answer.WhyLock, Seconds: 65, Locks: locks("n1")},
		"It has been waiting for N1 (EXCLUSIVE) for 1m5s, which it needs along with another lock: job 5 holds it.": {
			Kind: answer.WhyLock, Seconds: 65, Locks: locks("bgl", "n1"), Blockers: []answer.Blocker{{Job: 5, Locks: []string{"n1"}}}},
		"It has been waiting for N1 (EXCLUSIVE) and N2 (EXCLUSIVE) for 0s, which it needs along with 2 other locks: GNT-CLUSTER has held N1 and N2 for 1h0m0s; job 5 comes before it.": {
			Kind: answer.WhyLock, Locks: locks("n1", "n2", "a", "b"), Blockers: []answer.Blocker{{Owner: "gnt-cluster", Locks: []string{"n1", "n2"}, Since: *since}, {Job: 5}}},
		"It is number 3 of 4 pending jobs. Others of its priority come before it, because it would contend with job 5 for N1 and GNT; that counts less the longer it waits (its weight is 2.5).": {
			Kind: answer.WhyOrder, Position: 3, Pending: 4, Weight: 2.5, Causes: []answer.Cause{{Job: 5, Lock: "n1"}, {Owner: "gnt"}}},
	} {
		require.Equal(t, want, style.Sentence(r, now).String())
	}
	require.Nil(t, style.Sentence(answer.Reason{Kind: "moon"}, now))
}

// The names of jobs and rules are parts of their own.
func TestNamesInSentences(t *testing.T) {
	s := style.Sentence(answer.Reason{Kind: answer.WhyDependency, Job: 7}, time.Time{})
	require.Contains(t, s, why.Part{Text: "job 7", Job: 7})
	s = style.Sentence(answer.Reason{Kind: answer.WhyFilter, UUID: "abc", Action: "PAUSE"}, time.Time{})
	require.Contains(t, s, why.Part{Text: "ABC", Rule: "abc"})
}
