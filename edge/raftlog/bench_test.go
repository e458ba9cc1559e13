package raftlog_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"lockstep/edge/raftlog"
)

// BenchmarkPropose measures the time from a proposal of 1.5 kB until the application of the
// leader receives the entry, with this number of proposals under way.
func BenchmarkPropose(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, proposers := range []int{1, 64} {
			b.Run(fmt.Sprintf("nodes=%d/proposers=%d", nodes, proposers), func(b *testing.B) {
				benchmark(b, nodes, proposers)
			})
		}
	}
}

func benchmark(b *testing.B, nodes, proposers int) {
	c := newCluster(b)
	c.timing = raftlog.Timing{}
	w := c.startSole(b)
	for n := 2; n <= nodes; n++ {
		c.addVoter(w, uint64(n), fmt.Sprintf("n%d", n))
	}
	waiting := make([]chan struct{}, proposers)
	for i := range waiting {
		waiting[i] = make(chan struct{}, 1)
	}
	w.mu.Lock()
	w.done = func(entry string) {
		waiting[binary.BigEndian.Uint64([]byte(entry))] <- struct{}{}
	}
	w.mu.Unlock()
	b.SetBytes(1500)
	b.ResetTimer()
	var all sync.WaitGroup
	for i := range proposers {
		all.Go(func() {
			entry := append(binary.BigEndian.AppendUint64(nil, uint64(i)), bytes.Repeat([]byte{'x'}, 1492)...)
			for range b.N/proposers + 1 {
				w.log.Propose(1, entry)
				<-waiting[i]
			}
		})
	}
	all.Wait()
}
