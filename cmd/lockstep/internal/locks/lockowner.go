package locks

import (
	"encoding/json"
	"fmt"

	"lockstep/cmd/internal/term"
	"lockstep/core/answer"
)

// PrincipalText is a job or a client, for people.
func PrincipalText(p answer.Principal) string {
	if p.Named {
		return term.Visible(p.Name)
	}
	return fmt.Sprintf("job %d", p.Job)
}

// holderOf reads an owner as the lock monitor gives it: a string that contains the JSON
// text of a principal (queue.md 2.6).
func holderOf(text string) answer.Principal {
	var p answer.Principal
	if json.Unmarshal([]byte(text), &p) != nil {
		return answer.Principal{Named: true, Name: text} // an owner of an unknown form holds a lock, too
	}
	return p
}

// ItemText is a lock and a mode, for people.
func ItemText(i answer.LockItem) string {
	return fmt.Sprintf("%s (%s)", term.Visible(i.Lock), term.Visible(i.Mode))
}
