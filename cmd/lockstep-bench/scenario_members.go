package main

import (
	"time"

	"lockstep/core/access"
)

// scenarioMembers compares submissions for another user than the daemon's, whose jobs have a file more, with those for the daemon's user.
// Both are made by the same client, in whose call the user is a parameter. No job runs.
func scenarioMembers(b *bench) error {
	d, c, err := b.startDaemon(true)
	if err != nil {
		return err
	}
	defer d.kill()
	defer c.close()
	member := &access.Submitter{UID: 54_321, Name: "member"}
	for round := range b.each(b.rounds) {
		err := alternate(round,
			func() error { return b.submitFor(c, "Owner", nil) },
			func() error { return b.submitFor(c, "Member", member) },
			func() error { return b.submitManyFor(c, "Owner", nil) },
			func() error { return b.submitManyFor(c, "Member", member) })
		if err != nil {
			return err
		}
	}
	return d.stop()
}

// jobFor is a job for LockstepSubmitJobs.
type jobFor struct {
	Ops []op              `json:"ops"`
	As  *access.Submitter `json:"as,omitempty"`
}

func (b *bench) submitFor(c *client, who string, as *access.Submitter) error {
	return b.timeEach("Submit"+who+"/clients=1", b.sizes.submits, func() error {
		return c.call(nil, "LockstepSubmitJobs", []jobFor{{command(), as}})
	})
}

func (b *bench) submitManyFor(c *client, who string, as *access.Submitter) error {
	list := make([]jobFor, b.sizes.many)
	for i := range list {
		list[i] = jobFor{command(), as}
	}
	began := time.Now()
	err := c.call(nil, "LockstepSubmitJobs", list)
	b.recordRate("SubmitMany"+who, time.Since(began), len(list))
	return err
}
