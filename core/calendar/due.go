package calendar

import (
	"math"
	"time"
)

// day and farthest are in seconds. No zone is, or was, farther from UTC than farthest.
const (
	day      = 24 * 60 * 60
	farthest = 16 * 60 * 60
)

// segment is a time in which the clock of a zone is not set: from start to before end it shows the time of UTC and offset. All are in
// seconds.
type segment struct{ start, end, offset int64 }

func segmentAt(zone *time.Location, at int64) segment {
	t := time.Unix(at, 0).In(zone)
	start, end := t.ZoneBounds()
	_, offset := t.Zone()
	s := segment{math.MinInt64, math.MaxInt64, int64(offset)}
	if !start.IsZero() {
		s.start = start.Unix()
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	return s
}

// due returns the first second, from one on, at which an expression is due in a zone.
func (f fields) due(from int64, zone *time.Location) (int64, bool) {
	if f.elapsed {
		return f.dueElapsed(from, zone)
	}
	return f.dueOnce(from, zone)
}

// dueOnce is due if the hour field does not begin with "*": when the clock shows a reading, or a later one, for the first time.
func (f fields) dueOnce(from int64, zone *time.Location) (int64, bool) {
	fresh := reading(math.MinInt64) // no earlier time shows this reading or a later one; two days before, all are earlier
	for at := from - 2*day; at < from; {
		s := segmentAt(zone, at)
		fresh = max(fresh, reading(min(s.end, from)+s.offset))
		at = s.end
	}
	named, ok := f.next(fresh)
	if !ok {
		return 0, false
	}
	at := max(from, int64(named)-farthest)
	for {
		s := segmentAt(zone, at)
		if shown := max(at, int64(named)-s.offset); shown < s.end { // at itself if a gap has skipped the reading
			return shown, true
		}
		at = s.end
	}
}

// dueElapsed is due if the hour field begins with "*".
func (f fields) dueElapsed(from int64, zone *time.Location) (int64, bool) {
	for {
		s := segmentAt(zone, from)
		before := s.offset
		if s.start != math.MinInt64 {
			before = segmentAt(zone, s.start-1).offset
		}
		if from == s.start && f.owedAfterGap(s, before) {
			return from, true
		}
		named, ok := f.next(reading(max(from, f.resumes(s, before)) + s.offset))
		if !ok {
			return 0, false
		}
		if at := int64(named) - s.offset; at < s.end {
			return at, true
		}
		if s.end-from > 2*day { // until the named reading, no named one is skipped or repeated
			from = max(s.end, int64(named)-day)
		} else {
			from = s.end
		}
	}
}

// owedAfterGap reports whether the expression is due at the beginning of a segment because readings are skipped, where before is the
// offset of the segment before. It is not if the next hour and minute come as soon as the first skipped reading would have come.
func (f fields) owedAfterGap(s segment, before int64) bool {
	if s.offset <= before {
		return false
	}
	skipped, ok := f.next(reading(s.start + before))
	if !ok || int64(skipped) >= s.start+s.offset {
		return false
	}
	next, _ := f.onAnyDay().next(reading(s.start + s.offset))
	return int64(next)-s.offset > int64(skipped)-before
}

// resumes returns from when on readings of a segment are due. If it begins with repeated ones, they are due from the second on in which the
// clock, if not set back, would have come to the next hour and minute of the expression.
func (f fields) resumes(s segment, before int64) int64 {
	if s.offset >= before {
		return s.start
	}
	next, _ := f.onAnyDay().next(reading(s.start + before))
	return min(int64(next)-before, s.start+before-s.offset)
}
