package calls

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
)

// keeper is a disk with the files of the configuration, and the state after each record.
type keeper struct {
	*rapid.T
	drawer  drawer
	at      journal.Position
	states  []journal.Position // by number of the last record
	files   journal.Files
	folded  uint64 // number of the last record of the last fold
	from    uint64 // number of the last record that is not in the journal
	ends    []int  // offset of the end of each line of the journal
	records []*journal.Record
	digests []journal.Digest
}

func newKeeper(t *rapid.T, start State) *keeper {
	files := journal.Files{Config: start.Config}
	recovered, err := journal.Recover(files, false)
	require.NoError(t, err)
	return &keeper{T: t, drawer: drawer{t, start, false}, at: recovered.Position, states: []journal.Position{recovered.Position}, files: files}
}

func keptOf(s State) journal.State {
	return journal.State{Config: s.Config, Reserved: s.Reserved, Concurrent: s.ConcurrentChanges}
}

// call applies a random call and appends its record.
func (k *keeper) call() {
	c := k.drawer.call()
	if len(c.args) > 0 && string(c.args[0]) == "{}" {
		return
	}
	call, err := Parse(c.method, c.args)
	require.NoError(k, err)
	caller := reserve.Caller{PID: rapid.IntRange(1, 3).Draw(k.T, "pid"), Program: "a<b"}
	env := Env{Now: model.Time(1000.125 + float64(len(k.states))), Caller: caller, Random: func(n int) []byte { return rapid.SliceOfN(rapid.Byte(), n, n).Draw(k.T, "random") }}
	env.Locks.Held = rapid.Bool().Draw(k.T, "held")
	before := k.drawer.state
	next, out := call.Apply(before, env)
	k.drawer.state = next
	r := journal.NewRecord(k.at.Number+1, keptOf(before), keptOf(next), out.Touched, env.Now, journal.Author{Caller: caller, Method: c.method, Job: 7})
	if r == nil {
		return
	}
	require.True(k, out.Changed || out.ReservedChanged, "%s", c)
	if rapid.Bool().Draw(k.T, "replicated") {
		r.After = nil
	}
	line, err := journal.Encode(r, rapid.Bool().Draw(k.T, "first") || len(k.ends) == 0)
	require.NoError(k, err)
	k.at, err = k.at.Apply(r, line.Digest)
	require.NoError(k, err)
	k.states = append(k.states, k.at)
	k.records, k.digests = append(k.records, r), append(k.digests, line.Digest)
	k.files.Journal = slices.Concat(k.files.Journal, line.Bytes)
	k.ends = append(k.ends, len(k.files.Journal))
}

// fold writes the files up to a random step.
func (k *keeper) fold() {
	steps := rapid.IntRange(0, 4).Draw(k.T, "steps of the fold")
	number := rapid.Uint64Range(k.folded, k.at.Number).Draw(k.T, "folded")
	at := k.states[number]
	if steps > 0 {
		k.folded = number
	}
	for i, step := range []func(){
		func() { k.files.Extra = at.Extra() },
		func() { k.files.TempRes = at.TempRes() },
		func() { k.files.Config = at.Config },
		func() { k.trim(number) },
	} {
		if i < steps {
			step()
		}
	}
}

func (k *keeper) trim(number uint64) {
	cut := 0
	if number > k.from {
		cut = k.ends[number-k.from-1]
	}
	k.files.Journal = k.files.Journal[cut:]
	k.ends = slices.Clone(k.ends[number-k.from:])
	for i := range k.ends {
		k.ends[i] -= cut
	}
	k.from = number
}

func (k *keeper) same(want, got journal.Position) {
	k.Helper()
	require.Equal(k, want.Number, got.Number)
	require.Equal(k, string(want.Config.JSON()), string(got.Config.JSON()))
	require.Equal(k, want.Point(), got.Point())
	require.Equal(k, string(want.Reserved.Encode()), string(got.Reserved.Encode()))
	require.Equal(k, string(want.Reserved.EncodeExtra()), string(got.Reserved.EncodeExtra()))
	require.Equal(k, string(want.TempRes()), string(got.TempRes()))
	require.True(k, slices.Equal(want.Concurrent, got.Concurrent))
	require.Equal(k, string(want.Extra()), string(got.Extra()))
}

// recover reads the files as after a restart: config.data is decoded.
func (k *keeper) recover(files journal.Files) journal.Recovered {
	k.Helper()
	config, err := model.Decode(files.Config.JSON())
	require.NoError(k, err)
	files.Config = config
	r, err := journal.Recover(files, false)
	require.NoError(k, err)
	return r
}

// Journal and fold agree: whatever the last fold has written and wherever the last append was cut, the files together have every
// record that is completely in the journal.
func TestJournalAndFoldAgree(t *testing.T) {
	start := startState(t)
	rapid.Check(t, func(t *rapid.T) {
		k := newKeeper(t, start)
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			if rapid.IntRange(0, 4).Draw(t, "event") == 0 {
				k.fold()
			} else {
				k.call()
			}
		}
		r := k.recover(k.files)
		k.same(k.at, r.Position)
		require.False(t, r.Unused)
		k.checkCut()
		k.checkAnyFile()
		k.checkRepetition(r)
	})
}

// checkCut cuts the journal in the records that no fold has taken.
func (k *keeper) checkCut() {
	low := 0 // records were durable before the fold
	if k.folded > k.from {
		low = k.ends[k.folded-k.from-1]
	}
	cut := rapid.IntRange(low, len(k.files.Journal)).Draw(k.T, "cut")
	files := k.files
	files.Journal = slices.Concat(k.files.Journal[:cut], make([]byte, rapid.IntRange(0, 3).Draw(k.T, "zeros")))
	number, torn := k.from, len(files.Journal)
	for i, end := range k.ends {
		if end <= cut {
			number, torn = k.from+uint64(i)+1, len(files.Journal)-end
		}
	}
	r := k.recover(files)
	require.Equal(k, torn, r.Torn)
	k.same(k.states[number], r.Position)
}

// checkAnyFile recovers with other contents of config.data: one with a content after any record of the journal has the rest
// replayed; any other is kept.
func (k *keeper) checkAnyFile() {
	files := k.files
	at := k.states[rapid.Uint64Range(k.from, k.at.Number).Draw(k.T, "file")]
	files.Config, files.TempRes, files.Extra = at.Config, at.TempRes(), at.Extra()
	k.same(k.at, k.recover(files).Position)

	e := at.Config.Edit()
	c := at.Config.Cluster.Value
	c.Name += "-edited"
	e.SetCluster(c)
	files.Config = e.Config()
	r := k.recover(files)
	require.Equal(k, string(files.Config.JSON()), string(r.Config.JSON()))
	require.Equal(k, len(k.ends) > 0, r.Unused)
	require.Empty(k, r.Remaining)
	require.Equal(k, k.at.Number, r.Number)
}

// checkRepetition applies records again.
func (k *keeper) checkRepetition(r journal.Recovered) {
	for i, record := range k.records {
		was, err := r.Applied(record, k.digests[i])
		require.NoError(k, err)
		require.True(k, was)
		_, err = r.Applied(record, "another")
		require.ErrorAs(k, err, new(*journal.UnfitError))
		_, err = r.Apply(record, k.digests[i])
		require.ErrorAs(k, err, new(*journal.UnfitError))
	}
	twice := k.files
	twice.Journal = slices.Concat(k.files.Journal, k.files.Journal)
	k.same(k.at, k.recover(twice).Position)
}

// A journal with damage before its last append is not used, unless the rest is discarded.
func TestDamagedJournal(t *testing.T) {
	start := startState(t)
	rapid.Check(t, func(t *rapid.T) {
		k := newKeeper(t, start)
		for range 20 {
			k.call()
		}
		if len(k.ends) < 2 {
			t.Skip("too few records")
		}
		lines := journal.Read(k.files.Journal).Lines
		at := rapid.IntRange(0, len(lines)-2).Draw(t, "damaged line")
		next, err := journal.Encode(k.records[len(lines)-1], true)
		require.NoError(t, err)
		offset := k.ends[at] - 1 - rapid.IntRange(1, len(lines[at].Bytes)-1).Draw(t, "damaged byte")
		files := k.files
		files.Journal = slices.Concat(k.files.Journal[:k.ends[len(lines)-2]], next.Bytes)
		files.Journal[offset] ^= 0x40
		_, err = journal.Recover(files, false)
		var damage *journal.DamageError
		require.True(t, errors.As(err, &damage), "%v", err)
		require.EqualValues(t, at, damage.Number)
		require.Equal(t, k.states[at].Point(), damage.Good)
		r, err := journal.Recover(files, true)
		require.NoError(t, err)
		k.same(k.states[at], r.Position)
	})
}
