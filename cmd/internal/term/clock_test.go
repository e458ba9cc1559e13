package term

import (
	"testing"
	"time"
)

func TestAgo(t *testing.T) {
	tests := []struct {
		age  time.Duration
		want string
	}{
		{-time.Hour, "now"},
		{999 * time.Millisecond, "now"},
		{time.Second, "1s ago"},
		{59*time.Second + 999*time.Millisecond, "59s ago"},
		{time.Minute, "1m ago"},
		{time.Hour - 1, "59m ago"},
		{time.Hour, "1h ago"},
		{24*time.Hour - 1, "23h ago"},
		{24 * time.Hour, "1d ago"},
		{400 * 24 * time.Hour, "400d ago"},
	}
	for _, test := range tests {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		if got := Ago(now, now.Add(-test.age)); got != test.want {
			t.Errorf("%s: %s, want %s", test.age, got, test.want)
		}
	}
}

func TestSpan(t *testing.T) {
	tests := []struct {
		length time.Duration
		want   string
	}{
		{-time.Second, "0ms"},
		{0, "0ms"},
		{85 * time.Millisecond, "85ms"},
		{3200 * time.Millisecond, "3.2s"},
		{59999 * time.Millisecond, "59.9s"},
		{65 * time.Second, "1m05s"},
		{2*time.Hour + 3*time.Minute, "2h03m"},
		{76 * time.Hour, "3d04h"},
	}
	for _, test := range tests {
		if got := Span(test.length); got != test.want {
			t.Errorf("%s: %s, want %s", test.length, got, test.want)
		}
	}
}

// Times are shown in the zone of the clock, also across midnight.
func TestWallClock(t *testing.T) {
	east := time.FixedZone("east", 3600)
	at := time.Date(2026, 3, 9, 23, 30, 0, 0, time.UTC)
	tests := []struct {
		now  time.Time
		want string
	}{
		{at, "23:30:00"},
		{at.In(east), "00:30:00"},
		{at.Add(time.Hour), "Mar  9 23:30"},
		{at.Add(365 * 24 * time.Hour), "2026-03-09"},
	}
	for _, test := range tests {
		if got := WallClock(test.now, at); got != test.want {
			t.Errorf("at %s: %s, want %s", test.now, got, test.want)
		}
	}
	if got := FullClock(at.In(east), at); got != "2026-03-10 00:30:00.000" {
		t.Error(got)
	}
}
