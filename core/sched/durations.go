package sched

import (
	"sort"
	"time"
)

// durationClass is an expected duration, rounded up to a power of the eighth root of 2, in milliseconds. Jobs of one
// class and one declaration form one group. Class 0 is no time at all.
type durationClass uint8

// classesPerOctave is how many classes there are from a duration to twice that duration.
const classesPerOctave = 8

// classMs is the duration of each class, in milliseconds. It increases strictly; the last one is 45 days.
var classMs = classDurations()

func classDurations() []int64 {
	eighths := [classesPerOctave]int64{1024, 1117, 1218, 1328, 1448, 1579, 1722, 1878} // 1024 times the powers
	all := []int64{0}
	for octave := range 32 {
		for _, eighth := range eighths {
			if ms := (eighth<<octave + 1023) >> 10; ms > all[len(all)-1] && len(all) < 256 {
				all = append(all, ms)
			}
		}
	}
	return all
}

// classOf is the first class that is not shorter than a duration; the last one if all are.
func classOf(d time.Duration) durationClass {
	ms := d.Milliseconds()
	at := sort.Search(len(classMs), func(i int) bool { return classMs[i] >= ms })
	return durationClass(min(at, len(classMs)-1))
}

func (c durationClass) ms() int64 { return classMs[c] }

func (c durationClass) duration() time.Duration { return time.Duration(c.ms()) * time.Millisecond }

// least is the longest duration that is too short for the class: what is rounded up to the class takes longer.
func (c durationClass) least() time.Duration {
	return time.Duration(classMs[max(c, 1)-1]) * time.Millisecond
}
