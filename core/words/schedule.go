package words

import (
	"math"
	"time"

	"lockstep/core/answer"
)

// When is the rule of a schedule.
func When(s answer.Schedule) string {
	if s.Cron == "" {
		return "every " + FormatDuration(Seconds(s.EverySecs))
	}
	return s.Cron + " " + s.Zone
}

// Seconds is a number of seconds of an answer, which are whole microseconds.
func Seconds(n float64) time.Duration {
	return time.Duration(math.Round(n*1e6)) * time.Microsecond
}

// DueTime says what became of a due time of a schedule.
func DueTime(e answer.ScheduleEntry) string {
	switch {
	case e.Skipped != "":
		return "skipped: " + e.Skipped
	case e.Missed != "" && len(e.Jobs) > 0:
		return "late: " + e.Missed
	case e.Missed != "":
		return "missed: " + e.Missed
	case e.By != "":
		return "run by " + e.By
	}
	return "on time"
}

// ScheduleEnd says how a job of a schedule has ended.
func ScheduleEnd(end answer.ScheduleEnded) string {
	if end.Result == "" {
		return "success"
	}
	return end.Result
}
