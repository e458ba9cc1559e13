package access

import "fmt"

// Refusal is the error for a request that its sender has no permission for. On LUXI it is an OpPrereqError with the code
// messages.NotPermitted, over HTTP status 403.
type Refusal struct {
	What  string // completes "to … needs the role": "change settings"
	Needs Role
	Has   Role
	Who   string // the user
	Only  Sender // instead of a role: who alone may
	Job   int64  // the request is about this job of Owner; 0: about none
	Owner string
}

// Error is the text for the user, such as "to change settings needs the role admin, alice has submit".
func (r *Refusal) Error() string {
	if r.Only != AnyClient {
		return fmt.Sprintf("only %s may %s, not %s", r.Only, r.What, r.Who)
	}
	text := fmt.Sprintf("to %s needs the role %s, %s has %s", r.What, r.Needs, r.Who, r.Has)
	if r.Job != 0 {
		return fmt.Sprintf("job %d is %s's; %s", r.Job, r.Owner, text)
	}
	return text
}

// RefusedRelease is the refusal to release a job of who that an operator holds.
func RefusedRelease(job int64, holder, who string) error {
	return fmt.Errorf("job %d is held by %s; %w", job, holder, &Refusal{What: "release it", Needs: Operate, Has: Submit, Who: who})
}

// RefusedOrder is the refusal of an order for a job of another user to a user with the role submit: "job 12 is root's; to kill it needs
// the role operate, alice has submit". to completes "to … needs the role": "kill it".
func RefusedOrder(job int64, owner Submitter, to, who string) *Refusal {
	return &Refusal{What: to, Needs: Operate, Has: Submit, Who: who, Job: job, Owner: owner.String()}
}
