// Package instant reads times that people type, such as "tomorrow 03:00", as instants of a zone. It is pure: now and the zone are
// arguments.
package instant

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/core/words"
)

// Help lists the forms of a time, for the help of commands.
const Help = `  now                          at once
  +2h                          after a duration, like 90s, 1h30m or 2d
  03:00, 03:00:30              the next time that the clock shows this
  today 03:00, tomorrow 03:00, monday 03:00
                               of a weekday: the next one, which may be today
  2026-12-01 03:00, 2026-12-01 03:00:30
  2026-12-01T03:00:00+01:00    RFC 3339`

// forms are those of Help in an error.
const forms = "write now, +2h, 03:00, tomorrow 03:00, monday 03:00, 2026-12-01 03:00 or 2026-12-01T03:00:00+01:00"

const (
	textMax = 64 // bytes
	// YearsMax is how many years a time may be ahead.
	YearsMax = 10
)

// Instant is a time that was read.
type Instant struct {
	At time.Time // of the zone, in whole microseconds; never earlier than the text says
	// Doubled: the clock shows this time twice that day, because it is set back. At is the first of the two.
	Doubled bool
	Now     bool // the text is "now"
}

// String is the time with its offset from UTC: "2026-11-29 03:00:00 +01:00".
func (i Instant) String() string {
	text := Format(i.At)
	if i.Doubled {
		text += ", the first of two times when the clock shows this"
	}
	return text
}

// Format writes a time in its zone with the offset from UTC: "2026-11-29 03:00:00 +01:00".
func Format(at time.Time) string { return at.Format("2006-01-02 15:04:05 -07:00") }

var (
	clockForm = regexp.MustCompile(`^([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?$`)
	dateForm  = regexp.MustCompile(`^([0-9]{4})-([0-9]{2})-([0-9]{2})[ T]([^ ]+)$`)
)

// Parse reads a time in one of the forms of Help, in a zone. It refuses a time that has passed, one that the clock skips, and one that is
// more than YearsMax years ahead.
func Parse(text string, now time.Time, zone *time.Location) (Instant, error) {
	now = now.In(zone)
	if len(text) > textMax {
		return Instant{}, fmt.Errorf("a time has at most %d bytes: %s", textMax, forms)
	}
	found, err := parse(text, now)
	if err != nil {
		return Instant{}, err
	}
	found.At = wholeMicroseconds(found.At)
	return found, Check(found.At, now)
}

// After is the instant after a duration.
func After(d time.Duration, now time.Time) (Instant, error) {
	if d > YearsMax*366*24*time.Hour { // the sum could overflow
		return Instant{}, tooFar()
	}
	at := wholeMicroseconds(now.Add(d))
	return Instant{At: at}, Check(at, now)
}

// Check refuses a time that has passed, or is too far ahead.
func Check(at, now time.Time) error {
	switch {
	case at.Before(now):
		return fmt.Errorf("%s has passed; it is %s", Format(at), Format(now.In(at.Location())))
	case at.After(now.AddDate(YearsMax, 0, 0)):
		return tooFar()
	}
	return nil
}

func tooFar() error { return fmt.Errorf("a time is at most %d years ahead", YearsMax) }

// wholeMicroseconds rounds up, so that the result is never earlier.
func wholeMicroseconds(t time.Time) time.Time {
	return t.Add(time.Microsecond - time.Nanosecond).Truncate(time.Microsecond)
}

func parse(text string, now time.Time) (Instant, error) {
	if text == "now" {
		return Instant{At: now, Now: true}, nil
	}
	if rest, is := strings.CutPrefix(text, "+"); is {
		d, err := words.ParseDuration(rest)
		if err != nil {
			return Instant{}, err
		}
		return After(d, now)
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return Instant{At: at.In(now.Location())}, nil
	}
	if date := dateForm.FindStringSubmatch(text); date != nil {
		clock, err := readClock(date[4])
		if err != nil {
			return Instant{}, err
		}
		return clock.on(time.Date(number(date[1]), time.Month(number(date[2])), number(date[3]), 0, 0, 0, 0, time.UTC), now, text)
	}
	day, rest, given := strings.Cut(strings.ToLower(text), " ")
	if !given {
		day, rest = "", day
	}
	if day == "yesterday" || rest == "yesterday" {
		return Instant{}, fmt.Errorf("%q has passed; it is %s", text, Format(now))
	}
	clock, err := readClock(rest)
	if err != nil {
		return Instant{}, fmt.Errorf("%q is not a time: %s", text, forms)
	}
	return clock.next(day, now, text)
}

// clockTime is what a clock shows.
type clockTime struct{ hour, minute, second int }

func readClock(text string) (clockTime, error) {
	parts := clockForm.FindStringSubmatch(text)
	if parts == nil {
		return clockTime{}, fmt.Errorf("%q is not a time of a day: write 03:00 or 03:00:30", text)
	}
	c := clockTime{number(parts[1]), number(parts[2]), number(parts[3])}
	if c.hour > 23 || c.minute > 59 || c.second > 59 {
		return clockTime{}, fmt.Errorf("%q is not a time of a day, which ends at 23:59:59", text)
	}
	return c, nil
}

// number is the value of digits, few enough to fit; 0 for none.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

// weekdays are the names of the days, from Sunday.
var weekdays = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

// next is the clock time on a day of this name; "": on the next day that has it.
func (c clockTime) next(day string, now time.Time, text string) (Instant, error) {
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	weekday := slices.Index(weekdays, day)
	step := 0 // days between the first possible day and the one after it
	switch {
	case day == "today":
	case day == "tomorrow":
		today = today.AddDate(0, 0, 1)
	case day == "":
		step = 1
	case weekday >= 0:
		today, step = today.AddDate(0, 0, (weekday-int(now.Weekday())+7)%7), 7
	default:
		return Instant{}, fmt.Errorf("%q is not a time: %s", text, forms)
	}
	found, err := c.on(today, now, text)
	passed := err == nil && found.At.Before(now) || err != nil && c.at(today).Before(clockOf(now)) // it was skipped before
	if step > 0 && passed {
		return c.on(today.AddDate(0, 0, step), now, text)
	}
	return found, err
}

// at is the clock time on a date, as if in UTC.
func (c clockTime) at(date time.Time) time.Time {
	return date.Add(time.Duration(c.hour)*time.Hour + time.Duration(c.minute)*time.Minute + time.Duration(c.second)*time.Second)
}

// clockOf is what the clock shows at a time in its zone, as if in UTC.
func clockOf(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// on is the clock time on a date, which is midnight in UTC, in the zone of now.
func (c clockTime) on(date, now time.Time, text string) (Instant, error) {
	zone := now.Location()
	shown := c.at(date)
	if !strings.HasPrefix(text, shown.Format(time.DateOnly)) && dateForm.MatchString(text) {
		return Instant{}, fmt.Errorf("there is no day %s", text[:len(time.DateOnly)])
	}
	times, before, after := timesShown(shown, zone)
	switch {
	case len(times) == 0:
		return Instant{}, fmt.Errorf("the clock of %s does not show %s: it is set from %s to %s then", zone,
			shown.Format(time.DateTime), before.Format(time.TimeOnly), after.Format(time.TimeOnly))
	case len(times) > 1:
		return Instant{At: times[0], Doubled: true}, nil
	}
	return Instant{At: times[0]}, nil
}

// zoneSpan is longer than any offset from UTC, and than any shift of a clock.
const zoneSpan = 36 * time.Hour

// timesShown are the instants at which the clock of a zone shows a time, which is given as if in UTC: none if the clock skips it, two if it
// is set back over it. If there are none, before and after is what the clock shows before and after it was set.
func timesShown(shown time.Time, zone *time.Location) (times []time.Time, before, after time.Time) {
	for at := shown.Add(-zoneSpan).In(zone); at.Before(shown.Add(zoneSpan)); {
		_, end := at.ZoneBounds() // of the period with one offset; zero: it has no end
		_, offset := at.Zone()
		candidate := shown.Add(-time.Duration(offset) * time.Second).In(zone)
		if clockOf(candidate).Equal(shown) && !slices.ContainsFunc(times, candidate.Equal) {
			times = append(times, candidate)
		}
		if end.IsZero() {
			break
		}
		if was := clockOf(end.Add(-time.Nanosecond)).Add(time.Nanosecond); !shown.Before(was) && shown.Before(clockOf(end)) {
			before, after = was, clockOf(end)
		}
		at = end
	}
	slices.SortFunc(times, time.Time.Compare)
	return times, before, after
}
