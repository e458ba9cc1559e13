package sched

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep/core/job"
)

// limitPrefix begins a reason that limits (queue.md 4.4.1).
const limitPrefix = "rate-limit"

// ReasonLimits are the limits that the reason trails of a job put on it, each once, by key. A reason
// "rate-limit:N:label" stands for the bucket of that number and label.
func ReasonLimits(j *job.Job) []Limit {
	var limits []Limit
	for i := range j.Ops {
		if !bytes.Contains(j.Ops[i].Input, []byte(limitPrefix)) {
			continue
		}
		var op struct {
			Reason [][]json.RawMessage `json:"reason"`
		}
		if json.Unmarshal(j.Ops[i].Input, &op) != nil {
			continue // not a limit
		}
		for _, entry := range op.Reason {
			if len(entry) < 2 {
				continue
			}
			var text string
			if json.Unmarshal(entry[1], &text) != nil {
				continue
			}
			if limit, isLimit := reasonLimit(text); isLimit {
				limits = append(limits, limit)
			}
		}
	}
	slices.SortFunc(limits, func(a, b Limit) int { return strings.Compare(a.Key, b.Key) })
	return slices.Compact(limits)
}

func reasonLimit(text string) (Limit, bool) {
	word, rest, _ := strings.Cut(text, ":")
	number, label, _ := strings.Cut(rest, ":")
	n, err := strconv.Atoi(number)
	if word != limitPrefix || err != nil || n < 1 {
		return Limit{}, false
	}
	// The key has the canonical form of the number.
	return Limit{Key: fmt.Sprintf("%s:%d:%s", limitPrefix, n, label), N: n}, true
}
