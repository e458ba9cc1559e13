package calendar

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// longestExpression is the maximum length of an expression in bytes. A list of all minutes is shorter.
const longestExpression = 1000

// CronHelp names the forms that ParseCron takes.
const CronHelp = "five fields, minute hour day-of-month month day-of-week, such as '30 2 * * mon-fri', or " +
	"@hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually"

// shortForms are the expressions that have a name.
var shortForms = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

// field is one of the five fields of an expression. The library knows no 7 for Sunday, so days of the week are read as if they were hours.
type field struct {
	name    string
	read    cron.ParseOption
	bits    func(*cron.SpecSchedule) uint64
	most    int
	element *regexp.Regexp    // of a list
	numbers *strings.Replacer // of names, nil if the library knows them
}

var five = []field{
	{"minute", cron.Minute, func(s *cron.SpecSchedule) uint64 { return s.Minute }, 59, elements(""), nil},
	{"hour", cron.Hour, func(s *cron.SpecSchedule) uint64 { return s.Hour }, 23, elements(""), nil},
	{"day of month", cron.Dom, func(s *cron.SpecSchedule) uint64 { return s.Dom }, 31, elements(""), nil},
	{"month", cron.Month, func(s *cron.SpecSchedule) uint64 { return s.Month }, 12,
		elements("|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"), nil},
	{"day of week", cron.Hour, func(s *cron.SpecSchedule) uint64 { return s.Hour }, 7, elements("|sun|mon|tue|wed|thu|fri|sat"),
		strings.NewReplacer("sun", "0", "mon", "1", "tue", "2", "wed", "3", "thu", "4", "fri", "5", "sat", "6")},
}

// elements is the form of the elements of a list, where a value is a number or one of names.
func elements(names string) *regexp.Regexp {
	value := "(?:[0-9]{1,2}" + names + ")"
	return regexp.MustCompile(`^(?:\*|` + value + `|` + value + `-` + value + `)(?:/[0-9]{1,3})?$`)
}

// ParseCron returns the rule of a cron expression in a zone, whose errors say what to write instead. The grammar is that of Vixie's
// cron. It refuses an expression that is never due, such as that of 31 February.
func ParseCron(expr string, zone *time.Location) (Rule, error) {
	named, err := parse(expr)
	if err != nil {
		return Rule{}, fmt.Errorf("cron expression %q: %w", shortened(expr), err)
	}
	return Rule{named: named, zone: zone}, nil
}

func shortened(text string) string {
	if len(text) > longestExpression {
		return text[:40] + "..."
	}
	return text
}

func parse(expr string) (fields, error) {
	texts := strings.Fields(expr)
	switch {
	case len(expr) > longestExpression:
		return fields{}, fmt.Errorf("it has %d characters, at most %d are possible", len(expr), longestExpression)
	case len(texts) == 0:
		return fields{}, errors.New("it is empty: write " + CronHelp)
	case strings.HasPrefix(texts[0], "TZ=") || strings.HasPrefix(texts[0], "CRON_TZ="):
		return fields{}, errors.New("a zone is no part of it: give the zone by itself, with --tz or as tz")
	case strings.HasPrefix(texts[0], "@"):
		long, err := longForm(texts)
		if err != nil {
			return fields{}, err
		}
		texts = strings.Fields(long)
	case len(texts) == 6:
		return fields{}, errors.New("it has six fields, and seconds or years are no fields: write " + CronHelp +
			"; --every has periods of less than a minute")
	}
	if len(texts) != len(five) {
		return fields{}, fmt.Errorf("it has %d fields: write %s", len(texts), CronHelp)
	}
	return parseFields(texts)
}

// longForm returns the five fields of a short form.
func longForm(texts []string) (string, error) {
	long, known := shortForms[texts[0]]
	switch {
	case known && len(texts) == 1:
		return long, nil
	case known:
		return "", fmt.Errorf("nothing follows %s", texts[0])
	case texts[0] == "@every":
		return "", errors.New("@every is not taken: give the period with --every, or as every")
	case texts[0] == "@reboot":
		return "", errors.New("@reboot names no time: let a unit of systemd run the command when the machine starts")
	}
	return "", fmt.Errorf("%s is unknown: write %s", texts[0], CronHelp)
}

func parseFields(texts []string) (fields, error) {
	var sets [5]uint64
	for i, text := range texts {
		var err error
		if sets[i], err = five[i].parse(strings.ToLower(text)); err != nil {
			return fields{}, fmt.Errorf("%s: %w", five[i].name, err)
		}
	}
	f := fields{minutes: sets[0], hours: sets[1], days: sets[2], months: sets[3], weekdays: sets[4] | sets[4]>>7,
		eitherDay: texts[2][0] != '*' && texts[4][0] != '*', elapsed: texts[1][0] == '*'}
	// These years have a 29 February on a Sunday, the rarest day that an expression can name: a field that begins with "*" has its first
	// value.
	if _, ok := f.next(reading(time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC).Unix())); !ok {
		return fields{}, errors.New("it is never due: no such month has this day")
	}
	return f, nil
}

var stepFrom = regexp.MustCompile(`^([0-9a-z]+)/([0-9]+)$`)

// parse reads a field. The library takes forms that Vixie's cron refuses, or reads in another way, so they are refused before.
func (f field) parse(text string) (uint64, error) {
	set := uint64(0)
	for one := range strings.SplitSeq(text, ",") {
		if m := stepFrom.FindStringSubmatch(one); m != nil {
			return 0, fmt.Errorf("%s has a step without a range: write %s-%d/%s, or %s alone", one, m[1], f.most, m[2], m[1])
		}
		if !f.element.MatchString(one) {
			return 0, fmt.Errorf("%q is not *, a value or a range, nor one of these with a step: write */15, 3, 10-20 or 10-20/2", one)
		}
		numbers := one
		if f.numbers != nil {
			numbers = f.numbers.Replace(one)
		}
		parsed, err := cron.NewParser(f.read).Parse(numbers)
		if err != nil {
			return 0, err
		}
		bits := f.bits(parsed.(*cron.SpecSchedule)) //nolint:errcheck,forcetypeassert // what a parser without descriptors returns
		if one[0] != '*' && bits>>(f.most+1) != 0 {
			return 0, fmt.Errorf("%s is not between 0 and %d", one, f.most)
		}
		set |= bits & (1<<(f.most+1) - 1) // without the library's bit for *
	}
	return set, nil
}
