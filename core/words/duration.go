// Package words has the values that people read and type, in the form in which the command line and the console show and take them:
// durations and sizes with units, settings, and the conditions of filter rules. It is pure. It does not make text safe for a terminal or a
// page.
package words

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// DurationHelp names the forms that ParseDuration takes.
const DurationHelp = "a number with a unit, s, m, h, d or w, like 90s, 1h30m or 7d"

// day is always 24 hours.
const day = 24 * time.Hour

// durationUnits are the units of durations.
var durationUnits = map[string]time.Duration{
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": day, "w": 7 * day,
}

var (
	durationPart = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(ms|[smhdw])`)
	bareNumber   = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
)

// ParseDuration reads a duration that somebody has typed, at least 0. A number without a unit
// is refused: 7 could mean seconds or days.
func ParseDuration(text string) (time.Duration, error) {
	if bareNumber.MatchString(text) {
		return 0, fmt.Errorf("%s has no unit; write %ss, %sm, %sh or %sd", text, text, text, text, text)
	}
	total := 0.0
	rest := text
	for rest != "" {
		part := durationPart.FindStringSubmatch(rest)
		if part == nil {
			return 0, fmt.Errorf("%q is not a duration: write %s", text, DurationHelp)
		}
		number, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration: %w", text, err)
		}
		total += number * float64(durationUnits[part[2]])
		rest = strings.TrimPrefix(rest, part[0])
	}
	switch {
	case text == "":
		return 0, fmt.Errorf("the duration is empty: write %s", DurationHelp)
	case total >= math.MaxInt64:
		return 0, fmt.Errorf("a duration of %s is longer than 292 years", text)
	}
	return time.Duration(total), nil
}

// FormatDuration writes a duration of whole milliseconds, at least 0, so that ParseDuration reads the same: 1d12h, 90s as 1m30s, 0s.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	text := ""
	for _, unit := range []string{"d", "h", "m", "s", "ms"} {
		if n := d / durationUnits[unit]; n > 0 {
			text += strconv.FormatInt(int64(n), 10) + unit
			d -= n * durationUnits[unit]
		}
	}
	return text
}
