package queue_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/access"
	"lockstep/messages"
)

// submitAs submits a job for a user and commits it.
func (b *bench) submitAs(request uint64, submitter []byte) {
	b.Helper()
	b.client.Ask(b.queue, &messages.SubmitJobs{Request: request, Submitter: submitter, Jobs: []*messages.JobDraft{draft("")}})
	b.commit()
	b.submitted(request)
}

// Who may give orders for own jobs only is refused for those of others, whatever the order. Nothing is written then.
func TestOrdersForOwnJobsOnly(t *testing.T) {
	alice := access.Submitter{UID: 1000, Name: "alice"}
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submitAs(1, nil)
		b.submitAs(2, access.Submitter{UID: 1001, Name: "bob"}.Encode())
		b.submitAs(3, []byte(`[]`)) // nothing is known of its user
		b.submitAs(4, alice.Encode())
		for _, c := range []struct {
			id   int64
			kind messages.OrderJob_Kind
			want string
		}{
			{1, messages.OrderJob_CANCEL, "job 1 is root's; to cancel it needs the role operate, alice has submit"},
			{1, messages.OrderJob_KILL, "job 1 is root's; to kill it needs the role operate, alice has submit"},
			{2, messages.OrderJob_HOLD, "job 2 is bob's; to hold it needs the role operate, alice has submit"},
			{2, messages.OrderJob_RELEASE, "job 2 is bob's; to release it needs the role operate, alice has submit"},
			{2, messages.OrderJob_SET_PRIORITY, "job 2 is bob's; to change its priority needs the role operate, alice has submit"},
			{3, messages.OrderJob_CANCEL, "job 3 is an unknown user's; to cancel it needs the role operate, alice has submit"},
		} {
			b.client.Ask(b.queue, &messages.OrderJob{Request: 7, Id: c.id, Kind: c.kind, By: "uid=1000(alice), pid=5", OnlyOf: alice.Key()})
			b.Settle()
			a := kittest.Expect[*messages.OrderJobResult](b.client)
			require.Equal(t, messages.PrereqFailure(messages.NotPermitted, c.want).String(), a.Refused.String())
			require.False(t, a.Done)
			b.store.Quiet()
		}
		b.client.Ask(b.queue, &messages.OrderJob{Request: 8, Id: 4, Kind: messages.OrderJob_CANCEL, By: "uid=1000(alice), pid=5", OnlyOf: alice.Key()})
		b.Settle()
		b.filesDone(b.storeAsked())
		b.expectOrder(true, "Dequeued job 4")
		b.client.Ask(b.queue, &messages.OrderJob{Request: 9, Id: 99, Kind: messages.OrderJob_CANCEL, OnlyOf: alice.Key()})
		b.expectOrder(false, "Job 99 not found in queue")
	})
}

// An order for several jobs changes none of them if one is another user's, whatever the order and the place of that job.
func TestAnOrderForSeveralJobsWithOneOfAnotherUser(t *testing.T) {
	alice := access.Submitter{UID: 1000, Name: "alice"}
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submitAs(1, alice.Encode())
		b.submitAs(2, nil)
		b.submitAs(3, alice.Encode())
		for kind := range messages.OrderJob_Kind_name {
			for _, ids := range [][]int64{{1, 3, 2}, {2, 1, 3}, {99, 1, 2}} {
				b.client.Ask(b.queue, &messages.OrderJobs{Request: 7, Ids: ids, Kind: messages.OrderJob_Kind(kind), By: "uid=1000(alice), pid=5", OnlyOf: alice.Key()})
				b.Settle()
				a := kittest.Expect[*messages.OrderJobsResult](b.client)
				require.Contains(t, a.Refused.GetText(), "job 2 is root's; to ")
				require.Empty(t, a.Results)
				b.store.Quiet()
			}
			for _, ids := range [][]int64{{1, 3, 2}, {1, 99, 3}} { // a check changes nothing
				b.client.Ask(b.queue, &messages.OrderJobs{Request: 8, Ids: ids, Kind: messages.OrderJob_Kind(kind), Check: true,
					By: "uid=1000(alice), pid=5", OnlyOf: alice.Key()})
				b.Settle()
				require.Equal(t, slices.Contains(ids, 2), kittest.Expect[*messages.OrderJobsResult](b.client).Refused != nil)
				b.store.Quiet()
			}
		}
	})
}

// A user archives own jobs: one by its id, or all that have ended. Those of others stay.
func TestOwnJobsAreArchived(t *testing.T) {
	alice := access.Submitter{UID: 1000, Name: "alice"}
	onReady(t, nil, func(t *testing.T, b *bench) {
		for request, submitter := range [][]byte{nil, alice.Encode(), alice.Encode()} {
			b.submitAs(uint64(request+1), submitter)
			b.client.Ask(b.queue, &messages.OrderJob{Request: 7, Id: int64(request + 1), Kind: messages.OrderJob_CANCEL})
			b.Settle()
			b.filesDone(b.storeAsked())
			b.client.Unread()
		}
		archive := func(id int64) *messages.ArchiveJobsResult {
			b.client.Ask(b.queue, &messages.ArchiveJobs{Request: 8, Id: id, AgeS: -1, TimeoutS: 9, OnlyOf: alice.Key(), By: "uid=1000(alice), pid=5"})
			b.Settle()
			for asked := b.store.Unread(); len(asked) > 0; asked = b.store.Unread() {
				b.filesDone(asked[0].(*messages.AccessStore))
				b.Settle()
			}
			return kittest.Expect[*messages.ArchiveJobsResult](b.client)
		}
		require.Equal(t, "job 1 is root's; to archive it needs the role operate, alice has submit", archive(1).Failure.GetText())
		require.EqualValues(t, 1, archive(2).Archived)
		all := archive(0)
		require.Equal(t, []int64{1, 0}, []int64{all.Archived, all.Remaining})
		require.False(t, b.rowOf(1).Unknown)
		require.True(t, b.rowOf(3).Unknown)
	})
}

// A user holds and releases an own job, but does not release it when an operator holds it, also if the operator's hold came second.
func TestTheHoldOfAnOperatorOnAnotherUsersJob(t *testing.T) {
	alice := access.Submitter{UID: 1000, Name: "alice"}
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.callOffAtOnce()
		b.submitAs(1, alice.Encode())
		order := func(kind messages.OrderJob_Kind, by, only string) *messages.OrderJobResult {
			b.client.Ask(b.queue, &messages.OrderJob{Request: 7, Id: 1, Kind: kind, By: by, OnlyOf: only})
			b.Settle()
			if asked := b.store.Unread(); len(asked) > 0 {
				b.filesDone(asked[0].(*messages.AccessStore))
			}
			return kittest.Expect[*messages.OrderJobResult](b.client)
		}
		const byAlice, byRoot = "uid=1000(alice), pid=5", "uid=0(root), pid=6"
		require.Equal(t, "Job 1 is held", order(messages.OrderJob_HOLD, byAlice, alice.Key()).Text)
		require.Equal(t, "Job 1 is released", order(messages.OrderJob_RELEASE, byAlice, alice.Key()).Text)
		require.Equal(t, "Job 1 is held", order(messages.OrderJob_HOLD, byAlice, alice.Key()).Text)
		require.Equal(t, "Job 1 is held", order(messages.OrderJob_HOLD, byRoot, "").Text)
		refused := order(messages.OrderJob_RELEASE, byAlice, alice.Key()).Refused
		require.Equal(t, "job 1 is held by root; to release it needs the role operate, alice has submit", refused.GetText())
		require.Equal(t, "Job 1 is held", order(messages.OrderJob_HOLD, byAlice, alice.Key()).Text)
		require.NotNil(t, order(messages.OrderJob_RELEASE, byAlice, alice.Key()).Refused, "the user's own hold replaces none")
		require.Equal(t, "Job 1 is released", order(messages.OrderJob_RELEASE, byRoot, "").Text)
	})
}
