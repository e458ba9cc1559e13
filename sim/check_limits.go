package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"lockstep/core/filter"
	"lockstep/core/job"
)

// checkLimits: at most n jobs work whose reason trail names the bucket "rate-limit:n:label".
// At most n jobs work to which a rule RATE_LIMIT n applies; jobs that were chosen before the
// rule applied do not count.
type checkLimits struct {
	buckets map[int64][]bucket
	picked  map[int64]pickVerdict
}

type bucket struct {
	name string
	n    int
}

// pickVerdict is the verdict of the effective rules when a job was chosen.
type pickVerdict struct {
	verdict    verdict
	generation int
}

func (*checkLimits) Name() string { return "rate limits" }

func (c *checkLimits) See(w *World, event any) error {
	if c.picked == nil {
		c.buckets, c.picked = map[int64][]bucket{}, map[int64]pickVerdict{}
	}
	switch e := event.(type) {
	case jobPicked:
		return c.pick(w, e.id)
	case opPermitted:
		if e.process.onDecider() {
			return c.countByBucket(w, e.process.job)
		}
	case processPermitted:
		if !e.process.onDecider() {
			return nil
		}
		if err := c.countByBucket(w, e.process.job); err != nil {
			return err
		}
		return c.countByRule(w, e.process.job)
	}
	return nil
}

// pick records by which rule a job was chosen. It counts the working jobs that the same rule
// chose: the daemon knows of them.
func (c *checkLimits) pick(w *World, id int64) error {
	j := w.Job(id)
	v, known := w.effective.verdict(j)
	// A choice that a cancel has overtaken starts nothing, and rules about locks say other things of an ended job.
	if !known || j != nil && j.Status().Final() {
		delete(c.picked, id)
		return nil
	}
	c.picked[id] = pickVerdict{v, w.effective.generation}
	if v.action.Verb != filter.RateLimit {
		return nil
	}
	count := 1
	for _, other := range w.occupying() {
		if other != id && c.picked[other].verdict.text == v.text && c.stillMatches(w, other, v) {
			count++
		}
	}
	if count > int(v.action.Limit) {
		return fmt.Errorf("job %d was chosen as number %d, but rule %s allows %d", id, count, v.uuid, v.action.Limit)
	}
	return nil
}

func (c *checkLimits) stillMatches(w *World, id int64, v verdict) bool {
	now, known := w.effective.verdict(w.Job(id))
	return known && now.text == v.text
}

// countByRule counts the working jobs that were chosen under the current rules, and to which the rule still applies: one about locks may
// apply to one opcode only.
func (c *checkLimits) countByRule(w *World, id int64) error {
	mine, chosen := c.picked[id]
	if !chosen || mine.verdict.action.Verb != filter.RateLimit || !w.effective.known || mine.generation != w.effective.generation {
		return nil
	}
	count := 0
	for _, other := range w.occupying() {
		p, known := c.picked[other]
		if known && p.generation == mine.generation && p.verdict.text == mine.verdict.text && c.stillMatches(w, other, mine.verdict) {
			count++
		}
	}
	if count > int(mine.verdict.action.Limit) {
		return fmt.Errorf("job %d runs as number %d, but rule %s allows %d", id, count, mine.verdict.uuid, mine.verdict.action.Limit)
	}
	return nil
}

func (c *checkLimits) countByBucket(w *World, id int64) error {
	for _, b := range c.bucketsOf(w, id) {
		count := 0
		for _, other := range w.occupying() {
			for _, has := range c.bucketsOf(w, other) {
				if has == b {
					count++
				}
			}
		}
		if count > b.n {
			return fmt.Errorf("job %d runs as number %d of %s", id, count, b.name)
		}
	}
	return nil
}

func (c *checkLimits) bucketsOf(w *World, id int64) []bucket {
	known, cached := c.buckets[id]
	if j := w.Job(id); !cached && j != nil {
		known = bucketsOf(j)
		c.buckets[id] = known
	}
	return known
}

// bucketsOf returns the rate-limit buckets that the reason trails of a job name, each once.
func bucketsOf(j *job.Job) []bucket {
	var all []bucket
	seen := map[string]bool{}
	for i := range j.Ops {
		var op struct{ Reason [][3]json.RawMessage }
		if !bytes.Contains(j.Ops[i].Input, []byte("rate-limit:")) || json.Unmarshal(j.Ops[i].Input, &op) != nil {
			continue
		}
		for _, entry := range op.Reason {
			var text string
			mustDecode(entry[1], &text)
			parts := strings.SplitN(text, ":", 3)
			if parts[0] != "rate-limit" || len(parts) != 3 || seen[text] {
				continue
			}
			if n, err := strconv.Atoi(parts[1]); err == nil && n > 0 {
				seen[text] = true
				all = append(all, bucket{text, n})
			}
		}
	}
	return all
}
