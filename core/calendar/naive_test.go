package calendar_test

import (
	"archive/zip"
	"fmt"
	"go/build"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/calendar"
	"lockstep/sim/longtest"
)

// naive finds due times by a look at each minute. It has nothing in common with the package but the rules of its comment. Its
// times are whole minutes since 1970; the reading of a clock is the minute at which a clock of UTC shows the same.
type naive struct {
	minutes, hours, days, months, weekdays set
	eitherDay, elapsed                     bool
}

type set [64]bool

func setOf(values ...int) set {
	var s set
	for _, value := range values {
		s[value] = true
	}
	return s
}

// from returns the set of the values from low to high.
func from(low, high, step int) set {
	var s set
	for value := low; value <= high; value += step {
		s[value] = true
	}
	return s
}

func (n *naive) namesTime(reading int64) bool { return n.minutes[reading%60] && n.hours[reading/60%24] }

func (n *naive) names(reading int64) bool {
	if !n.namesTime(reading) {
		return false
	}
	clock := time.Unix(reading*60, 0).UTC()
	day, weekday := n.days[clock.Day()], n.weekdays[clock.Weekday()]
	if n.eitherDay {
		return n.months[clock.Month()] && (day || weekday)
	}
	return n.months[clock.Month()] && day && weekday
}

// nextTime is the first reading from one on whose hour and minute are named.
func (n *naive) nextTime(reading int64) int64 {
	for !n.namesTime(reading) {
		reading++
	}
	return reading
}

// window is a time in one zone.
type window struct {
	zone       *time.Location
	start, end int64
	readings   []int64 // of the clock, at each minute from lookback before start
}

const lookback = 49 * 60

func windowOf(zone *time.Location, start, end time.Time) window {
	w := window{zone: zone, start: start.Unix() / 60, end: end.Unix() / 60}
	for t := w.start - lookback; t < w.end; t++ {
		_, offset := time.Unix(t*60, 0).In(zone).Zone()
		w.readings = append(w.readings, t+int64(offset/60))
	}
	return w
}

// due returns the due times after the beginning of a window and before its end.
func (n *naive) due(w window) []int64 {
	var all []int64
	expected := w.readings[0] // what the clock shows if it is not set
	latest, hold := expected, int64(0)
	for i, reading := range w.readings {
		t := w.start - lookback + int64(i)
		due := false
		switch {
		case !n.elapsed:
			for ; latest < reading; latest++ {
				due = due || n.names(latest+1)
			}
		case reading > expected:
			due = n.names(reading) || n.owed(expected, reading)
		default:
			if reading < expected {
				hold = min(t+n.nextTime(expected)-expected, t+expected-reading)
			}
			due = t >= hold && n.names(reading)
		}
		if due && t > w.start {
			all = append(all, t)
		}
		expected = reading + 1
	}
	return all
}

// owed reports whether something is due when a clock is set from one reading to a later one.
func (n *naive) owed(skipped, reading int64) bool {
	for lost := skipped; lost < reading; lost++ {
		if n.names(lost) {
			return n.nextTime(reading)-reading > lost-skipped
		}
	}
	return false
}

var (
	first = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	last  = time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC)
)

// change is a moment at which the clock of a zone is set.
type change struct {
	zone *time.Location
	at   time.Time
}

// changes are the moments from 2025 to 2037 at which a clock is set, a day before at most, without those of zones that have the same as
// another. A zone whose clock is never set has one, too.
func changes(t testing.TB) []change {
	t.Helper()
	all := allChanges()
	require.Greater(t, len(all), 500, "no zone data beside the Go that runs the test")
	return all
}

var allChanges = sync.OnceValue(func() []change {
	data, err := zip.OpenReader(filepath.Join(build.Default.GOROOT, "lib", "time", "zoneinfo.zip"))
	if err != nil {
		return nil
	}
	defer data.Close()
	var all []change
	met := map[string]bool{}
	for _, file := range data.File {
		zone, err := calendar.LoadZone(file.Name)
		if err != nil { // a folder
			continue
		}
		var own []change
		_, offset := first.In(zone).Zone()
		known := fmt.Sprint(offset)
		for at := first; at.Before(last); at = at.Add(24 * time.Hour) {
			if _, now := at.In(zone).Zone(); now != offset {
				offset = now
				own = append(own, change{zone, at.Add(-24 * time.Hour)})
				known += fmt.Sprint(" ", at.Unix(), " ", offset)
			}
		}
		if own == nil {
			own = []change{{zone, first}}
		}
		if !met[known] {
			met[known] = true
			all = append(all, own...)
		}
	}
	return all
})

// field draws the text of a field and its values.
func field(rt *rapid.T, name string, low, high int) (string, set) {
	step := rapid.IntRange(1, (high-low)/2+2).Draw(rt, name+" step")
	switch rapid.IntRange(0, 4).Draw(rt, name+" form") {
	case 0, 1:
		return "*", from(low, high, 1)
	case 2:
		return fmt.Sprintf("*/%d", step), from(low, high, step)
	case 3:
		begin := rapid.IntRange(low, high).Draw(rt, name+" from")
		end := rapid.IntRange(begin, high).Draw(rt, name+" to")
		return fmt.Sprintf("%d-%d/%d", begin, end, step), from(begin, end, step)
	}
	values := rapid.SliceOfN(rapid.IntRange(low, high), 1, 4).Draw(rt, name)
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(values), " ", ","), "[]"), setOf(values...)
}

// expression draws an expression. Most are due on all days.
func expression(rt *rapid.T) (string, *naive) {
	texts, n := [5]string{2: "*", 3: "*", 4: "*"}, &naive{days: from(1, 31, 1), months: from(1, 12, 1), weekdays: from(0, 7, 1)}
	texts[0], n.minutes = field(rt, "minute", 0, 59)
	texts[1], n.hours = field(rt, "hour", 0, 23)
	if rapid.IntRange(0, 2).Draw(rt, "at night") == 0 { // when clocks are set
		texts[1], n.hours = "0-3", from(0, 3, 1)
	}
	if rapid.IntRange(0, 3).Draw(rt, "some days") == 0 {
		texts[2], n.days = field(rt, "day", 1, 31)
		texts[3], n.months = field(rt, "month", 1, 12)
		texts[4], n.weekdays = field(rt, "weekday", 0, 7)
	}
	n.weekdays[0] = n.weekdays[0] || n.weekdays[7]
	n.eitherDay = texts[2][0] != '*' && texts[4][0] != '*'
	n.elapsed = texts[1][0] == '*'
	return strings.Join(texts[:], " "), n
}

// requireSame compares the times of a rule with those of the naive search.
func (w window) requireSame(t require.TestingT, expr string, n *naive) {
	rule, err := calendar.ParseCron(expr, w.zone)
	if err != nil {
		require.ErrorContains(t, err, "never due")
		require.Empty(t, n.due(w))
		return
	}
	var got []int64
	end := time.Unix(w.end*60, 0)
	for at, ok := rule.Next(time.Unix(w.start*60, 0)); ok && at.Before(end); at, ok = rule.Next(at) {
		if at.Unix()%60 != 0 || at.Location() != w.zone {
			require.Fail(t, "not a minute of the zone", "%s: %s", expr, at)
		}
		got = append(got, at.Unix()/60)
	}
	if want := n.due(w); !slices.Equal(want, got) {
		require.Fail(t, "other times than those of the search", "%s in %s:\n%s\n%s", expr, w.zone, w.text(want), w.text(got))
	}
}

func (w window) text(minutes []int64) string {
	var text strings.Builder
	for _, minute := range minutes {
		text.WriteString(time.Unix(minute*60, 0).In(w.zone).Format(" 2006-01-02T15:04-07:00"))
	}
	return text.String()
}

// Around the moments at which clocks are set, the times are those of a search by minutes.
func TestTimesAreThoseOfASearchByMinutes(t *testing.T) {
	moments := changes(t)
	rapid.Check(t, func(rt *rapid.T) {
		expr, n := expression(rt)
		moment := rapid.SampledFrom(moments).Draw(rt, "moment")
		start := moment.at.Add(time.Duration(rapid.IntRange(-24*60, 36*60).Draw(rt, "minutes")) * time.Minute)
		around := windowOf(moment.zone, start, start.Add(50*time.Hour))
		around.requireSame(rt, expr, n)
		rule, err := calendar.ParseCron(expr, moment.zone)
		if err != nil {
			return
		}
		after := around.start // wherever a search begins, it finds the next one of them
		for _, due := range n.due(around) {
			for ; after < due; after += 7 {
				next, _ := rule.Next(time.Unix(after*60+30, 0))
				require.Equal(rt, due, next.Unix()/60, "%s after %s", expr, time.Unix(after*60+30, 0).In(moment.zone))
			}
		}
	})
}

// The next time is after the given one, and no time is left out, wherever the search begins.
func TestNextIsStrictlyAfterAndSkipsNothing(t *testing.T) {
	moments := changes(t)
	rapid.Check(t, func(rt *rapid.T) {
		expr, _ := expression(rt)
		moment := rapid.SampledFrom(moments).Draw(rt, "moment")
		rule, err := calendar.ParseCron(expr, moment.zone)
		if err != nil {
			return
		}
		after := moment.at.Add(time.Duration(rapid.Int64Range(-100*int64(time.Hour), 100*int64(time.Hour)).Draw(rt, "after")))
		next, ok := rule.Next(after)
		require.True(rt, ok || strings.Contains(expr, "29"), expr)
		if !ok {
			return
		}
		require.True(rt, next.After(after))
		between := after.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(after))-1).Draw(rt, "between")))
		same, ok := rule.Next(between)
		require.True(rt, ok)
		require.Equal(rt, next, same, "%s in %s after %s and %s", expr, moment.zone, after, between)
	})
}

// All zones, at each moment from 2025 to 2037 at which a clock is set.
func TestAllZones(t *testing.T) {
	rules := map[string]*naive{
		"*/15 * * * *":     {minutes: from(0, 59, 15), hours: from(0, 23, 1), elapsed: true},
		"20 * * * *":       {minutes: setOf(20), hours: from(0, 23, 1), elapsed: true},
		"45 */2 * * *":     {minutes: setOf(45), hours: from(0, 23, 2), elapsed: true},
		"5,35 */3 * * *":   {minutes: setOf(5, 35), hours: from(0, 23, 3), elapsed: true},
		"*/7 0-3,23 * * *": {minutes: from(0, 59, 7), hours: setOf(0, 1, 2, 3, 23)},
		"0 0 * * *":        {minutes: setOf(0), hours: setOf(0)},
		"*/20 * * * 6":     {minutes: from(0, 59, 20), hours: from(0, 23, 1), elapsed: true, weekdays: setOf(6)},
	}
	for i, moment := range changes(t) {
		if testing.Short() && i%10 > 0 {
			continue
		}
		around := windowOf(moment.zone, moment.at.Add(-time.Hour), moment.at.Add(30*time.Hour))
		for expr, n := range rules {
			n.days, n.months = from(1, 31, 1), from(1, 12, 1)
			if n.weekdays == (set{}) {
				n.weekdays = from(0, 6, 1)
			}
			around.requireSame(t, expr, n)
		}
	}
}

// Three years without a break.
func TestAllYears(t *testing.T) {
	longtest.Skip(t)
	for _, name := range []string{"Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll"} {
		zone, err := calendar.LoadZone(name)
		require.NoError(t, err)
		years := windowOf(zone, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
		years.requireSame(t, "20 */4 29 2 *",
			&naive{minutes: setOf(20), hours: from(0, 23, 4), days: setOf(29), months: setOf(2), weekdays: from(0, 6, 1), elapsed: true})
		years.requireSame(t, "30 2 1,15 * sun",
			&naive{minutes: setOf(30), hours: setOf(2), days: setOf(1, 15), months: from(1, 12, 1), weekdays: setOf(0), eitherDay: true})
	}
}
