package configstore_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/core/config/model"
	"lockstep/core/paths"
	"lockstep/sim/longtest"
	"lockstep/sim/simdisk"
)

// foreignRun is a run with changes of another program. content is that of config.data that it has written, "" if there is none.
type foreignRun struct {
	*bench
	rng     *rand.Rand
	content string
	noticed bool // changes are refused
	made    int
}

// Changes, folds, writes of another program, adopt, discard, faults of the disk, crashes and power losses in random order: the
// state is what the client and the operator were told, and at a start the file counts.
func TestForeignChangesInAnyOrder(t *testing.T) {
	for seed := range longtest.Times(uint64(100)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			onBench(t, func(b *bench) {
				r := &foreignRun{bench: b, rng: rand.New(rand.NewPCG(seed, 3))}
				for range 40 {
					r.event()
				}
				r.resolve(r.rng.IntN(2) == 0)
				require.Nil(t, r.flush())
				r.agree()
				r.start(nil)
			})
		})
	}
}

func (r *foreignRun) event() {
	switch r.rng.IntN(12) {
	case 0, 1, 2:
		r.tryChange()
	case 3, 4:
		r.Advance(time.Duration(r.rng.IntN(6000)) * time.Millisecond)
	case 5, 6:
		r.write()
	case 7:
		require.Equal(r, r.content != "", r.check().Foreign != nil)
		r.noticed = r.content != ""
	case 8:
		r.resolve(r.rng.IntN(2) == 0)
	case 9:
		when := []simdisk.FaultWhen{simdisk.BeforeEffect, simdisk.PartEffect, simdisk.AfterEffect}
		r.disk.Fail(simdisk.Fault{Nth: r.rng.IntN(12) + 1, Times: 1, Err: syscall.EIO, When: when[r.rng.IntN(len(when))]})
		r.resolve(r.rng.IntN(2) == 0)
	case 10:
		r.start(nil)
	case 11:
		r.start(func() { r.disk.LosePower(r.rng) })
	}
}

// tryChange makes a change. It may fail while there is foreign content, and fails after this was noticed.
func (r *foreignRun) tryChange() {
	state, records := r.state, r.records
	r.send(r.record())
	m := kittest.Expect[*configstore.AddRecordsResult](r.client)
	require.False(r, m.Refused)
	if m.Failure == nil {
		require.False(r, r.noticed, "a change is accepted beside foreign content")
		return
	}
	require.ErrorContains(r, m.Failure, "config.data was changed by another program: ")
	require.NotEmpty(r, r.content)
	r.state, r.records, r.noticed = state, records, true
}

// write writes a config.data as another program.
func (r *foreignRun) write() {
	r.Settle()
	r.made++
	e, cluster := r.state.Config.Edit(), r.state.Config.Cluster.Value
	cluster.Name = fmt.Sprintf("foreign-%d", r.made)
	e.SetCluster(cluster)
	c, _ := e.Commit(model.Time(r.made))
	r.content = string(c.JSON())
	r.overwrite(paths.ConfigPath, []byte(r.content))
}

// resolve adopts or discards, and repeats this after a fault of the disk.
func (r *foreignRun) resolve(adopts bool) {
	was := r.content != ""
	do := r.discard
	if adopts {
		do = r.adopt
	}
	m := do()
	r.disk.Heal()
	if m.Failure != nil {
		m = do()
	} else {
		require.Equal(r, was, m.Foreign)
	}
	require.Nil(r, m.Failure)
	r.Advance(time.Second) // a journal that could not be replaced is replaced
	want := string(r.state.Config.JSON())
	if adopts && was {
		want = r.content
	}
	r.content, r.noticed = "", false
	r.load()
	require.Equal(r, want, string(r.state.Config.JSON()))
	require.Nil(r, r.check().Foreign)
}

// start ends the daemon and starts it again.
func (r *foreignRun) start(lose func()) {
	want := string(r.state.Config.JSON())
	if r.content != "" {
		want = r.content
	}
	r.reboot(lose)
	require.Nil(r, r.load().Failure)
	require.Equal(r, want, string(r.state.Config.JSON()))
	r.content, r.noticed = "", false
}
