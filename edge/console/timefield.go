package console

import (
	"strings"
	"time"

	"lockstep/core/answer"
)

// timeLayouts are what a field for a time sends: seconds are left out if they are 0.
var timeLayouts = []string{"2006-01-02T15:04", "2006-01-02T15:04:05"}

// timeField is a field for a time.
type timeField struct {
	Label string
	Time  answer.Time // what the field has at first; zero: nothing
}

// Value is what the field has at first without script: the time in the server's zone.
func (f timeField) Value() string {
	if f.Time.IsZero() {
		return ""
	}
	return f.Time.In(time.Local).Format(timeLayouts[1])
}

// Instant is the time for the script, which shows it in the browser's zone.
func (f timeField) Instant() string {
	if f.Time.IsZero() {
		return ""
	}
	return f.Time.UTC().Format(time.RFC3339)
}

// Offset is that of the server's zone, for a page without script.
func (f timeField) Offset() string { return time.Now().Format("-07:00") }

// formTime is the time in a form; the zero time: the form has no field for one. The script of the page sends the instant of what was typed
// in the browser's zone. Without script it is in the server's zone, as the field says.
func (q *request) formTime() (time.Time, error) {
	typed, sent := strings.TrimSpace(q.PostForm.Get("time")), q.PostForm.Get("at")
	switch {
	case !q.PostForm.Has("time"):
		return time.Time{}, nil
	case typed == "":
		return time.Time{}, badRequest("Give a time.")
	}
	if t, err := time.Parse(time.RFC3339, sent); err == nil {
		return t, nil
	}
	for _, layout := range timeLayouts {
		if t, err := time.ParseInLocation(layout, typed, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, badRequest("%q is no time; write it like 2026-12-01T03:00.", shorten(typed, 40))
}
