package queue

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
)

func draftOf(input string) *messages.JobDraft {
	return &messages.JobDraft{Ops: []*messages.OpDraft{{Input: []byte(input)}}}
}

const delayInput = `{"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "reason": []}`

// begunGroup is the commit of submissions of one job each, after serial 5.
func begunGroup(n int) *groupCommit {
	s := newSubmissions("/livelock", false)
	s.serial, s.recorded = 5, 5
	for i := range n {
		s.incoming = append(s.incoming, &submission{from: requester{request: uint64(i + 1)}, drafts: []*messages.JobDraft{draftOf(delayInput)}})
	}
	s.buildNext(job.Timestamp{Sec: 1})
	return s.group
}

// String describes a step, for comparisons.
func (s commitStep) String() string {
	var what []string
	switch {
	case s.write != nil:
		for _, f := range s.write.Files {
			what = append(what, f.Path)
			if f.Path == paths.SerialPath {
				what = append(what, strings.TrimSpace(string(f.Content)))
			}
		}
		if f := s.write.CommitRecord; f != nil {
			what = append(what, "then", f.Path, strings.TrimSpace(string(f.Content)))
		}
		return "write " + strings.Join(what, " ")
	case s.remove != nil:
		return "remove " + strings.Join(s.remove.Paths, " ")
	case s.crash != nil:
		return "crash: " + s.crash.Text
	}
	return "over"
}

func failing(paths ...string) []*messages.FileFailure {
	var failures []*messages.FileFailure
	for _, p := range paths {
		failures = append(failures, &messages.FileFailure{Path: p, Failure: &messages.Failure{Class: "GenericError", Text: "no " + p}})
	}
	return failures
}

// Each row is a commit of two submissions, jobs 6 and 7, after serial 5.
func TestEveryStepOfACommitMayFail(t *testing.T) {
	type result struct {
		failed   []string
		repeated bool
		next     string
	}
	for name, r := range map[string]struct {
		results  []result
		recorded int64
		failures []string // of the submissions
	}{
		"nothing fails": {[]result{{nil, false, "over"}}, 7, []string{"", ""}},
		"one job": {[]result{
			{[]string{"queue/job-6"}, false, "remove queue/job-6"},
			{nil, false, "write queue/serial 7"},
			{nil, false, "over"}}, 7, []string{"no queue/job-6", ""}},
		"the last job": {[]result{
			{[]string{"queue/job-7"}, false, "remove queue/job-7"},
			{nil, false, "write queue/serial 6"},
			{nil, false, "over"}}, 6, []string{"", "no queue/job-7"}},
		"both jobs": {[]result{
			{[]string{"queue/job-6", "queue/job-7"}, false, "remove queue/job-6 queue/job-7"},
			{nil, false, "over"}}, 5, []string{"no queue/job-6", "no queue/job-7"}},
		"one job, and its removal": {[]result{
			{[]string{"queue/job-6"}, false, "remove queue/job-6"},
			{[]string{"queue/job-6"}, false, "remove queue/job-6 queue/job-7"},
			{nil, false, "over"}}, 5, []string{"no queue/job-6", "no queue/job-6"}},
		"the serial": {[]result{
			{[]string{"queue/serial"}, false, "write queue/serial 5"},
			{nil, false, "remove queue/job-6 queue/job-7"},
			{nil, false, "over"}}, 5, []string{"no queue/serial", "no queue/serial"}},
		"one job, in a write that may have been performed before": {[]result{
			{[]string{"queue/job-6"}, true, "write queue/serial 5"},
			{nil, false, "remove queue/job-6 queue/job-7"},
			{nil, false, "over"}}, 5, []string{"no queue/job-6", "no queue/job-6"}},
		"one job, then the serial": {[]result{
			{[]string{"queue/job-6"}, false, "remove queue/job-6"},
			{nil, false, "write queue/serial 7"},
			{[]string{"queue/serial"}, false, "write queue/serial 5"},
			{nil, false, "remove queue/job-6 queue/job-7"},
			{nil, false, "over"}}, 5, []string{"no queue/job-6", "no queue/serial"}},
		"the serial, and the serial of before": {[]result{
			{[]string{"queue/serial"}, false, "write queue/serial 5"},
			{[]string{"queue/serial"}, false, "crash: no queue/serial"}}, 5, []string{"look at the list", "look at the list"}},
		"the serial, and the removal": {[]result{
			{[]string{"queue/serial"}, false, "write queue/serial 5"},
			{nil, false, "remove queue/job-6 queue/job-7"},
			{[]string{"queue/job-7"}, false, "crash: no queue/job-7"}}, 5, []string{"look at the list", "look at the list"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := begunGroup(2)
			require.Equal(t, "write queue/job-6 queue/job-7 then queue/serial 7", fmt.Sprint(c.start()))
			for _, x := range r.results {
				require.Equal(t, x.next, fmt.Sprint(c.next(failing(x.failed...), x.repeated)))
			}
			require.Equal(t, r.recorded, c.recorded)
			for i, s := range c.submissions {
				if r.failures[i] == "" {
					require.Nil(t, s.failure)
				} else {
					require.Contains(t, s.failure.Text, r.failures[i])
				}
			}
		})
	}
}

// The serial is not written together with jobs that will be removed.
func TestAGroupWithARefusedSubmissionWritesTheSerialLast(t *testing.T) {
	c := begunGroup(2)
	c.submissions[0].failure = wrongInput("bad")
	require.Equal(t, "write queue/job-6 queue/job-7", fmt.Sprint(c.start()))
	require.Equal(t, "remove queue/job-6", fmt.Sprint(c.next(nil, false)))
	require.Equal(t, "write queue/serial 7", fmt.Sprint(c.next(nil, false)))
	require.Equal(t, "over", fmt.Sprint(c.next(nil, false)))
	require.EqualValues(t, 7, c.recorded)
}

// A repeated write without a serial cannot have written one.
func TestARepeatedWriteWithoutASerialIsNotRolledBack(t *testing.T) {
	c := begunGroup(1)
	c.submissions[0].failure = wrongInput("bad")
	c.start()
	require.Equal(t, "remove queue/job-6", fmt.Sprint(c.next(failing("queue/job-6"), true)))
	require.Equal(t, "over", fmt.Sprint(c.next(nil, false)))
	require.EqualValues(t, 5, c.recorded)
}
