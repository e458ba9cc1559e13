package calendar_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/calendar"
)

func zoneOf(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := calendar.LoadZone(name)
	require.NoError(t, err)
	return zone
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return moment
}

// Clocks that are set forward and back, by an hour and otherwise.
func TestTimesWhereClocksAreSet(t *testing.T) {
	for _, c := range []struct {
		name, expr, zone, from string
		want                   []string
	}{
		{"a gap", "30 2 * * *", "Europe/Berlin", "2027-03-27T12:00:00Z",
			[]string{"2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"}},
		{"several in a gap", "*/15 2,3 * * *", "Europe/Berlin", "2027-03-27T12:00:00Z",
			[]string{"2027-03-28T03:00:00+02:00", "2027-03-28T03:15:00+02:00", "2027-03-28T03:30:00+02:00"}},
		{"a doubled time", "30 2 * * *", "Europe/Berlin", "2027-10-30T12:00:00Z",
			[]string{"2027-10-31T02:30:00+02:00", "2027-11-01T02:30:00+01:00"}},
		{"from between both", "30 2 * * *", "Europe/Berlin", "2027-10-31T01:00:00Z", []string{"2027-11-01T02:30:00+01:00"}},
		{"elapsed time forward", "*/30 * * * *", "Europe/Berlin", "2027-03-28T00:00:00Z",
			[]string{"2027-03-28T01:30:00+01:00", "2027-03-28T03:00:00+02:00", "2027-03-28T03:30:00+02:00"}},
		{"elapsed time back", "0 * * * *", "Europe/Berlin", "2027-10-30T23:30:00Z",
			[]string{"2027-10-31T02:00:00+02:00", "2027-10-31T02:00:00+01:00", "2027-10-31T03:00:00+01:00"}},
		{"a step of hours forward", "30 */2 * * *", "Europe/Berlin", "2027-03-27T23:00:00Z",
			[]string{"2027-03-28T00:30:00+01:00", "2027-03-28T03:00:00+02:00", "2027-03-28T04:30:00+02:00"}},
		{"a step of hours back", "0 */2 * * *", "Europe/Berlin", "2027-10-30T23:00:00Z",
			[]string{"2027-10-31T02:00:00+02:00", "2027-10-31T04:00:00+01:00"}},
		{"half an hour forward, in the gap", "15 * * * *", "Australia/Lord_Howe", "2027-10-02T14:00:00Z",
			[]string{"2027-10-03T01:15:00+10:30", "2027-10-03T02:30:00+11:00", "2027-10-03T03:15:00+11:00"}},
		{"half an hour forward, not in the gap", "45 * * * *", "Australia/Lord_Howe", "2027-10-02T15:00:00Z",
			[]string{"2027-10-03T01:45:00+10:30", "2027-10-03T02:45:00+11:00"}},
		{"half an hour back, doubled", "45 * * * *", "Australia/Lord_Howe", "2027-04-03T14:00:00Z",
			[]string{"2027-04-04T01:45:00+11:00", "2027-04-04T02:45:00+10:30"}},
		{"two hours forward", "30 1 * * *", "Antarctica/Troll", "2027-03-27T12:00:00Z",
			[]string{"2027-03-28T03:00:00+02:00", "2027-03-29T01:30:00+02:00"}},
		{"two hours back, a step of two hours", "0 */2 * * *", "Antarctica/Troll", "2027-10-30T23:00:00Z",
			[]string{"2027-10-31T02:00:00+02:00", "2027-10-31T02:00:00+00:00", "2027-10-31T04:00:00+00:00"}},
		{"a day that a zone has skipped", "0 3 * * *", "Pacific/Apia", "2011-12-28T00:00:00Z",
			[]string{"2011-12-28T03:00:00-10:00", "2011-12-29T03:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T03:00:00+14:00"}},
		{"a base that goes back", "30 23 * * *", "Asia/Almaty", "2024-02-29T00:00:00Z",
			[]string{"2024-02-29T23:30:00+06:00", "2024-03-01T23:30:00+05:00"}},
		{"midnight in a gap", "@daily", "America/Santiago", "2027-09-04T12:00:00Z",
			[]string{"2027-09-05T01:00:00-03:00", "2027-09-06T00:00:00-03:00"}},
		{"a doubled hour of the day before", "*/30 * * * 6", "America/Santiago", "2027-04-04T02:00:00Z",
			[]string{"2027-04-03T23:30:00-03:00", "2027-04-03T23:00:00-04:00", "2027-04-03T23:30:00-04:00", "2027-04-10T00:00:00-04:00"}},
		{"an offset with seconds", "0 3 * * *", "Africa/Monrovia", "1972-01-05T00:00:00Z",
			[]string{"1972-01-05T03:44:30Z", "1972-01-06T03:44:30Z", "1972-01-07T03:00:00Z"}},
	} {
		rule, err := calendar.ParseCron(c.expr, zoneOf(t, c.zone))
		require.NoError(t, err)
		next := at(t, c.from)
		for i, want := range c.want {
			var ok bool
			next, ok = rule.Next(next)
			require.True(t, ok)
			require.True(t, next.Equal(at(t, want)), "%s: time %d of %s is %s, not %s", c.name, i+1, c.expr, next, want)
		}
	}
}

// The regular distance is not interrupted where clocks are set.
func TestAQuarterOfAnHourIsAlways900Seconds(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll"} {
		rule, err := calendar.ParseCron("*/15 * * * *", zoneOf(t, name))
		require.NoError(t, err)
		for last := at(t, "2027-01-01T00:00:00Z"); last.Year() < 2028; {
			next, ok := rule.Next(last)
			if !ok || next.Sub(last) != 900*time.Second {
				t.Fatalf("%s is not 900 s after %s", next, last)
			}
			last = next
		}
	}
}

func TestDays(t *testing.T) {
	for expr, want := range map[string]string{
		"0 0 13 * fri":        "2026-12-04", // either, as both are restricted
		"0 0 13 * *":          "2026-12-13",
		"0 0 */13 * fri":      "2027-01-01", // 1, 14 and 27, and Friday
		"0 0 13 * */6":        "2026-12-13", // Sunday or Saturday, and 13
		"0 0 * * 7":           "2026-11-29",
		"0 0 * * 5-7":         "2026-11-29",
		"0 0 * * Mon,WED":     "2026-11-30",
		"0 0 * * tue-thu/2":   "2026-12-01",
		"0 0 31 feb-apr *":    "2027-03-31",
		"0 0 29 2 *":          "2028-02-29",
		"0 0 */40 * *":        "2026-12-01",
		"@yearly":             "2027-01-01",
		" @weekly\t":          "2026-11-29",
		"0 0 * 1,3-5,12/1 *":  "",
		"0 0 * 1,3-5,12-12 *": "2026-12-01",
		"0 */24 * * *":        "2026-11-29",
		"*/60 0 * * *":        "2026-11-29",
	} {
		rule, err := calendar.ParseCron(expr, time.UTC)
		if want == "" {
			require.Error(t, err, expr)
			continue
		}
		require.NoError(t, err, expr)
		next, ok := rule.Next(at(t, "2026-11-28T00:00:00Z"))
		require.True(t, ok)
		require.Equal(t, want+"T00:00:00Z", next.Format(time.RFC3339), expr)
	}
}

// 29 February is missing for eight years around 2100.
func TestNextLooksEightYearsAhead(t *testing.T) {
	rule, err := calendar.ParseCron("0 0 29 2 *", zoneOf(t, "America/Santiago"))
	require.NoError(t, err)
	next, ok := rule.Next(at(t, "2096-02-29T03:00:00Z"))
	require.True(t, ok)
	require.Equal(t, "2104-02-29T00:00:00-03:00", next.Format(time.RFC3339))

	rule, err = calendar.ParseCron("0 0 29 2 */7", time.UTC) // a 29 February that is a Sunday
	require.NoError(t, err)
	_, ok = rule.Next(at(t, "2032-03-01T00:00:00Z"))
	require.False(t, ok)
	_, ok = calendar.Rule{}.Next(at(t, "2032-03-01T00:00:00Z"))
	require.False(t, ok)
}

// The words of a refusal say what to write instead.
func TestRefusedExpressions(t *testing.T) {
	for expr, want := range map[string]string{
		"":                                "write five fields",
		"0 0 31 2 *":                      "never due",
		"0 0 30,31 feb *":                 "never due",
		"0 0 31 4,6,9,11 *":               "never due",
		"TZ=Europe/Berlin 0 3 * * *":      "--tz",
		"CRON_TZ=Europe/Berlin 0 3 * * *": "--tz",
		"0 0 3 * * *":                     "--every",
		"0 3 * *":                         "it has 4 fields",
		"@every 5m":                       "--every",
		"@reboot":                         "systemd",
		"@fortnightly":                    "@weekly",
		"@daily root":                     "nothing follows @daily",
		"60 * * * *":                      "minute: end of range (60) above maximum (59)",
		"* 24 * * *":                      "hour: end of range (24) above maximum (23)",
		"* * 0 * *":                       "day of month: beginning of range (0) below minimum (1)",
		"* * * 13 *":                      "month: ",
		"* * * * 8":                       "day of week: 8 is not between 0 and 7",
		"* * * * 5-9":                     "day of week: 5-9 is not between 0 and 7",
		"* * * * fri-sun":                 "day of week: ",
		"* 22-2 * * *":                    "hour: beginning of range (22) beyond end of range (2)",
		"*/0 * * * *":                     "minute: step of range should be a positive number",
		"5/15 * * * *":                    "minute: 5/15 has a step without a range: write 5-59/15",
		"? * * * *":                       `minute: "?" is not`,
		"1,,2 * * * *":                    `minute: "" is not`,
		"1-2-3 * * * *":                   `minute: "1-2-3" is not`,
		"~ * * * *":                       `minute: "~" is not`,
		"0~59 * * * *":                    `minute: "0~59" is not`,
		"-1 * * * *":                      `minute: "-1" is not`,
		"* * * monday *":                  `month: "monday" is not`,
		"* * * * monday":                  `day of week: "monday" is not`,
		"* * l * *":                       `day of month: "l" is not`,
	} {
		_, err := calendar.ParseCron(expr, time.UTC)
		require.ErrorContains(t, err, want, expr)
	}
	_, err := calendar.ParseCron(string(make([]byte, 2000)), time.UTC)
	require.ErrorContains(t, err, "at most 1000")
	require.Less(t, len(err.Error()), 300)
}

func TestEvery(t *testing.T) {
	anchor := at(t, "2027-03-28T00:30:00+01:00").In(zoneOf(t, "Europe/Berlin"))
	rule, err := calendar.Every(90*time.Minute, anchor)
	require.NoError(t, err)
	for from, want := range map[string]string{
		"2026-01-01T00:00:00Z":      "2027-03-28T03:00:00+02:00", // none before the anchor, nor at it
		"2027-03-28T00:30:00+01:00": "2027-03-28T03:00:00+02:00",
		"2027-03-28T02:59:59+02:00": "2027-03-28T03:00:00+02:00",
		"2027-03-28T03:00:00+02:00": "2027-03-28T04:30:00+02:00",
	} {
		next, ok := rule.Next(at(t, from))
		require.True(t, ok)
		require.Equal(t, want, next.Format(time.RFC3339), from)
	}
	for _, period := range []time.Duration{-time.Hour, 0, time.Second - 1, 9 * 365 * 24 * time.Hour} {
		_, err = calendar.Every(period, anchor)
		require.Error(t, err, "%v", period)
	}
	for _, far := range []string{"0001-01-01T00:00:00Z", "9999-01-01T00:00:00Z"} {
		_, ok := rule.Next(at(t, far))
		require.False(t, ok, far)
	}
}

func TestEveryIsAMultipleOfThePeriodAfterTheAnchor(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		anchor := time.Unix(0, rapid.Int64Range(0, 1<<61).Draw(rt, "anchor"))
		period := time.Duration(rapid.Int64Range(int64(time.Second), int64(1000*time.Hour)).Draw(rt, "period"))
		after := time.Unix(0, rapid.Int64Range(anchor.UnixNano()-1000, 1<<62).Draw(rt, "after"))
		rule, err := calendar.Every(period, anchor)
		require.NoError(rt, err)
		next, ok := rule.Next(after)
		require.True(rt, ok)
		require.True(rt, next.After(after))
		require.Zero(rt, next.Sub(anchor)%period)
		require.True(rt, next.Sub(anchor) == period || next.Sub(after) <= period)
	})
}

// The delay of a name is always the same: it is on disk nowhere. Names that differ by a digit are spread.
func TestJitter(t *testing.T) {
	require.Equal(t, "1m38.981191205s", calendar.Jitter("nightly", 10*time.Minute).String())
	require.Zero(t, calendar.Jitter("nightly", 0))
	var tenths [10]int
	for i := range 1000 {
		delay := calendar.Jitter(fmt.Sprintf("backup-%d", i), 10*time.Second)
		require.True(t, 0 <= delay && delay < 10*time.Second)
		tenths[delay/time.Second]++
	}
	for _, n := range tenths {
		require.InDelta(t, 100, n, 40)
	}
}

func TestZones(t *testing.T) {
	require.Equal(t, "Europe/Berlin", zoneOf(t, "Europe/Berlin").String())
	for name, want := range map[string]string{
		"":                    "is empty",
		"Local":               "another zone on each machine",
		"localtime":           "another zone on each machine",
		"Europe/Bärlin":       "write a name of the tz database",
		"CEST":                "write a name of the tz database",
		"posix/Europe/Berlin": "without posix/",
		"right/Europe/Berlin": "without right/",
		"../etc/passwd":       "is unknown",
		"/etc/localtime":      "is unknown",
		"tzdata.zi":           "is unknown",
	} {
		_, err := calendar.LoadZone(name)
		require.ErrorContains(t, err, want, name)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, expr := range []string{"*/15 * * * *", "30 2 * * *", "0 0 29 2 *", "0 * 29 2 *"} {
		b.Run(expr, func(b *testing.B) {
			rule, err := calendar.ParseCron(expr, zoneOf(b, "Europe/Berlin"))
			require.NoError(b, err)
			now := time.Date(2028, 3, 1, 0, 0, 0, 0, time.UTC)
			for b.Loop() {
				_, ok := rule.Next(now)
				require.True(b, ok)
			}
		})
	}
}

// Whatever is taken has times that increase, and whatever is refused has words of a bounded length.
func FuzzParseCron(f *testing.F) {
	for _, seed := range []string{"*/15 2-4 * * 1-5", "0 0 29 2 */7", "@daily", "TZ=UTC * * * * *", "5/15 * * * *", "* * * jan-mar,12 SUN", "0 3 31 2 *"} {
		f.Add(seed)
	}
	zone := zoneOf(f, "Australia/Lord_Howe")
	f.Fuzz(func(t *testing.T, expr string) {
		rule, err := calendar.ParseCron(expr, zone)
		if err != nil {
			require.Less(t, len(err.Error()), 5*len(expr)+1000)
			return
		}
		last := at(t, "2027-04-02T00:00:00Z")
		for range 5 {
			next, ok := rule.Next(last)
			require.True(t, ok || last.Year() > 2030, expr)
			if !ok {
				return
			}
			require.True(t, next.After(last) && next.Second() == 0)
			last = next
		}
	})
}
