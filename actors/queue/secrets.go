package queue

import (
	"encoding/json"

	"lockstep/messages"
)

// Secrets holds the secrets of jobs that have not been started, by job id: a JSON
// value per opcode, null where it has none. It lives as long as the daemon, and
// only in memory.
type Secrets map[int64][]json.RawMessage

// keep stores a new job's secrets, if it has any.
func (v Secrets) keep(id int64, ops []*messages.OpDraft) {
	secrets := make([]json.RawMessage, len(ops))
	any := false
	for i, op := range ops {
		if len(op.Secrets) > 0 {
			secrets[i], any = op.Secrets, true
		}
	}
	if any {
		v[id] = secrets
	}
}
