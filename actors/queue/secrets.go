package queue

import (
	"encoding/json"

	"lockstep/core/opcode"
	"lockstep/messages"
)

// retained is what survives a crash of the queue, but not of the daemon.
type retained struct {
	secrets   Secrets
	catalogue *opcode.Catalogue
}

// Secrets holds the secrets of the jobs that are not final, by job id: a JSON value
// per opcode, nil for an opcode without secrets. Jobs without any secrets are not in
// it. It is in memory only.
type Secrets map[int64][]json.RawMessage

// keep stores the secrets of a new job in memory, if it has any.
func (s Secrets) keep(id int64, ops []*messages.OpDraft) {
	secrets := make([]json.RawMessage, len(ops))
	found := false
	for i, op := range ops {
		if len(op.Secrets) > 0 {
			secrets[i], found = op.Secrets, true
		}
	}
	if found {
		s[id] = secrets
	}
}
