package opcode

import (
	"encoding/json"
	"fmt"

	"lockstep/core/job"
	"lockstep/core/rawjson"
)

// Origin says which kind of job process runs an opcode in Ganeti mode.
type Origin uint8

const (
	// OfGaneti: an opcode of Ganeti, or one that is in no catalogue. Ganeti's job process runs it.
	OfGaneti Origin = iota
	// OfLockstep: OP_RUN_COMMAND, or an opcode that an operator has declared. lockstep-job runs it.
	OfLockstep
)

// origin returns the origin of an opcode. An unknown one counts as Ganeti's.
func (c *Catalogue) origin(name string) Origin {
	if op, known := c.opcodes[name]; known && (op.lockstep || op.Defined()) {
		return OfLockstep
	}
	return OfGaneti
}

// OriginOf returns the origin of a job's first opcode. A job has one process, so CheckOrigin refuses a job with opcodes
// of both origins before it is accepted.
func (c *Catalogue) OriginOf(j *job.Job) Origin {
	if len(j.Ops) == 0 {
		return OfGaneti
	}
	return c.origin(job.OpID(j.Ops[0].Input))
}

// CheckOrigin returns an error if the opcodes with these names have different origins.
func (c *Catalogue) CheckOrigin(names []string) error {
	for i, name := range names {
		if c.origin(name) != c.origin(names[0]) {
			return fmt.Errorf("Opcode %d of the job is %s and opcode 1 is %s: one process runs all opcodes of a job, and Ganeti's process "+
				"does not run lockstep's opcodes; submit two jobs, and let one depend on the other", i+1, name, names[0])
		}
	}
	return nil
}

// SecretOSParams returns the object of secret OS parameters in the secrets of one of Ganeti's opcodes, which has no other
// secret parameter; nil if there is none.
func SecretOSParams(secrets json.RawMessage) json.RawMessage {
	start, end, _ := rawjson.MemberRange(secrets, nestedSecret)
	if start == 0 {
		return nil
	}
	return secrets[start:end]
}
