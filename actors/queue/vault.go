package queue

import (
	"encoding/json"

	"lockstep/messages"
)

// Vault holds the secrets of jobs that have not been started, by job id: a JSON
// value per opcode, null where it has none. It lives as long as the daemon, and
// only in memory.
type Vault map[int64][]json.RawMessage

// keep stores a new job's secrets, if it has any.
func (v Vault) keep(id int64, ops []*messages.OpDraft) {
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

// hand is what travels through the start pipe: a JSON list, one entry for each
// of the job's opcodes (queue.md 4.5, step 5).
func (v Vault) hand(id int64, ops int) []byte {
	secrets := v[id]
	if secrets == nil {
		secrets = make([]json.RawMessage, ops)
	}
	data, err := json.Marshal(secrets)
	if err != nil {
		panic("the vault held something that is not JSON") // it was parsed at the edge
	}
	return data
}
