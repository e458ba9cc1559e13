package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

// A shell that reads the priority file while a newer file replaces it finds the newer file at the next signal.
func TestTheLastPriorityIsTaken(t *testing.T) {
	for range longtest.Times(100) {
		path := filepath.Join(t.TempDir(), "7.prio")
		s := &shell{priorityPath: path}
		signals := make(chan struct{}, 1)
		go func() {
			defer close(signals)
			for priority := range 20 {
				if os.WriteFile(path+".new", []byte(strconv.Itoa(priority)+"\n"), 0o600) != nil || os.Rename(path+".new", path) != nil {
					return
				}
				select {
				case signals <- struct{}{}:
				default: // as the kernel does: one is pending already
				}
			}
		}()
		last := -1
		for range signals {
			priority, err := s.readPriority()
			require.NoError(t, err)
			last = priority
		}
		require.Equal(t, 19, last)
	}
}
