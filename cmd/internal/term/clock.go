package term

import (
	"fmt"
	"time"
)

const Day = 24 * time.Hour

// Ago is the time from t to now, in one unit: "5s ago", "3m ago", "2h ago", "4d ago". A t in the
// future, of a clock that differs, is "now".
func Ago(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < Day:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	}
	return fmt.Sprintf("%dd ago", d/Day)
}

// Span is a duration in at most two units: "85ms", "3.2s", "1m05s", "2h03m", "3d04h".
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "0ms"
	case d < time.Second:
		return fmt.Sprintf("%dms", d/time.Millisecond)
	case d < time.Minute:
		return fmt.Sprintf("%d.%ds", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < Day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/Day, d%Day/time.Hour)
}

// WallClock is t in now's zone, without the parts that equal now's: the time of today, day and time of this year, or the day of another
// year.
func WallClock(now, t time.Time) string {
	t = t.In(now.Location())
	switch {
	case t.YearDay() == now.YearDay() && t.Year() == now.Year():
		return t.Format("15:04:05")
	case t.Year() == now.Year():
		return t.Format("Jan _2 15:04")
	}
	return t.Format("2006-01-02")
}

// FullClock is t in now's zone, complete, to the millisecond: the form of log lines.
func FullClock(now, t time.Time) string {
	return t.In(now.Location()).Format("2006-01-02 15:04:05.000")
}
