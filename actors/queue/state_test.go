package queue

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/record"
	"lockstep/messages"
)

func TestAnEndIsRecordedBesideAllDependents(t *testing.T) {
	r := newRecords()
	r.put(2, []int64{1}, record.Record{})
	r.put(3, []int64{1}, record.Record{}.WithDependencyEnd(1, job.Success))
	r.depend(4, []int64{1}) // being committed
	require.Equal(t, []int64{2, 3, 4}, r.of(1))
	require.True(t, r.hasUncommitted(1))
	require.Equal(t, []int64{1}, r.withUnrecordedEnd())

	w := r.addEnds([]end{{1, job.Success}})
	require.Equal(t, map[int64][]int64{2: {1}}, w.added)
	require.Len(t, r.files(w), 1)
	require.Empty(t, r.undo(w, nil))
	r.dropDependent(4, []int64{1})
	require.False(t, r.hasUncommitted(1))
	require.Empty(t, r.withUnrecordedEnd())
	require.Empty(t, r.files(r.addEnds([]end{{1, job.Success}})), "it is recorded")

	r.ended(2)
	r.ended(3)
	require.Empty(t, r.dependents)
	require.True(t, r.hasFile(2))
	r.remove(2)
	require.False(t, r.hasFile(2))
}

func TestAnEndThatCannotBeWrittenIsNotKnown(t *testing.T) {
	r := newRecords()
	r.put(3, []int64{1, 2}, record.Record{})
	w := r.addEnds([]end{{1, job.Success}, {2, job.Error}})
	status, known := r.endOf(2)
	require.True(t, known)
	require.Equal(t, job.Error, status)
	failed := r.undo(w, failing("queue/lockstep-3"))
	require.Len(t, failed, 2)
	_, known = r.endOf(1)
	require.False(t, known)
	require.True(t, r.hasFile(3), "the file may be there")
}

func TestAFileThatIsNoRecordIsArchivedToo(t *testing.T) {
	r := newRecords()
	r.put(1, nil, record.Record{})
	r.foundFile(1)
	require.True(t, r.hasFile(1))
}

func verdict(id int64, verb filter.Verb) *messages.Verdict {
	return &messages.Verdict{Id: id, Rule: "r", Action: int32(verb)}
}

func TestVerdictsOfAnEarlierIncarnationAreIgnored(t *testing.T) {
	v := newVerdicts(2)
	require.False(t, v.answersAll(&messages.EvaluateFiltersResult{}), "this incarnation has not asked")
	v.allRequested = true
	require.True(t, v.answersAll(&messages.EvaluateFiltersResult{}))

	question := v.ask(nil)
	earlier := newVerdicts(1).ask(nil)
	require.False(t, v.answersGroup(&messages.EvaluateFiltersResult{Request: earlier.Request}))
	answer := &messages.EvaluateFiltersResult{Request: question.Request, Verdicts: []*messages.Verdict{verdict(5, filter.Pause)}}
	require.True(t, v.answersGroup(answer))
	require.Equal(t, filter.Pause, v.verb(5))
	require.False(t, v.answersGroup(answer), "it is answered")
	v.forget(5)
	require.Equal(t, filter.Accept, v.verb(5))
}

func TestACompleteAnswerAcceptsWhatItDoesNotName(t *testing.T) {
	v := newVerdicts(1)
	v.change([]*messages.Verdict{verdict(1, filter.Pause), verdict(2, filter.Pause), verdict(3, filter.Pause)})
	v.scheduler = 7
	changed := v.completed([]*messages.Verdict{verdict(2, filter.Reject)})
	v.change(changed.Verdicts)
	require.True(t, v.complete)
	require.Equal(t, filter.Accept, v.verb(1))
	require.Equal(t, filter.Reject, v.verb(2))
	require.Len(t, v.of, 1)
	require.EqualValues(t, 7, v.takeScheduler())
	require.Zero(t, v.takeScheduler())
}

func TestASubscriberHasOneJob(t *testing.T) {
	a, b := actor.NewPID("", "a"), actor.NewPID("", "b")
	s := newSubscribers()
	s.subscribe(a, 1)
	s.subscribe(b, 1)
	require.Equal(t, []*actor.PID{a, b}, s.byJob[1])
	s.unsubscribe(a)
	s.unsubscribe(a)
	require.Equal(t, []*actor.PID{b}, s.byJob[1])
	s.ended(1)
	require.Empty(t, s.byJob)
	require.Empty(t, s.jobOf)
	s.subscribe(a, 2)
	s.terminated(a)
	require.Empty(t, s.byJob)
}

func TestNewsIsSentOnce(t *testing.T) {
	a := actor.NewPID("", "a")
	s := newSubscribers()
	require.Nil(t, s.news(infoOf(1, job.Queued)), "no subscriber")
	require.True(t, s.subscribeAll(a, &messages.SubscribeAllJobs{}))
	require.False(t, s.subscribeAll(a, &messages.SubscribeAllJobs{}))
	require.Len(t, s.news(infoOf(1, job.Queued), infoOf(2, job.Queued)), 2)
	require.Equal(t, []*messages.JobInfo{infoOf(2, job.Running)}, s.news(infoOf(1, job.Queued), infoOf(2, job.Running)))
	s.forget(1)
	require.Len(t, s.news(infoOf(1, job.Queued)), 1)
	s.terminated(a)
	require.Nil(t, s.news(infoOf(3, job.Queued)))
}
