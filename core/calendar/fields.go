package calendar

import (
	"math/bits"
	"time"
)

// reading is what the clock of a zone shows, in seconds: those of a clock of UTC that shows the same.
type reading int64

// fields are the minutes that an expression names, a bit for each value of a field.
type fields struct {
	minutes, hours, days, months, weekdays uint64

	eitherDay bool // day of month or day of week is enough
	elapsed   bool // the hour field begins with "*"
}

// onAnyDay has the hours and minutes of f on all days.
func (f fields) onAnyDay() fields {
	f.days, f.months, f.weekdays, f.eitherDay = ^uint64(0), ^uint64(0), ^uint64(0), false
	return f
}

// next returns the first reading from a reading on that the expression names, false if there is none in more than eight years.
func (f fields) next(from reading) (reading, bool) {
	at := time.Unix(int64(from), 0).UTC()
	if at.Second() > 0 {
		at = at.Add(time.Duration(60-at.Second()) * time.Second)
	}
	year, month, day := at.Date()
	last := year + years + 1
	days := f.daysOf(year, month) >> day << day
	hour, minute, today := f.timeOfDay(at.Hour(), at.Minute())
	if days>>day&1 == 0 || !today {
		days &^= 1 << day
		hour, minute, _ = f.timeOfDay(0, 0)
	}
	for days == 0 {
		if month++; month > time.December {
			year, month = year+1, time.January
		}
		if year > last {
			return 0, false
		}
		days = f.daysOf(year, month)
	}
	return reading(time.Date(year, month, bits.TrailingZeros64(days), hour, minute, 0, 0, time.UTC).Unix()), true
}

// timeOfDay returns the first time of the day, from a time on, that the expression names.
func (f fields) timeOfDay(fromHour, fromMinute int) (hour, minute int, ok bool) {
	if minutes := f.minutes >> fromMinute << fromMinute; f.hours>>fromHour&1 == 1 && minutes != 0 {
		return fromHour, bits.TrailingZeros64(minutes), true
	}
	later := f.hours >> (fromHour + 1) << (fromHour + 1)
	return bits.TrailingZeros64(later), bits.TrailingZeros64(f.minutes), later != 0
}

// daysOf returns the days of a month that the expression names: bit 1 is the first.
func (f fields) daysOf(year int, month time.Month) uint64 {
	if f.months>>month&1 == 0 {
		return 0
	}
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	length := first.AddDate(0, 1, -1).Day()
	byWeekday := uint64(0)
	for day := 1; day <= length; day++ {
		byWeekday |= f.weekdays >> ((int(first.Weekday()) + day - 1) % 7) & 1 << day
	}
	byDay := f.days & (1<<(length+1) - 2)
	if f.eitherDay {
		return byDay | byWeekday
	}
	return byDay & byWeekday
}
