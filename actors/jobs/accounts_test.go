package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/jobs"
	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/jobproc"
	"lockstep/messages"
)

var (
	alice        = jobproc.User{UID: 1000, Name: "alice"}
	aliceAccount = jobproc.Account{Name: "alice", UID: 1000, GID: 100, Groups: []int{100, 27}, Home: "/home/alice", Shell: "/bin/sh"}
)

// startAsAlice starts a job whose command runs as alice.
func (b *bench) startAsAlice(id int64) {
	b.send(&messages.StartJob{Id: id, Encoded: job.Encode(jobtest.Queued(id)), RunAs: []byte(`[{"uid":1000,"name":"alice"}]`),
		Launch: []byte(`[{"run_as":{"uid":1000,"name":"alice"},"secrets":{"a":1}}]`)})
}

// answerAccounts answers the latest question about accounts.
func (b *bench) answerAccounts(found *jobs.AccountsFound) {
	b.Helper()
	b.port.mu.Lock()
	found.Question = b.port.questions[len(b.port.questions)-1]
	b.port.mu.Unlock()
	b.Send(b.jobs, found)
	b.Settle()
}

func (b *bench) answerNothing() {
	b.Helper()
	b.answerAccounts(&jobs.AccountsFound{Unanswered: &alice, Text: "getent passwd has not answered within 5s"})
}

func (b *bench) startErrorOf(id int64) *messages.GetStartErrorResult {
	b.Helper()
	b.client.Ask(b.jobs, &messages.GetStartError{Request: 7, Id: id})
	return kittest.Expect[*messages.GetStartErrorResult](b.client)
}

// A process gets the account with its launch spec. A user without account fails the opcode, whose command and secrets the process does
// not get.
func TestAProcessGetsTheAccountsOfItsUsers(t *testing.T) {
	for name, c := range map[string]struct {
		answer jobproc.AccountAnswer
		launch string
	}{
		"an account": {jobproc.AccountAnswer{User: alice, Account: &aliceAccount},
			`[{"secrets":{"a":1},"run_as":{"uid":1000,"name":"alice"},"account":{"name":"alice","uid":1000,"gid":100,"groups":[100,27],"home":"/home/alice","shell":"/bin/sh"}}]`},
		"none": {jobproc.AccountAnswer{User: alice, Refusal: alice.NoAccount()},
			`[{"refused":["OpPrereqError",["there is no user alice (uid 1000) on this node","unknown_entity"]],"run_as":{"uid":1000,"name":"alice"}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.startAsAlice(1)
				require.Equal(t, []string{"find [alice]"}, b.takeCalls())
				require.Equal(t, []int64{1}, b.listActive())
				b.answerAccounts(&jobs.AccountsFound{Answers: []jobproc.AccountAnswer{c.answer}})
				require.Equal(t, []string{"start 1"}, b.takeCalls())
				b.sendNamed(1)
				b.answerWrite(1, nil)
				require.Equal(t, []string{"confirm 1 with " + c.launch}, b.takeCalls())
			})
		})
	}
}

// While the node does not answer about a user, that user's jobs go back to the queue, each time for longer, and the jobs of others start.
func TestAJobWhoseUserTheNodeDoesNotKnowNow(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for range 2 * maxStarts { // waiting for an answer takes no start
			b.startAsAlice(10)
			b.startAsAlice(11)
			b.startAsAlice(12)
		}
		b.takeCalls()
		b.run(1)
		for _, pause := range []int64{800, 1600, 3200, 6400, 10000, 10000} {
			b.startAsAlice(2)
			b.answerNothing()
			m := kittest.Expect[*messages.JobReturned](b.queue)
			require.Equal(t, int64(2), m.Id)
			require.Equal(t, pause, m.RetryAfterMs)
			require.NotContains(t, b.listActive(), int64(2))
		}
		e := b.startErrorOf(2)
		require.Equal(t, "alice", e.User)
		require.Equal(t, "getent passwd has not answered within 5s", e.Text)
		require.Empty(t, b.startError(), "other jobs can be started")
		b.takeCalls()
		b.run(3)

		b.startAsAlice(2)
		b.answerAccounts(&jobs.AccountsFound{Answers: []jobproc.AccountAnswer{{User: alice, Account: &aliceAccount}}})
		require.Equal(t, []string{"find [alice]", "start 2"}, b.takeCalls())
		require.Empty(t, b.startErrorOf(2).Text)
	})
}

// An order, or a hold, about a job that waits for an account is for the queue. An answer that comes later is dropped.
func TestAnOrderAboutAJobThatWaitsForAnAccount(t *testing.T) {
	for name, order := range map[string]any{"cancel": &messages.OrderJob{Request: 5, Id: 1, Kind: messages.OrderJob_CANCEL},
		"hold": &messages.CallOff{Request: 5, Ids: []int64{1}}} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.startAsAlice(1)
				b.client.Ask(b.jobs, order)
				m := kittest.Expect[*messages.JobReturned](b.queue)
				require.Equal(t, int64(1), m.Id)
				require.Zero(t, m.RetryAfterMs)
				b.takeCalls()
				b.answerAccounts(&jobs.AccountsFound{Answers: []jobproc.AccountAnswer{{User: alice, Account: &aliceAccount}}})
				require.Empty(t, b.takeCalls())
				require.Empty(t, b.listActive())
			})
		})
	}
}

// A stop does not wait for an account: no process exists.
func TestAStopDoesNotWaitForAnAccount(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.startAsAlice(1)
		b.client.Ask(b.jobs, &messages.Drain{})
		kittest.Expect[*messages.DrainResult](b.client)
		b.answerAccounts(&jobs.AccountsFound{Answers: []jobproc.AccountAnswer{{User: alice, Account: &aliceAccount}}})
		require.Equal(t, []string{"find [alice]"}, b.takeCalls())
		b.Advance(time.Minute)
		require.Empty(t, b.takeCalls())
	})
}
