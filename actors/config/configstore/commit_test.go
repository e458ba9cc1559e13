package configstore_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/core/config/journal"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

func records(of ...*journal.Record) journal.Change { return journal.Change{Records: of} }

// commit hands over changes and returns the answer.
func (b *bench) commit(changes ...journal.Change) *configstore.Committed {
	b.Helper()
	b.ask(func(n uint64) any { return &configstore.Commit{Request: n, Changes: changes} })
	m := kittest.Expect[*configstore.Committed](b.client)
	require.Equal(b, b.number, m.Request)
	return m
}

func (b *bench) export(adopting bool) *configstore.Exported {
	b.Helper()
	b.ask(func(n uint64) any { return &configstore.Export{Request: n, Adopting: adopting} })
	return kittest.Expect[*configstore.Exported](b.client)
}

// Each change of the log stands for itself; all share one sync. A repetition changes nothing.
func TestCommittedChanges(t *testing.T) {
	onBench(t, func(b *bench) {
		one, two, three := b.record(), b.record(), b.record()
		other := *one
		other.Method = "updateNode"
		changes := []journal.Change{records(one, two), records(&other), records(three)}
		m := b.commit(changes...)
		require.Nil(t, m.Failure)
		require.Equal(t, []bool{false, true, false}, m.Refused)
		appends := b.gate.count("append config.journal")
		require.Equal(t, 1, appends)
		content, durable := b.disk.Surviving(paths.ConfigJournalPath)
		require.True(t, durable)
		require.Len(t, journal.Read(content).Records, 3)
		b.agree()
		for range 2 {
			require.Equal(t, []bool{false, true, false}, b.commit(changes...).Refused)
			require.Equal(t, appends, b.gate.count("append config.journal"))
			b.reboot(nil)
			b.agree()
			appends = 0
		}
	})
}

// A whole state replaces everything, also content from another program. Records continue after it.
func TestACommittedState(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		exported := b.export(false)
		require.Equal(t, string(b.state.Config.JSON()), string(exported.Contents.Config))
		at := b.state
		b.change()
		after := b.record()
		b.disk.Overwrite(paths.ConfigPath, foreign(t))
		require.NotNil(t, b.flush())
		require.Nil(t, b.commit(journal.Change{Whole: &exported.Contents}).Failure)
		b.state = at
		b.agree()
		require.EqualValues(t, 1, b.load().Number)
		require.Equal(t, string(at.Config.JSON()), b.content(paths.ConfigPath))
		require.Nil(t, b.disk.Find(paths.ConfigJournalPath))
		require.Len(t, b.historyNames(), 2, "what the fold would have written")

		require.Equal(t, []bool{true}, b.commit(records(after)).Refused)
		b.load()
		b.change()
		b.reboot(nil)
		b.agree()
	})
}

// config.data of a former version has no numbers; a state that cannot be decoded changes nothing.
func TestACommittedFileOfAFormerVersion(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		first := b.record()
		m := b.commit(records(first), journal.Change{Whole: &journal.Contents{Config: []byte("{")}})
		require.Equal(t, []bool{false, true}, m.Refused)
		b.agree()
		m = b.commit(journal.Change{Whole: &journal.Contents{Config: foreign(t)}})
		require.Equal(t, []bool{false}, m.Refused)
		loaded := b.load()
		require.Zero(t, loaded.Number)
		require.EqualValues(t, 9, loaded.State.Config.Serial)
		b.change()
		b.reboot(nil)
		b.agree()
		require.EqualValues(t, 1, b.load().Number)
	})
}

// The power goes at each step of the disk while a whole state is written. Repeated, the changes lead to the same state.
func TestAStateIsCommittedAgainAfterAPowerLoss(t *testing.T) {
	for step := 1; ; step++ {
		done := false
		onBench(t, func(b *bench) {
			b.change()
			exported := b.export(false)
			b.load()
			next := b.record()
			b.state, b.records = b.load().State, 1
			b.change()
			changes := []journal.Change{{Whole: &exported.Contents}, records(next)}
			b.gate.mu.Lock()
			b.gate.stopAt = len(b.gate.calls) + step
			b.gate.mu.Unlock()
			b.ask(func(n uint64) any { return &configstore.Commit{Request: n, Changes: changes} })
			b.Settle()
			for _, m := range b.client.Unread() {
				c, is := m.(*configstore.Committed)
				done = done || is && c.Failure == nil
			}
			b.reboot(func() { b.disk.LosePower(rand.New(rand.NewPCG(uint64(step), 1))) })
			require.Equal(t, []bool{false, false}, b.commit(changes...).Refused)
			m := b.load()
			require.EqualValues(t, 2, m.Number)
			require.Equal(t, string(next.After.JSON()), string(m.State.Config.JSON()))
			b.agree()
		})
		if done {
			require.Greater(t, step, 5)
			return
		}
	}
}

// After a failed write of a whole state the request is repeated.
func TestTheDiskRefusesAState(t *testing.T) {
	for nth := range 9 {
		onBench(t, func(b *bench) {
			b.change()
			exported := b.export(false)
			want := b.state
			b.change()
			b.disk.Fail(simdisk.Fault{Nth: nth + 1, Times: 1, Err: syscall.EIO})
			whole := journal.Change{Whole: &exported.Contents}
			b.ask(func(n uint64) any { return &configstore.Commit{Request: n, Changes: []journal.Change{whole}} })
			b.Advance(5 * time.Second)
			m := kittest.Expect[*configstore.Committed](b.client)
			b.disk.Heal()
			for m.Failure != nil {
				b.Advance(5 * time.Second)
				m = b.commit(whole)
			}
			b.state = want
			b.agree()
			b.load()
			b.change()
			b.reboot(nil)
			b.agree()
		})
	}
}

// Files that cannot be used are replaced by a whole state; records wait for an operator.
func TestAStateReplacesADamagedJournal(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		exported := b.export(false)
		want := b.state
		b.change()
		b.change()
		damaged := []byte(b.content(paths.ConfigJournalPath))
		damaged[len(damaged)/2] ^= 1
		b.reboot(func() { b.disk.Overwrite(paths.ConfigJournalPath, damaged) })
		require.Contains(t, b.commit(records(b.record())).Failure.Text, "is damaged")
		require.NotNil(t, b.export(false).Failure)
		require.Nil(t, b.commit(journal.Change{Whole: &exported.Contents}).Failure)
		b.state = want
		b.agree()
	})
}

// Committed changes are kept although config.data was changed by another program. The answer says so.
func TestCommittedChangesAndAForeignFile(t *testing.T) {
	onBench(t, func(b *bench) {
		b.disk.Overwrite(paths.ConfigPath, foreign(t))
		require.NotNil(t, b.flush())
		m := b.commit(records(b.record()))
		require.Nil(t, m.Failure)
		require.Equal(t, []bool{false}, m.Refused)
		require.Contains(t, m.Foreign.Text, "was changed by another program")
		require.EqualValues(t, 1, b.load().Number)

		adopted := b.export(true)
		require.Nil(t, adopted.Failure)
		at, err := adopted.Contents.Position()
		require.NoError(t, err)
		require.EqualValues(t, 9, at.Config.Serial)
		m = b.commit(journal.Change{Whole: &adopted.Contents})
		require.Nil(t, m.Failure)
		require.Nil(t, m.Foreign)
		loaded := b.load()
		require.EqualValues(t, 1, loaded.Number, "the numbers go on")
		require.EqualValues(t, 9, loaded.State.Config.Serial)
		require.Empty(t, b.export(true).Contents.Config, "there is nothing to adopt")
	})
}

func TestANodeWithoutAConfiguration(t *testing.T) {
	onDisk(t, simdisk.New("queue"), func(b *bench) {
		require.Empty(t, b.export(false).Contents)
		require.Nil(t, b.commit(journal.Change{Whole: &journal.Contents{Config: initial(t)}}).Failure)
		b.load()
		b.change()
		b.agree()
	})
}
