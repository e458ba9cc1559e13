package access

import (
	"lockstep/core/demand"
	"lockstep/core/lock"
	"lockstep/core/opcode"
)

// Submission reports why an identity may not submit a job with this opcode of the catalogue; nil: it may. The error is a *Refusal. Who may
// submit at all is Method's.
func (p Policy) Submission(i Identity, c *opcode.Catalogue, d opcode.Draft) error {
	has := p.Role(i)
	if has >= Admin {
		return nil
	}
	need := submissionNeeds(i, c, d)
	if has < need.Role {
		return &Refusal{What: need.To, Needs: need.Role, Has: has, Who: i.String()}
	}
	return nil
}

// submissionNeeds is the most that an opcode needs.
func submissionNeeds(i Identity, c *opcode.Catalogue, d opcode.Draft) Need {
	op, known := c.Lookup(d.Name)
	switch {
	case d.Name == demand.RunCommand && i.Remote != "" && i.UID == NoUID:
		return Need{Role: Admin, To: "submit commands without an account (as=) in the users file"}
	case d.Name != demand.RunCommand && (!known || !op.Defined()):
		return Need{Role: Admin, To: "submit " + d.Name}
	case d.Priority < 0:
		return Need{Role: Operate, To: "submit a job before those of others (priority below 0)"}
	case d.Name != demand.RunCommand && op.MaySubmit().Admit(i.Name, i.Groups):
		return Need{Role: Submit, To: "submit " + d.Name}
	case d.Name != demand.RunCommand:
		return Need{Role: Operate, To: "submit " + d.Name}
	}
	if name := widestLock(c, d); name != "" {
		return Need{Role: Operate, To: "take " + name + " exclusively"}
	}
	return Need{Role: Submit, To: "submit commands"}
}

// widestLock is the name of a lock that a command takes exclusively although it stands in the way of all jobs: cluster/BGL, or all locks of
// a level; "": there is none.
func widestLock(c *opcode.Catalogue, d opcode.Draft) string {
	required, err := c.RequiredLocks(d.Input, nil)
	if err != nil {
		return "" // the queue refuses the opcode
	}
	for _, item := range required.Request {
		level := item.Lock.Level()
		if item.Mode == lock.Exclusive && (item.Lock.IsGroup() || level == lock.Cluster || level == lock.Config) {
			return item.Lock.String()
		}
	}
	return ""
}
