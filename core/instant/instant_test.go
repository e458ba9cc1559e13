package instant_test

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"lockstep/core/instant"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	require.NoError(t, err)
	return loc
}

func TestTimes(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	now := time.Date(2026, 11, 28, 14, 30, 0, 500, berlin) // a Saturday
	for text, want := range map[string]string{
		"now":                       "2026-11-28 14:30:00 +01:00",
		"+2h":                       "2026-11-28 16:30:00 +01:00",
		"+1d12h":                    "2026-11-30 02:30:00 +01:00",
		"15:00":                     "2026-11-28 15:00:00 +01:00",
		"3:00":                      "2026-11-29 03:00:00 +01:00",
		"03:00:30":                  "2026-11-29 03:00:30 +01:00",
		"today 23:59":               "2026-11-28 23:59:00 +01:00",
		"tomorrow 03:00":            "2026-11-29 03:00:00 +01:00",
		"Tomorrow 03:00":            "2026-11-29 03:00:00 +01:00",
		"monday 03:00":              "2026-11-30 03:00:00 +01:00",
		"saturday 15:00":            "2026-11-28 15:00:00 +01:00",
		"saturday 03:00":            "2026-12-05 03:00:00 +01:00",
		"2026-12-01 03:00":          "2026-12-01 03:00:00 +01:00",
		"2027-07-01T03:00":          "2027-07-01 03:00:00 +02:00",
		"2026-12-01 03:00:59":       "2026-12-01 03:00:59 +01:00",
		"2026-12-01T03:00:00Z":      "2026-12-01 04:00:00 +01:00",
		"2026-12-01T03:00:00+05:45": "2026-11-30 22:15:00 +01:00",
		"2028-02-29 00:00":          "2028-02-29 00:00:00 +01:00",
		"2036-11-28 14:30":          "2036-11-28 14:30:00 +01:00",
	} {
		got, err := instant.Parse(text, now, berlin)
		require.NoError(t, err, text)
		require.Equal(t, want, got.String(), text)
		require.False(t, got.At.Before(now), text)
	}
}

func TestTimesThatAreRefused(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	now := time.Date(2026, 11, 28, 14, 30, 0, 0, berlin)
	for text, want := range map[string]string{
		"yesterday":               `"yesterday" has passed; it is 2026-11-28 14:30:00 +01:00`,
		"yesterday 15:00":         `"yesterday 15:00" has passed; it is 2026-11-28 14:30:00 +01:00`,
		"today 03:00":             "2026-11-28 03:00:00 +01:00 has passed; it is 2026-11-28 14:30:00 +01:00",
		"2026-11-28 14:29":        "2026-11-28 14:29:00 +01:00 has passed; it is 2026-11-28 14:30:00 +01:00",
		"2026-11-28T13:29:00Z":    "2026-11-28 14:29:00 +01:00 has passed; it is 2026-11-28 14:30:00 +01:00",
		"2036-11-28 14:31":        "a time is at most 10 years ahead",
		"+4000d":                  "a time is at most 10 years ahead",
		"+100000d":                "a time is at most 10 years ahead",
		"+7":                      "7 has no unit; write 7s, 7m, 7h or 7d",
		"+-2h":                    `"-2h" is not a duration: write a number`,
		"24:00":                   "",
		"tomorrow":                "",
		"noon":                    "",
		"":                        "",
		"tomorrow  03:00":         "",
		"2027-03-28 02:30":        "the clock of Europe/Berlin does not show 2027-03-28 02:30:00: it is set from 02:00:00 to 03:00:00 then",
		"2027-02-29 03:00":        "there is no day 2027-02-29",
		"2027-13-01 03:00":        "there is no day 2027-13-01",
		"2027-02-01 25:00":        `"25:00" is not a time of a day, which ends at 23:59:59`,
		"2027-02-01 noon":         `"noon" is not a time of a day: write 03:00 or 03:00:30`,
		strings.Repeat("1", 1000): "a time has at most 64 bytes: ",
	} {
		_, err := instant.Parse(text, now, berlin)
		require.Error(t, err, text)
		if want == "" {
			want = "is not a time: write now, +2h, 03:00, tomorrow 03:00, monday 03:00, 2026-12-01 03:00 or 2026-12-01T03:00:00+01:00"
		}
		require.Contains(t, err.Error(), want, text)
	}
}

// A clock that is set forward skips times, by an hour or less, or a whole day; one that is set back shows times twice.
func TestClocksThatAreSet(t *testing.T) {
	for _, c := range []struct{ zone, now, text, want string }{
		{"Europe/Berlin", "2027-03-27T12:00:00+01:00", "tomorrow 02:30", "it is set from 02:00:00 to 03:00:00 then"},
		{"Europe/Berlin", "2027-03-27T12:00:00+01:00", "02:00", "it is set from 02:00:00 to 03:00:00 then"},
		{"Europe/Berlin", "2027-03-27T12:00:00+01:00", "03:00", "2027-03-28 03:00:00 +02:00"},
		{"Europe/Berlin", "2027-03-28T03:00:00+02:00", "02:30", "2027-03-29 02:30:00 +02:00"},
		{"Europe/Berlin", "2027-10-30T12:00:00+02:00", "02:30", "2027-10-31 02:30:00 +02:00, the first of two times when the clock shows this"},
		{"Europe/Berlin", "2027-10-30T12:00:00+02:00", "03:00", "2027-10-31 03:00:00 +01:00"},
		{"Europe/Berlin", "2027-10-31T02:45:00+02:00", "02:30", "2027-11-01 02:30:00 +01:00"},
		{"Europe/Berlin", "2027-10-31T02:15:00+01:00", "today 02:30", "has passed"},
		{"Australia/Lord_Howe", "2026-10-03T12:00:00+10:30", "tomorrow 02:15", "it is set from 02:00:00 to 02:30:00 then"},
		{"Australia/Lord_Howe", "2027-04-03T12:00:00+11:00", "tomorrow 01:45",
			"2027-04-04 01:45:00 +11:00, the first of two times when the clock shows this"},
		{"Africa/Cairo", "2027-04-29T12:00:00+02:00", "tomorrow 00:00", "it is set from 00:00:00 to 01:00:00 then"},
		{"Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-30 12:00", "it is set from 00:00:00 to 00:00:00 then"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		require.NoError(t, err)
		got, err := instant.Parse(c.text, now, zone(t, c.zone))
		text := got.String()
		if err != nil {
			text = err.Error()
		}
		require.Contains(t, text, c.want, c)
	}
}

func TestDurations(t *testing.T) {
	now := time.Date(2026, 11, 28, 14, 30, 0, 1, time.UTC)
	got, err := instant.After(2*time.Second, now)
	require.NoError(t, err)
	require.GreaterOrEqual(t, got.At.UnixMicro(), now.Add(2*time.Second).UnixMicro())
	require.False(t, got.At.Before(now.Add(2*time.Second)), "a fraction of a microsecond is not dropped")
	_, err = instant.After(1<<63-1, now)
	require.EqualError(t, err, "a time is at most 10 years ahead")
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"now", "+2h", "03:00", "tomorrow 03:00", "2027-03-28 02:30", "2026-12-01T03:00:00+01:00", "yesterday"} {
		f.Add(text, int64(1_795_876_200_000_000), uint8(0))
	}
	zones := []*time.Location{time.UTC, zone(f, "Europe/Berlin"), zone(f, "Australia/Lord_Howe"), zone(f, "Pacific/Apia")}
	f.Fuzz(func(t *testing.T, text string, nowUS int64, number uint8) {
		now := time.UnixMicro(nowUS % (1 << 52)) // up to the year 2112
		got, err := instant.Parse(text, now, zones[int(number)%len(zones)])
		if err != nil {
			require.Less(t, len(err.Error()), 1000)
			return
		}
		require.False(t, got.At.Before(now), text)
		require.False(t, got.At.After(now.AddDate(instant.YearsMax, 0, 1)), text)
		again, err := instant.Parse(got.At.Format(time.RFC3339Nano), now, time.UTC)
		require.NoError(t, err, text)
		require.True(t, again.At.Equal(got.At), text)
	})
}
