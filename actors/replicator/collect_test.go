package replicator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/paths"
	"lockstep/messages"
)

// collected is how long a follower collects entries before it applies them.
const collected = 100 * time.Millisecond

// applied are the calls to the disk that replace a file of an entry.
func (b *bench) applied() []string {
	var calls []string
	for _, call := range b.disk.Calls("replace") {
		if strings.Contains(call, "apply") {
			calls = append(calls, call)
		}
	}
	return calls
}

// A request that waits for the commit alone does not wait for the disk of the master, which is busy with earlier entries.
func TestACommitIsAnsweredWhileEarlierEntriesAreWritten(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.disk.Fail("replace apply", 1)
		first := b.write("queue/job-7", "v1")
		second := b.ask(&messages.AccessStore{What: &messages.AccessStore_Write{Write: &messages.WriteFiles{Logged: true,
			Files: []*messages.FileWrite{{Op: "test", Path: "queue/job-8", Content: []byte("v1")}}}}})
		for _, o := range b.log.take() {
			b.log.commit(o.entry)
		}
		b.written(second)
		require.Empty(t, b.content("queue/job-7"))
		require.Empty(t, b.content("queue/job-8"), "entries reach the disk in their order")
		b.client.Quiet()
		b.Advance(time.Minute)
		b.written(first)
		require.Equal(t, "v1", b.content("queue/job-8"))
		require.Equal(t, b.log.index, b.log.applied)
	})
}

// A follower writes a file once that changes several times in a moment.
func TestAFollowerCollectsEntries(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.log.lead("n2")
		for _, content := range []string{"v1", "v2", "v3"} {
			b.log.commit(entry(elsewhere, paths.SerialPath, content))
			b.Advance(collected / 4)
		}
		require.Empty(t, b.applied())
		require.Zero(t, b.log.applied)
		b.Advance(collected / 4)
		require.Equal(t, "v3", b.content(paths.SerialPath))
		require.Len(t, b.applied(), 1)
		require.Equal(t, uint64(3), b.log.applied)
	})
}

func TestWhatEndsTheCollectionOfEntries(t *testing.T) {
	for name, end := range map[string]func(*bench){
		"many entries": func(b *bench) {
			for range 300 {
				b.log.commit(entry(elsewhere, "queue/job-8", "v1"))
			}
		},
		"large entries": func(b *bench) {
			b.log.commit(entry(elsewhere, "queue/job-8", strings.Repeat("x", 5<<20)))
		},
		"an entry that nodes answer from": func(b *bench) {
			b.log.commit(entry(elsewhere, paths.SessionsPath, "{}"))
		},
		"the loss of the leader": func(b *bench) { b.log.lead("") },
		"the end of the node": func(b *bench) {
			p := b.Probe("root")
			p.Ask(b.replicator, &messages.Drain{})
			b.Settle()
			kittest.Expect[*messages.DrainResult](p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, nil, func(t *testing.T, b *bench) {
				b.log.lead("n2")
				b.log.commit(entry(elsewhere, "queue/job-7", "v1"))
				b.Settle()
				require.Empty(t, b.content("queue/job-7"))
				end(b)
				require.Equal(t, "v1", b.content("queue/job-7"))
			})
		})
	}
}
