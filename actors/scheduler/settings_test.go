package scheduler_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/locks"
	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
	"lockstep/core/lock"
	"lockstep/messages"
)

func TestMoreAndFewerSlots(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.answerJobsRequest(nil, plainJobs(1, 2, 3, 4))
		require.Equal(t, []int64{1}, b.takePicked())
		b.reconfigure(3, `{"predictive": false}`)
		require.Equal(t, []int64{2, 3}, b.takePicked())
		b.reconfigure(1, `{"predictive": false}`)
		b.sendReleased(1, 2)
		require.Empty(t, b.takePicked())
		b.sendReleased(3)
		require.Equal(t, []int64{4}, b.takePicked())
	})
}

func TestAConfigurationThatCannotBeUsed(t *testing.T) {
	for name, change := range map[string]func(*clusterconfig.ConfigPublished){
		"slots":    func(c *clusterconfig.ConfigPublished) { c.Config = withoutSlots(t, c.Config) },
		"settings": func(c *clusterconfig.ConfigPublished) { c.Settings = []byte(`{"predictive_ticks": 0}`) },
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				b.answerJobsRequest(nil, plainJobs(1, 2))
				require.Equal(t, []int64{1}, b.takePicked())
				broken := configOf(5, "")
				change(broken)
				b.cluster.Ask(b.scheduler, broken)
				require.Empty(t, b.takePicked())
				require.Len(t, b.Logged("settings cannot be used; the scheduler keeps the former ones"), 1)
			})
		})
	}
}

// withoutSlots is a configuration that a client has written with no slot.
func withoutSlots(t *testing.T, c *model.Config) *model.Config {
	return configtest.Decode(t, bytes.Replace(c.JSON(), []byte(`"max_running_jobs":5`), []byte(`"max_running_jobs":0`), 1))
}

// sendLocks sends the records of lock owners.
func (b *bench) sendLocks(all bool, records ...lock.Record) {
	b.locks.Ask(b.scheduler, &locks.OwnersPublished{Records: records, Complete: all})
	b.Settle()
}

func node(name string) []lock.Item {
	return []lock.Item{{Lock: lock.BGL, Mode: lock.Shared}, {Lock: lock.Member(lock.Node, name), Mode: lock.Exclusive}}
}

// Jobs that probably need not wait for locks are picked first.
func TestThePredictiveOrder(t *testing.T) {
	owner, admin := lock.JobOwner(1, "/l/job_1", 77), lock.NamedOwner("admin", "/l/admin", 78)
	setup := func(b *bench) {
		b.reconfigure(1, `{"order": "weights"}`)
		b.answerJobsRequest(plainJobs(1), all(unfinished(2, lockingNode("u1")), unfinished(3, lockingNode("n3"))))
		require.Empty(b, b.takePicked())
	}
	for name, c := range map[string]struct {
		told func(*bench)
		want []int64
	}{
		"nothing is held": {func(*bench) {}, []int64{2, 3}},
		"a job holds it":  {func(b *bench) { b.sendLocks(true, lock.Record{Owner: owner, Locks: node("u1")}) }, []int64{3, 2}},
		"a job wants it": {func(b *bench) {
			b.sendLocks(false, lock.Record{Owner: owner, Pending: &lock.Pending{Owner: owner, Request: node("u1")}})
		}, []int64{3, 2}},
		"somebody else holds it": {func(b *bench) { b.sendLocks(false, lock.Record{Owner: admin, Locks: node("u1")}) }, []int64{3, 2}},
		"it was given back": {func(b *bench) {
			b.sendLocks(true, lock.Record{Owner: owner, Locks: node("u1")})
			b.sendLocks(false, lock.Record{Owner: owner})
		}, []int64{2, 3}},
		"all others are gone": {func(b *bench) {
			b.sendLocks(false, lock.Record{Owner: admin, Locks: node("u1")})
			b.sendLocks(true, lock.Record{Owner: owner, Locks: node("n3")})
		}, []int64{2, 3}},
		"it is held, but the order is plain": {func(b *bench) {
			b.sendLocks(true, lock.Record{Owner: owner, Locks: node("u1")})
			b.reconfigure(1, `{"predictive": false}`)
		}, []int64{2, 3}},
		"it is held, but all are old": {func(b *bench) {
			b.sendLocks(true, lock.Record{Owner: owner, Locks: node("u1")})
			b.reconfigure(1, `{"order": "weights", "predictive_tick": 1, "predictive_ticks": 2}`)
			b.Advance(time.Minute)
		}, []int64{2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				setup(b)
				c.told(b)
				// There is one more slot. Its job has not asked for locks yet.
				b.send(&messages.EnqueueJobs{})
				slots := 2
				settings := string(b.config.Settings)
				b.reconfigure(slots, settings)
				require.Equal(t, c.want[:1], b.takePicked())
				b.sendReleased(c.want[0])
				require.Equal(t, c.want[1:], b.takePicked())
			})
		})
	}
}

// A picked job counts with its demand until the lock manager sends its record.
func TestWhatAPickedJobDeclares(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		b.reconfigure(2, `{"order": "weights"}`)
		b.answerJobsRequest(nil, all(unfinished(1, lockingNode("u1")), unfinished(2, lockingNode("u1")), unfinished(3, lockingNode("n3"))))
		require.Equal(t, []int64{1, 3}, b.takePicked())
	})
}

// The opcodes that a job has finished no longer count in its demand.
func TestWhatIsBehindAJobCountsNoMore(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.reconfigure(1, `{"order": "weights"}`)
		b.answerJobsRequest(all(unfinished(1, lockingNode("u1"), lockingNode("n3"))), all(unfinished(3, lockingNode("n3")), unfinished(4, lockingNode("u1"))))
		b.sendBeginOp(7, 1, 1)
		require.Equal(t, []uint64{7}, b.takePermitted())
		b.reconfigure(2, `{"order": "weights"}`)
		require.Equal(t, []int64{4}, b.takePicked())
	})
}
