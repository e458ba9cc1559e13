package sim

import (
	"bytes"
	"fmt"

	"lockstep/core/job"
)

// checkOutput: output that died with its job process is said. The first opcode whose end no process has written, so that the daemon has
// failed it, has one log entry output-cut if its command has begun. An opcode whose process has written its end has none. Each lost try
// of an opcode has one more.
type checkOutput struct {
	begun   map[string]bool // by opcode and tag: commands that have begun, and of which no process has written the end
	garbled map[int64]bool
}

func (*checkOutput) Name() string { return "cut output is said" }

func (c *checkOutput) See(w *World, event any) error {
	if c.begun == nil {
		c.begun, c.garbled = map[string]bool{}, map[int64]bool{}
	}
	switch e := event.(type) {
	case opcodeStarted:
		var input struct {
			OpID string `json:"OP_ID"`
		}
		mustDecode(e.input, &input)
		if input.OpID == "OP_RUN_COMMAND" {
			c.begun[opcodeKey(e.op, e.tag)] = true
		}
	case garbled:
		c.garbled[e.id] = true
	case fileChanged:
		c.awaitTries(e)
		if e.job != nil && e.job.Status().Final() && !c.garbled[e.id] {
			return c.judge(w, e)
		}
	}
	return nil
}

// awaitTries forgets the commands whose try is over: a job that fails before the next one begins has no process that was lost.
func (c *checkOutput) awaitTries(e fileChanged) {
	if e.job == nil {
		return
	}
	for i := range e.job.Ops {
		if e.job.Ops[i].AwaitsTry() {
			delete(c.begun, opcodeKey(i, e.tag))
		}
	}
}

func opcodeKey(op int, tag string) string { return fmt.Sprintf("opcode %d of %s", op, tag) }

func (c *checkOutput) judge(w *World, e fileChanged) error {
	first := true
	lost := w.lostTries(e.id)
	for i, op := range e.job.Ops {
		cuts := 0
		for _, entry := range op.Log {
			// In Ganeti mode the type is the beginning of a message.
			if entry.Type == "output-cut" || entry.Type == "message" && bytes.HasPrefix(entry.Payload, []byte(`"[output-cut]`)) {
				cuts++
			}
		}
		cuts -= lost[i]
		// The result of a process is a pair; a text is the daemon's.
		byDaemon := op.Status == job.Error && bytes.HasPrefix(bytes.TrimSpace(op.Result), []byte(`"`))
		begun := c.begun[opcodeKey(i, e.tag)]
		switch {
		case begun && byDaemon && first && cuts != 1:
			return fmt.Errorf(
				"the command of opcode %d of job %d has begun, and died with its process: its log says %d times that output is missing",
				i,
				e.id,
				cuts,
			)
		case cuts > 0 && !byDaemon:
			return fmt.Errorf("opcode %d of job %d is %s, and its log says that its process has died: %s", i, e.id, op.Status, op.Result)
		}
		first = first && !byDaemon // after a power loss a later one may have begun, too
	}
	return nil
}
