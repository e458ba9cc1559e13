package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever reads a message while a newer one takes its place finds the newer one later.
func TestTheLastPriorityIsTaken(t *testing.T) {
	for range 200 {
		path := filepath.Join(t.TempDir(), "7.prio")
		d := &driver{priorityPath: path}
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
			priority, err := d.readPriority()
			require.NoError(t, err)
			last = priority
		}
		require.Equal(t, 19, last)
	}
}
