package locks

import (
	"encoding/json"
	"fmt"

	"lockstep/cmd/internal/term"
	"lockstep/core/answer"
)

// PrincipalText is a text for a job, by its id, or a client, by its name.
func PrincipalText(p answer.Principal) string {
	if p.Named {
		return term.Visible(p.Name)
	}
	return fmt.Sprintf("job %d", p.Job)
}

// holderOf reads an owner of the lock monitor: a string that contains the JSON text of a
// principal (queue.md 2.6).
func holderOf(text string) answer.Principal {
	var p answer.Principal
	if json.Unmarshal([]byte(text), &p) != nil {
		return answer.Principal{Named: true, Name: text} // show an owner of unknown form as it is
	}
	return p
}
