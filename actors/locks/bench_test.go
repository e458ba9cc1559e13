package locks_test

import (
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
)

// noDisk is a store that answers at once and keeps nothing.
type noDisk struct{ data []byte }

func (d *noDisk) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *messages.AnnounceStore:
		ctx.Respond(&messages.StoreStarted{Incarnation: 1})
	case *messages.AccessStore:
		if read := m.GetRead(); read != nil {
			ctx.Respond(kittest.StoreResult(m, &messages.ReadFileResult{Content: d.data, Missing: read.Path != paths.LocksPath}))
			return
		}
		ctx.Respond(kittest.StoreResult(m, &messages.ChangeFilesResult{}))
	}
}

// ownedNodes is a locks.data with locks of so many nodes, ten per owner.
func ownedNodes(others int) []byte {
	var snapshot lock.Snapshot
	for n := range others {
		if n%10 == 0 {
			snapshot.Holdings = append(snapshot.Holdings, lock.Holding{Owner: lock.JobOwner(1, fmt.Sprintf("/live/%08d", n), 1)})
		}
		h := &snapshot.Holdings[n/10]
		h.Locks = append(h.Locks, lock.Item{Lock: lock.Member(lock.Node, fmt.Sprintf("other-%08d", n)), Mode: lock.Exclusive})
	}
	return lock.Encode(snapshot)
}

// The cost of taking and freeing locks must not grow with the locks of other owners; that
// includes the job's share of folding.
func BenchmarkTakeAndFree(b *testing.B) {
	for _, others := range []int{10, 100_000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			e := kittest.New(b)
			data := ownedNodes(others)
			disk, _, err := e.SpawnRoot(e.Props("disk", func() actor.Actor { return &noDisk{data} }), "disk")
			if err != nil {
				b.Fatal(err)
			}
			told, client := e.Probe("told"), e.Probe("client")
			sched, _, err := e.SpawnRoot(e.Props("scheduler", func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) }), "scheduler")
			if err != nil {
				b.Fatal(err)
			}
			pid, _, err := e.SpawnRoot(locks.Props(locks.Config{Env: e.Env, Store: disk, Queue: told.PID, Scheduler: sched, ClusterConfig: sched, Clients: []*actor.PID{told.PID},
				Owners: nobodyDies{}, Settings: lock.Settings{Hierarchy: lock.Implied}, Boot: boot, Self: self}), "locks")
			if err != nil {
				b.Fatal(err)
			}
			kittest.Expect[*messages.LocksStarted](told)
			me := fmt.Sprintf(`[2,"/live/me",%d]`, 2)
			take := `[` + me + `,0,` + request("cluster/BGL:shared instance/mine:exclusive node/z:exclusive") + `]`
			free := `[` + me + `]`
			n := uint64(0)
			do := func(function, args string) {
				n++
				op, err := operation(function, args)
				if err != nil {
					b.Fatal(err)
				}
				client.Ask(pid, &locks.Operate{Request: n, Operation: op})
				if a := kittest.Expect[*locks.OperateResult](client); a.Failure != nil || string(locks.Encode(a.Value)) != "[]" {
					b.Fatal(a)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				do("updateLocksWaiting", take)
				do("freeLocks", free)
			}
		})
	}
}

// nobodyDies is a port that does nothing.
type nobodyDies struct{}

func (nobodyDies) Watch(string, int)              {}
func (nobodyDies) Forget(string)                  {}
func (nobodyDies) Wake(string, int)               {}
func (nobodyDies) Remove(string)                  {}
func (nobodyDies) Probe([]string, func([]string)) {}
