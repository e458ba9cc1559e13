package sim

import "fmt"

// checkIDs: the id that a client was given stands for that client's job for ever.
type checkIDs struct {
	given map[int64]string // the tag of the job, by id
}

func (*checkIDs) Name() string { return "ids are given once" }

func (c *checkIDs) See(_ *World, event any) error {
	if c.given == nil {
		c.given = map[int64]string{}
	}
	switch e := event.(type) {
	case submissionAnswered:
		for i, id := range e.submission.ids {
			if other, twice := c.given[id]; twice {
				return fmt.Errorf("id %d was given to %s, and to %s", id, other, e.submission.tag(i))
			}
			c.given[id] = e.submission.tag(i)
		}
	case fileChanged:
		if e.job == nil {
			return nil
		}
		if tag, given := c.given[e.id]; given && e.tag != tag {
			return fmt.Errorf("job %d is %s, the id was given to %s", e.id, e.tag, tag)
		}
	}
	return nil
}
