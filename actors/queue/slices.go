package queue

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/answer"
	"lockstep/messages"
)

const (
	// sliceWork is the work between two messages, in steps of about 20 ns: 5 ms.
	sliceWork = 250_000
	// checkWork and checkedPerStep are the work of checking a job of a submission, and the bytes that are checked in one step.
	checkWork, checkedPerStep = 20, 16
	// buildWork and builtPerStep are the same for building the job: its file, and what the index has of it.
	buildWork, builtPerStep = 250, 3
)

// step does some work of the running commit, subtracts it from work, and returns false before the end if there is none left.
type step func(ctx actor.Context, work *int) (done bool)

// proceed is sent by the queue to itself for the next slice of the running commit.
type proceed struct{ incarnation uint32 }

// inSlices performs a step of the running commit, and then calls then. Messages in between wait for one slice only. Nothing of a submission
// is on the disk before its jobs are built, so a crash between two slices loses a submission without an answer, and nothing else.
func (q *queue) inSlices(ctx actor.Context, perform step, then func(actor.Context)) {
	work := cmp.Or(q.config.SliceWork, sliceWork)
	if perform(ctx, &work) {
		then(ctx)
		return
	}
	q.next = func(ctx actor.Context) { q.inSlices(ctx, perform, then) }
	ctx.Send(ctx.Self(), &proceed{q.incarnation})
}

// proceed makes the next slice. A message of a former incarnation is dropped.
func (q *queue) proceed(ctx actor.Context, m *proceed) {
	if m.incarnation == q.incarnation {
		q.next(ctx)
	}
}

// checkGroup answers those submissions of the running commit that no process can run, and drops them from it. It reports false when the
// slice of work is used up.
func (q *queue) checkGroup(ctx actor.Context, work *int) (done bool) {
	group := q.submissions.group
	for i := 0; i < len(group.submissions); {
		s := group.submissions[i]
		for ; s.failure == nil && s.checked < len(s.drafts) && len(s.mistakes) < answer.MistakesMax; s.checked++ {
			if *work <= 0 {
				return false
			}
			draft := s.drafts[s.checked]
			*work -= checkWork + inputBytes(draft)/checkedPerStep
			s.mistakes = append(s.mistakes, q.launcher.mistakes(s.checked+1, draft)...)
		}
		if len(s.mistakes) > 0 {
			s.failure = mistaken(s.mistakes[0].Text, s.mistakes)
		}
		if s.failure == nil {
			i++
			continue
		}
		q.admission.unfinished -= len(s.drafts)
		s.answer(ctx, nil)
		group.submissions = slices.Delete(group.submissions, i, i+1)
	}
	return true
}

// buildGroup builds the jobs of the running commit, which have their ids. It reports false when the slice of work is used up.
func (q *queue) buildGroup(_ actor.Context, work *int) (done bool) {
	group := q.submissions.group
	for _, s := range group.submissions {
		for i := len(s.jobs); i < len(s.drafts); i++ {
			if *work <= 0 {
				return false
			}
			*work -= buildWork + inputBytes(s.drafts[i])/builtPerStep
			q.submissions.build(s, group.began)
			s.infos = append(s.infos, q.newInfo(s.jobs[i], s.encoded[i], s.records[i]))
		}
	}
	return true
}

// inputBytes is the size of a job's opcodes in bytes.
func inputBytes(draft *messages.JobDraft) int {
	size := 0
	for _, op := range draft.Ops {
		size += len(op.Input)
	}
	return size
}
