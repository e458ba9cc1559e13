package record

import "maps"

// holdKey says that an operator holds the job: {"by": "uid=0(root), pid=4711", "since": 1767323045000000}. It has no
// meaning once the job has ended.
const holdKey = "hold"

// Hold is an operator's order that a job begins no opcode until its release.
type Hold struct {
	By      string `json:"by"`    // user and process, as a gateway describes them; "" if that is unknown
	SinceUs int64  `json:"since"` // microseconds since 1970
	// Own: the user to whom the job belongs holds it, and may release it. A hold of an operator he may not.
	Own bool `json:"own,omitempty"`
}

// Hold is the hold of the job; false if it is not held. A hold that this version does not understand holds the job.
func (r Record) Hold() (Hold, bool) {
	_, there := r.members[holdKey]
	hold, _ := member[Hold](r, holdKey)
	return hold, there
}

// WithHold returns the record of a job that is held.
func (r Record) WithHold(h Hold) Record { return r.with(holdKey, h) }

// WithoutHold returns the record of a job that is not held.
func (r Record) WithoutHold() Record {
	r.members = maps.Clone(r.members)
	delete(r.members, holdKey)
	return r
}
