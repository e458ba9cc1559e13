package jobs

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/jobproc"
	"lockstep/messages"
)

// Accounts is the port that asks the node for the accounts of users.
type Accounts interface {
	// Find answers `to` with AccountsFound. It does not block.
	Find(question uint64, users []jobproc.User, to *actor.PID)
}

// AccountsFound answers Accounts.Find.
type AccountsFound struct {
	Question uint64
	Answers  []jobproc.AccountAnswer // of each user; nil if Unanswered is not nil
	// Unanswered is a user of whom the node says nothing now, and Text says why.
	Unanswered *jobproc.User
	Text       string
}

// unansweredMax bounds the pauses before a job is started again whose user the node does not know now.
const unansweredMax = 10 * time.Second

// unansweredMin is the number of failures with which kit.Backoff begins: a pause of 0.8 s.
const unansweredMin = 3

// accountFinds are the jobs whose commands run as other users than the daemon's. Such a job is started when the accounts are known. It
// waits for them before it takes one of the starts in flight, so that a directory service that does not answer delays the jobs of its
// users only.
type accountFinds struct {
	last  uint64                        // number of a question; the upper 32 bits are the incarnation
	asked map[uint64]*messages.StartJob // by question
	waits map[int64]accountWait         // by job: the node had no answer. At most failedStartsMax
}

// accountWait is a job whose start has failed because the node had no answer about a user.
type accountWait struct {
	tries      int
	user, text string
}

// remember keeps why a job is not started, and returns the pause before the next try.
func (f *accountFinds) remember(id int64, user, text string) (pause time.Duration) {
	w, known := f.waits[id]
	if !known && len(f.waits) >= failedStartsMax {
		f.waits = map[int64]accountWait{}
	}
	f.waits[id] = accountWait{w.tries + 1, user, text}
	return min(kit.Backoff(w.tries+unansweredMin), unansweredMax)
}

// question returns the number of the question that is open for a job; 0: none is.
func (f *accountFinds) question(id int64) uint64 {
	for number, m := range f.asked {
		if m.Id == id {
			return number
		}
	}
	return 0
}

// findAccounts asks for the accounts of a job. It waits for no start in flight.
func (j *jobs) findAccounts(ctx actor.Context, m *messages.StartJob) {
	var users []jobproc.User
	if err := json.Unmarshal(m.RunAs, &users); err != nil {
		panic(fmt.Errorf("the users of job %d: %w", m.Id, err)) // the queue has encoded them
	}
	j.accounts.last++
	j.accounts.asked[j.accounts.last] = m
	j.config.Accounts.Find(j.accounts.last, users, ctx.Self())
}

// accountsFound lets a job wait for its start, with its accounts. Without an answer it goes back to the queue for a while. A user without
// account fails the opcode that runs as this user, in the process of the job.
func (j *jobs) accountsFound(ctx actor.Context, m *AccountsFound) {
	start := j.accounts.asked[m.Question]
	if start == nil {
		return // the job went back to the queue meanwhile
	}
	delete(j.accounts.asked, m.Question)
	if m.Unanswered != nil {
		pause := j.accounts.remember(start.Id, m.Unanswered.String(), m.Text)
		j.config.Env.Log().WithFields(logrus.Fields{"job": start.Id, "user": m.Unanswered.String(), "err": m.Text, "delay": pause}).
			Warn("the account of a job's user is not known now; the job waits and is tried again")
		delete(j.active, start.Id)
		ctx.Send(j.config.Queue, &messages.JobReturned{Id: start.Id, RetryAfterMs: pause.Milliseconds()})
		return
	}
	delete(j.accounts.waits, start.Id)
	j.waiting = append(j.waiting, &messages.StartJob{Id: start.Id, Encoded: start.Encoded, Program: start.Program,
		Launch: jobproc.WithAccounts(start.Launch, m.Answers)})
	j.startNext(ctx)
}

// startError says why a job cannot be started; id 0: why no job can be.
func (j *jobs) startError(id int64) *messages.GetStartErrorResult {
	if w, waits := j.accounts.waits[id]; waits {
		return &messages.GetStartErrorResult{User: w.user, Text: w.text}
	}
	return &messages.GetStartErrorResult{Text: j.lastStartError}
}
