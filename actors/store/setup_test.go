package store_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/store"
	"lockstep/messages"
)

// bench is a store with a disk in memory, and a probe that sends requests.
type bench struct {
	*testing.T
	*kittest.Env
	disk  *kittest.Disk
	asker *kittest.Probe
	store *actor.PID
	epoch uint64

	answers map[uint64]*messages.AccessStoreResult // answers that came before the test expected them
}

const writers = 4

// onBench runs a test with a store on a disk with these files.
func onBench(t *testing.T, files map[string]string, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, disk: kittest.NewDisk(files), asker: e.Probe("asker"),
			answers: map[uint64]*messages.AccessStoreResult{}}
		b.store = e.Start("store", store.Props(store.Config{
			Env: e.Env, Files: b.disk, Writers: writers, Clients: []*actor.PID{b.asker.PID}}))
		b.epoch = kittest.Expect[*messages.StoreStarted](b.asker).Incarnation
		f(t, b)
	})
}

// request sends a request from the asker to the current incarnation.
func (b *bench) request(number uint64, what any) { b.requestFrom(b.asker, number, what) }

func (b *bench) requestFrom(p *kittest.Probe, number uint64, what any) {
	p.Ask(b.store, newRequest(b.epoch, number, what))
}

func newRequest(epoch, number uint64, what any) *messages.AccessStore {
	r := &messages.AccessStore{Incarnation: epoch, Request: number}
	switch what := what.(type) {
	case *messages.WriteFiles:
		r.What = &messages.AccessStore_Write{Write: what}
	case *messages.RemoveFiles:
		r.What = &messages.AccessStore_Remove{Remove: what}
	case *messages.ReadFile:
		r.What = &messages.AccessStore_Read{Read: what}
	case *messages.QuarantineFile:
		r.What = &messages.AccessStore_Quarantine{Quarantine: what}
	case *messages.MoveFiles:
		r.What = &messages.AccessStore_Move{Move: what}
	case *messages.AppendFile:
		r.What = &messages.AccessStore_Append{Append: what}
	case *messages.IdentifyFile:
		r.What = &messages.AccessStore_Identify{Identify: what}
	case *messages.ListDir:
		r.What = &messages.AccessStore_List{List: what}
	case *messages.ScanQueue:
		r.What = &messages.AccessStore_Scan{Scan: what}
	default:
		panic("no such request")
	}
	return r
}

// write is a request to write files, given as path, content, path, content.
func write(durable bool, pathsAndContents ...string) *messages.WriteFiles {
	m := &messages.WriteFiles{Durable: durable}
	for i := 0; i < len(pathsAndContents); i += 2 {
		m.Files = append(m.Files, &messages.FileWrite{Op: "test", Path: pathsAndContents[i], Content: []byte(pathsAndContents[i+1])})
	}
	return m
}

// expectResult waits for the answer to a request. Other answers stay.
func (b *bench) expectResult(number uint64) *messages.AccessStoreResult {
	b.Helper()
	for b.answers[number] == nil {
		a := kittest.Expect[*messages.AccessStoreResult](b.asker)
		require.Nil(b, b.answers[a.Request], "a request was answered twice")
		b.answers[a.Request] = a
	}
	a := b.answers[number]
	delete(b.answers, number)
	return a
}

// failed are the paths of an answer's failures.
func failed(a *messages.AccessStoreResult) []string {
	var paths []string
	for _, f := range a.GetFiles().GetFailures() {
		paths = append(paths, f.Path)
	}
	return paths
}

// expectQuiet expects no answer.
func (b *bench) expectQuiet() {
	b.Helper()
	require.Empty(b, b.answers)
	b.asker.Quiet()
}
