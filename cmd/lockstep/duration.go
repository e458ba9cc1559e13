package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// durationHelp names the forms that parseDuration takes.
const durationHelp = "a number with a unit, s, m, h, d or w, like 90s, 1h30m or 7d"

// durationUnits are the units of durations. A day is always 24 hours.
var durationUnits = map[string]time.Duration{
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": day, "w": 7 * day,
}

var (
	durationPart = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(ms|[smhdw])`)
	bareNumber   = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
)

// parseDuration reads a duration of the command line, at least 0. A number without a unit
// is refused: 7 could mean seconds or days.
func parseDuration(text string) (time.Duration, error) {
	if bareNumber.MatchString(text) {
		return 0, fmt.Errorf("%s has no unit; write %ss, %sm, %sh or %sd", text, text, text, text, text)
	}
	total := 0.0
	rest := text
	for rest != "" {
		part := durationPart.FindStringSubmatch(rest)
		if part == nil {
			return 0, fmt.Errorf("%q is no duration: write %s", text, durationHelp)
		}
		number, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return 0, fmt.Errorf("%q is no duration: %w", text, err)
		}
		total += number * float64(durationUnits[part[2]])
		rest = strings.TrimPrefix(rest, part[0])
	}
	switch {
	case text == "":
		return 0, fmt.Errorf("the duration is empty: write %s", durationHelp)
	case total >= math.MaxInt64:
		return 0, fmt.Errorf("a duration of %s is longer than 292 years", text)
	}
	return time.Duration(total), nil
}

// durationFlag is a flag whose value parseDuration reads.
type durationFlag struct{ value *time.Duration }

func (f durationFlag) String() string {
	if f.value == nil || *f.value == 0 {
		return ""
	}
	return f.value.String()
}

func (f durationFlag) Set(text string) (err error) {
	*f.value, err = parseDuration(text)
	return err
}

func (f durationFlag) Type() string { return "duration" }
