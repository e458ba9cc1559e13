package sim

import (
	"fmt"

	"lockstep/actors/core/layout"
)

// checkParse: every job file that lockstep has written can be read, at all
// times and after power loss, and so can the serial.
type checkParse struct {
	garbled map[int64]bool
}

func (*checkParse) Name() string { return "every file parses" }

func (c *checkParse) See(w *World, event any) error {
	switch e := event.(type) {
	case fileChanged:
		if e.job == nil {
			delete(c.garbled, e.id)
		}
		if e.content != nil && e.err != nil {
			return fmt.Errorf("job %d: %w", e.id, e.err)
		}
	case garbled:
		if c.garbled == nil {
			c.garbled = map[int64]bool{}
		}
		c.garbled[e.id] = true
	case powerLost, daemonStarted, finished:
		return c.all(w)
	}
	return nil
}

func (c *checkParse) all(w *World) error {
	for _, id := range w.jobIDs() {
		if c.garbled[id] {
			continue
		}
		if err := w.disk.find(layout.JobPath(id)).reading().err; err != nil {
			return fmt.Errorf("job %d: %w", id, err)
		}
	}
	if f := w.disk.find(layout.SerialPath); f != nil {
		if _, err := layout.ParseSerial(f.data); err != nil {
			return err
		}
	}
	return nil
}
