package calls

import (
	"sync"

	"lockstep/core/config/model"
	"lockstep/core/wire"
)

// Snapshot is a configuration as the answer to readConfig or lockConfig. Any number of goroutines may use it.
type Snapshot struct {
	Config *model.Config
	frame  func() [][]byte
}

// NewSnapshot returns the snapshot of a configuration. It encodes nothing.
func NewSnapshot(c *model.Config) *Snapshot {
	return &Snapshot{c, sync.OnceValue(func() [][]byte {
		return append(append([][]byte{wire.AppendResult(nil)}, c.Parts()...), wire.CloseResult(nil))
	})}
}

// Frame is the payload of the answer with the configuration, in parts. The first call encodes it. The caller must not change it.
func (s *Snapshot) Frame() [][]byte { return s.frame() }
