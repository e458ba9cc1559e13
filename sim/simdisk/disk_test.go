package simdisk

import (
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/persistence/persistencetest"
)

func TestTheDiskKeepsTheContract(t *testing.T) {
	persistencetest.TestFiles(t, func(*testing.T) persistencetest.Files { return New("queue") })
}

func TestPowerLossKeepsWhatWasSyncedAndAPrefixOfTheRest(t *testing.T) {
	outcomes := map[string]bool{}
	for seed := range uint64(50) {
		d := New("queue")
		require.NoError(t, d.Replace("a", "queue/job-1", []byte("synced")))
		require.NoError(t, d.SyncDir("a", "queue"))
		require.NoError(t, d.Replace("a", "queue/job-2", []byte("2")))
		require.NoError(t, d.Replace("a", "queue/job-1", []byte("new")))
		d.LosePower(rand.New(rand.NewPCG(seed, 0)))

		first, err := d.Read("a", "queue/job-1")
		require.NoError(t, err)
		second, err := d.Read("a", "queue/job-2")
		if string(first) == "new" {
			require.NoError(t, err, "the later change is there, the earlier is not")
		}
		outcomes[string(first)+"/"+string(second)] = true
	}
	require.Equal(t, map[string]bool{"synced/": true, "synced/2": true, "new/2": true}, outcomes)
}

func TestAMovedFileNeverLosesBothNames(t *testing.T) {
	outcomes := map[[2]bool]bool{}
	for seed := range uint64(50) {
		d := New("queue")
		require.NoError(t, d.Replace("a", "queue/job-1", []byte("x")))
		require.NoError(t, d.SyncDir("a", "queue"))
		require.NoError(t, d.Rename("a", "queue/job-1", "queue/archive/0/job-1"))
		d.LosePower(rand.New(rand.NewPCG(seed, 0)))
		_, old := d.Read("a", "queue/job-1")
		_, moved := d.Read("a", "queue/archive/0/job-1")
		outcomes[[2]bool{old == nil, moved == nil}] = true
	}
	require.NotContains(t, outcomes, [2]bool{false, false})
	require.Contains(t, outcomes, [2]bool{true, true})
	require.Contains(t, outcomes, [2]bool{false, true})
}

// A file system may give back old blocks, or those of another file.
func TestUnsyncedDataIsLostInThreeWays(t *testing.T) {
	found := map[string]bool{}
	for seed := range uint64(50) {
		d := New("queue")
		d.Mutations.SkipDataSyncOf = "apply"
		require.NoError(t, d.Replace("a", "queue/job-1", []byte("former")))
		require.NoError(t, d.Replace("a", "queue/job-2", []byte("other")))
		require.NoError(t, d.Replace("apply", "queue/job-1", []byte("x")))
		require.NoError(t, d.SyncDir("a", "queue"))
		d.LosePower(rand.New(rand.NewPCG(seed, 1)))
		data, err := d.Read("a", "queue/job-1")
		require.NoError(t, err)
		found[string(data)] = true
		other, err := d.Read("a", "queue/job-2")
		require.NoError(t, err)
		require.Equal(t, "other", string(other), "this one was synced")
	}
	delete(found, "x") // its own blocks
	require.Equal(t, map[string]bool{"": true, "former": true, "other": true}, found)
}

func TestFaultsGoByTheLabelOfTheStep(t *testing.T) {
	d := New("queue")
	d.Fail(Fault{Op: "save", Nth: 2, Times: 1, Err: syscall.ENOSPC})
	d.Fail(Fault{Op: "sync", Nth: 1, Times: 1, Err: syscall.EIO, When: AfterEffect})
	require.NoError(t, d.Replace("other", "queue/job-1", nil))
	require.NoError(t, d.Replace("save", "queue/job-1", []byte("1")))
	require.ErrorIs(t, d.Replace("save", "queue/job-1", []byte("2")), syscall.ENOSPC)
	require.ErrorIs(t, d.SyncDir("sync", "queue"), syscall.EIO)
	data, durable := d.Surviving("queue/job-1")
	require.True(t, durable, "the sync was done before it failed")
	require.Equal(t, "1", string(data))
	require.NoError(t, d.Replace("save", "queue/job-1", []byte("3")))
}

func TestPowerLossLeavesAPrefixOfWhatWasAppended(t *testing.T) {
	outcomes := map[string]bool{}
	for seed := range uint64(50) {
		d := New("queue")
		require.NoError(t, d.Replace("a", "journal", []byte("whole:")))
		require.NoError(t, d.SyncDir("a", "."))
		require.NoError(t, d.Append("a", "journal", []byte("1")))
		require.NoError(t, d.Append("a", "journal", []byte("2")))
		require.NoError(t, d.SyncDir("a", "."), "syncs names, not what is in files")
		data, durable := d.Surviving("journal")
		require.True(t, durable)
		require.Equal(t, "whole:", string(data))
		d.LosePower(rand.New(rand.NewPCG(seed, 0)))
		left, err := d.Read("a", "journal")
		require.NoError(t, err)
		outcomes[string(left)] = true

		d.LosePower(rand.New(rand.NewPCG(seed, 1)))
		again, err := d.Read("a", "journal")
		require.NoError(t, err)
		require.Equal(t, string(left), string(again), "what one power loss has left is on the disk")
	}
	require.Equal(t, map[string]bool{"whole:": true, "whole:1": true, "whole:12": true}, outcomes)
}

func TestAnAppendMayFailHalfWay(t *testing.T) {
	d := New("queue")
	var told []string
	d.Changed = func(_ Call, _, _ string, content []byte) { told = append(told, string(content)) }
	d.Fail(Fault{Op: "journal", Nth: 2, Times: 1, Err: syscall.ENOSPC, When: PartEffect})
	require.NoError(t, d.Append("journal", "journal", []byte("first\n")))
	require.ErrorIs(t, d.Append("journal", "journal", []byte("second")), syscall.ENOSPC)
	data, err := d.Read("a", "journal")
	require.NoError(t, err)
	require.Equal(t, "first\nsec", string(data))
	require.Equal(t, []string{"first\n", "first\nsec"}, told)

	d.Partial = func(int) int { return 0 }
	d.Fail(Fault{Op: "journal", Nth: 1, Times: 1, Err: syscall.ENOSPC, When: PartEffect})
	require.ErrorIs(t, d.Append("journal", "journal", []byte("third")), syscall.ENOSPC)
	d.Fail(Fault{Op: "save", Nth: 1, Times: 1, Err: syscall.ENOSPC, When: PartEffect})
	require.ErrorIs(t, d.Replace("save", "journal", []byte("whole")), syscall.ENOSPC)
	data, err = d.Read("a", "journal")
	require.NoError(t, err)
	require.Equal(t, "first\nsec", string(data))
}

// A durable append survives a power loss, unless the disk does not sync it.
func TestADurableAppendSurvivesPowerLoss(t *testing.T) {
	left := func(seed uint64, m Mutations) string {
		d := New("queue")
		d.Mutations = m
		require.NoError(t, d.AppendDurable("a", "journal", []byte("1")))
		require.NoError(t, d.AppendDurable("a", "journal", []byte("2")))
		content, _ := d.Surviving("journal")
		d.LosePower(rand.New(rand.NewPCG(seed, 0)))
		data, err := d.Read("a", "journal")
		if m == (Mutations{}) {
			require.NoError(t, err)
			require.Equal(t, "12", string(content))
		}
		return string(data)
	}
	lost := false
	for seed := range uint64(20) {
		require.Equal(t, "12", left(seed, Mutations{}))
		lost = lost || left(seed, Mutations{SkipAppendSync: true}) != "12"
	}
	require.True(t, lost)
}

func TestATouchedFileHasAnotherIdentity(t *testing.T) {
	d := New("queue")
	d.Overwrite("config.data", []byte("1"))
	first, err := d.Identify("a", "config.data")
	require.NoError(t, err)
	d.Touch("config.data")
	touched, err := d.Identify("a", "config.data")
	require.NoError(t, err)
	require.NotEqual(t, first, touched)
	d.Overwrite("config.data", []byte("1"))
	replaced, err := d.Identify("a", "config.data")
	require.NoError(t, err)
	require.NotContains(t, []string{first, touched}, replaced)
}
