package calendar

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// years is how far Next looks ahead: 29 February is missing for eight years around 2100.
const years = 8

// shortest is the shortest period of Every.
const shortest = time.Second

// Rule says when something is due. ParseCron and Every make one; the zero Rule is never due.
type Rule struct {
	named fields // of an expression
	zone  *time.Location

	period time.Duration // of Every, else 0
	anchor time.Time
}

// Every returns the rule that is due at anchor + k*period for each k from 1, in elapsed time.
func Every(period time.Duration, anchor time.Time) (Rule, error) {
	if period < shortest {
		return Rule{}, fmt.Errorf("a period of %v is too short: the shortest is %v", period, shortest)
	}
	if _, ok := (Rule{period: period, anchor: time.Unix(0, 0)}).Next(time.Unix(0, 0)); !ok {
		return Rule{}, fmt.Errorf("a period of %v is too long: the longest is %d years", period, years)
	}
	return Rule{period: period, anchor: anchor.Round(0)}, nil // without the monotonic clock, which stops in sleep
}

// Next returns the first time at which the rule is due strictly after a time, in the rule's zone; that of Every is in the anchor's. It
// reports false if there is none within eight years.
func (r Rule) Next(after time.Time) (time.Time, bool) {
	var next time.Time
	ok := false
	switch {
	case r.period > 0:
		next, ok = r.nextPeriod(after.Round(0))
	case r.zone != nil:
		var at int64
		if at, ok = r.named.due(after.Unix()+1, r.zone); ok { // a due time is a whole second
			next = time.Unix(at, 0).In(r.zone)
		}
	}
	if !ok || next.After(after.UTC().AddDate(years, 0, 1)) { // a day more: the same reading can come later by a shift
		return time.Time{}, false
	}
	return next, true
}

func (r Rule) nextPeriod(after time.Time) (time.Time, bool) {
	since := after.Sub(r.anchor)
	if since == math.MinInt64 || since == math.MaxInt64 { // further than a duration can be
		return time.Time{}, false
	}
	if since < 0 {
		return r.anchor.Add(r.period), true
	}
	return after.Add(r.period - since%r.period).In(r.anchor.Location()), true
}

// Jitter returns a delay from 0 to less than most, which is always the same for a name. The delays of many names are spread evenly.
func Jitter(name string, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(name))
	high, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:8]), uint64(most))
	return time.Duration(high)
}
