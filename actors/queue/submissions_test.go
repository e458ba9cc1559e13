package queue

import (
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/core/access"
	"lockstep/core/job"
	"lockstep/messages"
)

// buildNext begins a commit and builds its jobs.
func (s *submissions) buildNext(now job.Timestamp) bool {
	if !s.begin(now) {
		return false
	}
	s.number()
	for _, open := range s.group.submissions {
		for range open.drafts {
			s.build(open, now)
		}
	}
	return true
}

func TestSubmissionsArriveWhileACommitRuns(t *testing.T) {
	s := newSubmissions("/livelock", false)
	require.True(t, s.idle())
	require.False(t, s.buildNext(job.Timestamp{}), "no submission")
	first := &submission{from: requester{actor.NewPID("", "c"), 1}, drafts: []*messages.JobDraft{draftOf(delayInput), draftOf(delayInput)}, name: submissionName{text: "n1"}}
	s.incoming = append(s.incoming, first)
	require.True(t, s.buildNext(job.Timestamp{}))
	require.EqualValues(t, 2, s.serial)
	require.EqualValues(t, 1, first.firstID())
	require.EqualValues(t, 2, first.lastID())

	second := &submission{from: requester{actor.NewPID("", "c"), 2}, drafts: []*messages.JobDraft{draftOf(delayInput)}, name: submissionName{text: "n2"}}
	s.incoming = append(s.incoming, second)
	require.False(t, s.buildNext(job.Timestamp{}), "a commit is running")
	require.Same(t, first, s.findOpen(submissionName{text: "n1"}))
	require.Same(t, second, s.findOpen(submissionName{text: "n2"}))
	require.Nil(t, s.findOpen(submissionName{text: "n3"}))
	require.True(t, s.awaits(requester{actor.NewPID("", "c"), 2}))
	require.False(t, s.awaits(requester{actor.NewPID("", "d"), 2}))
	first.repeats = []requester{{actor.NewPID("", "d"), 9}}
	require.True(t, s.awaits(requester{actor.NewPID("", "d"), 9}))

	s.group.start()
	s.group.next(nil, false)
	require.Equal(t, []*submission{first}, s.end())
	require.EqualValues(t, 2, s.recorded)
	require.False(t, s.idle())
	require.True(t, s.buildNext(job.Timestamp{}))
	require.EqualValues(t, 3, second.firstID())
}

// The ids of a submission that cannot be built are not given again.
func TestADependencyThatCannotBeResolvedFailsItsSubmission(t *testing.T) {
	s := newSubmissions("/livelock", false)
	bad := &submission{drafts: []*messages.JobDraft{draftOf(`{"OP_ID": "OP_TEST_DELAY", "depends": [[-5, []]]}`)}}
	good := &submission{drafts: []*messages.JobDraft{draftOf(`{"OP_ID": "OP_TEST_DELAY", "depends": [[-1, []]]}`)}}
	s.incoming = append(s.incoming, bad, good)
	s.buildNext(job.Timestamp{})
	require.Equal(t, "OpPrereqError", bad.failure.Class)
	require.Nil(t, good.failure)
	require.EqualValues(t, 2, good.firstID())
	require.Equal(t, []int64{1}, good.dependencies[0])
}

func TestTheSubmitterIsInTheReasonTrail(t *testing.T) {
	s := newSubmissions("/livelock", false)
	forged := draftOf(`{"OP_ID": "OP_TEST_DELAY", "reason": [["` + job.UserSource + `", "bob", 1], ["` + job.SubmitterSource + `", "bob", 1]]}`)
	s.incoming = append(s.incoming, &submission{by: "ann", drafts: []*messages.JobDraft{forged}},
		&submission{by: "ann", submitter: access.Submitter{UID: 1000, Name: "ann"}.Encode(), drafts: []*messages.JobDraft{forged}})
	s.buildNext(job.Timestamp{Sec: 1})
	for i, named := range []bool{false, true} {
		encoded := s.group.submissions[i].encoded[0]
		require.Contains(t, string(encoded), "ann")
		require.NotContains(t, string(encoded), "bob")
		require.Equal(t, named, strings.Contains(string(encoded), `["lockstep:submitter", "uid=1000", `))
		j, err := job.Decode(encoded)
		require.NoError(t, err)
		require.Equal(t, named, j.NamesSubmitter())
	}
}

// Rules may read who has submitted a job over the remote API. A client of the socket cannot write that entry, unless the remote API is
// such a client.
func TestAClientOfTheSocketForgesNoUserOfTheRemoteAPI(t *testing.T) {
	for _, c := range []struct {
		by               string
		remoteOverSocket bool
		stays            bool
	}{
		{"uid=1000(ada), pid=7", false, false}, {"uid=1000(ada), pid=7, node=n2", false, false}, {"uid=1000(ada), pid=7", true, true},
		{"user=deploy, from=192.0.2.7", false, true},
	} {
		s := newSubmissions("/livelock", c.remoteOverSocket)
		s.incoming = append(s.incoming, &submission{by: c.by, drafts: []*messages.JobDraft{
			draftOf(`{"OP_ID": "OP_TEST_DELAY", "reason": [["lockstep:r\u0061pi", "user=admin", 1], ["gnt:user", "why", 2]]}`)}})
		s.buildNext(job.Timestamp{Sec: 1})
		encoded := string(s.group.submissions[0].encoded[0])
		require.Equal(t, c.stays, strings.Contains(encoded, "user=admin"), "%+v", c)
		require.Contains(t, encoded, "why")
	}
}

func TestANamedSubmissionIsKnownUntilItsLastJobIsArchived(t *testing.T) {
	n := newNamedSubmissions()
	n.add(submissionName{text: "a"}, 1)
	n.add(submissionName{text: "a"}, 2)
	n.add(submissionName{text: ""}, 3)
	n.drop(1)
	n.drop(3)
	require.Equal(t, []int64{1, 2}, n.jobs[submissionName{text: "a"}])
	n.drop(2)
	require.Empty(t, n.jobs)
	require.Empty(t, n.remaining)
	require.Empty(t, n.names)
}

func TestARepeatedSubmissionIsComparedWithItsJobs(t *testing.T) {
	same := func() *repeatedSubmission {
		return &repeatedSubmission{from: requester{request: 7}, name: submissionName{text: "n"}, ids: []int64{1, 2}, remaining: 2,
			drafts: []*messages.JobDraft{draftOf(delayInput), draftOf(delayInput)}}
	}
	made := newSubmissions("/l", false)
	made.incoming = []*submission{{drafts: []*messages.JobDraft{draftOf(delayInput), draftOf(`{"OP_ID": "OP_TEST_DELAY", "duration": 2.0}`)}}}
	made.buildNext(job.Timestamp{})
	jobs := made.group.submissions[0].encoded
	r := same()
	require.False(t, r.compare(0, nil), "an archived job is not compared")
	require.True(t, r.compare(1, nil))
	require.Equal(t, &messages.SubmitJobsResult{Request: 7, Ids: []int64{1, 2}}, r.result())

	r = same()
	r.compare(0, jobs[0])
	require.Nil(t, r.result().Failure)
	r.compare(1, jobs[1])
	require.Contains(t, r.result().Failure.Text, "with other jobs or opcodes")

	r = same()
	r.compare(0, []byte("no job"))
	require.Equal(t, "OpPrereqError", r.result().Failure.Class)

	r = same()
	r.failure = &messages.Failure{Class: "GenericError", Text: "EIO"}
	require.Contains(t, r.result().Failure.Text, "EIO; a submission named \"n\" came before")
}
