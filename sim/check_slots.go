package sim

import "fmt"

// checkSlots: no more jobs are worked on than there are run slots. What a dead
// process has left still counts until it is cleared away.
type checkSlots struct{}

func (checkSlots) Name() string { return "run slots" }

func (checkSlots) See(w *World, event any) error {
	switch event.(type) {
	case processPermitted, opcodeStarted:
		if acting := w.machine.acting(); len(acting) > w.options.Slots {
			return fmt.Errorf("jobs %v run, there are %d slots", acting, w.options.Slots)
		}
	}
	return nil
}
