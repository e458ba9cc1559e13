package study

import (
	"fmt"
	"math"
	"regexp"
	"time"

	"lockstep/core/durations"
	"lockstep/sim"
)

// stepsPerDecade is how many labels there are for durations from one second to ten.
const stepsPerDecade = 24

var kindLabel = regexp.MustCompile(`kind=\S+`)

// stepOf is the label of a duration of at least a tenth of a second: the greatest step that is not longer.
func stepOf(d time.Duration) int {
	return int(math.Floor(stepsPerDecade * math.Log10(max(d.Seconds(), 0.1))))
}

// withKnownDurations is the work with the label of its duration, in place of its kind, on each opcode.
func withKnownDurations(batches []batch) []batch {
	all := make([]batch, len(batches))
	for i, b := range batches {
		all[i].at = b.at
		for _, j := range b.jobs {
			labelled := plannedJob{kind: j.kind}
			for _, op := range j.ops {
				label := fmt.Sprintf("kind=step%d", stepOf(durationOf(op)))
				labelled.ops = append(labelled.ops, sim.OpSpec(kindLabel.ReplaceAllString(string(op), label)))
			}
			all[i].jobs = append(all[i].jobs, labelled)
		}
	}
	return all
}

// knownDurations is the table that knows the durations of all labels up to a month.
func knownDurations() *durations.Table {
	t := &durations.Table{}
	for step := stepOf(0); step <= stepOf(31*24*time.Hour); step++ {
		seconds := math.Pow(10, (float64(step)+0.5)/stepsPerDecade)
		op := sim.OpSpec(fmt.Sprintf("run run_for=1 kind=step%d", step))
		t.Record(durations.KindOf(op.Encode(""), ""), time.Duration(seconds*float64(time.Second)), true)
	}
	return t
}
