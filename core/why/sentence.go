// Package why turns the reasons why a job does not run into sentences, for all programs that show them. It is pure. A sentence is a list
// of parts, so that a page can make links of jobs and rules, and show times in the zone of its reader.
package why

import (
	"fmt"
	"strconv"
	"time"

	"lockstep/core/answer"
)

// Part is a piece of a Sentence: plain text, or a name that a program may show as a link.
type Part struct {
	Text string
	Job  int64     // the text names this job; 0: none
	Rule string    // the text names the filter rule with this UUID; empty: none
	Time time.Time // the text is this time, in the words of Style.Clock; zero: none
}

// Sentence is a reason in words.
type Sentence []Part

// String is the text without the names of jobs and rules.
func (s Sentence) String() string {
	text := ""
	for _, p := range s {
		text += p.Text
	}
	return text
}

// Style is how a program writes values in sentences.
type Style struct {
	// Clean makes data of users and jobs fit to be shown. Short also shortens them.
	Clean, Short func(string) string
	Span         func(time.Duration) string
	Ago          func(now, at time.Time) string // time since at
	Clock        func(now, at time.Time) string // at, without what is the same as now
}

// text appends a formatted text, which must be fit to be shown: texts of clients are cleaned before.
func (s Sentence) text(format string, args ...any) Sentence {
	return append(s, Part{Text: fmt.Sprintf(format, args...)})
}

func (s Sentence) job(id int64) Sentence {
	return append(s, Part{Text: fmt.Sprintf("job %d", id), Job: id})
}

// space separates the next statement from those before it.
func (s Sentence) space() Sentence {
	if len(s) == 0 {
		return s
	}
	return s.text(" ")
}

func decimal(id int64) string { return strconv.FormatInt(id, 10) }

// owner adds the name of a client, or of a job if there is none.
func (w Style) owner(s Sentence, job int64, name string) Sentence {
	if name != "" {
		return s.text("%s", w.Clean(name))
	}
	return s.job(job)
}

func (w Style) rule(r answer.Reason) Sentence {
	return Sentence{{Text: "Filter rule "}, {Text: w.Clean(r.UUID), Rule: r.UUID}}
}

// enumerate adds the elements of a list: "a", "a and b", "a, b and c".
func (s Sentence) enumerate(count int, last string, add func(Sentence, int) Sentence) Sentence {
	for i := range count {
		switch i {
		case 0:
		case count - 1:
			s = s.text(" %s ", last)
		default:
			s = s.text(", ")
		}
		s = add(s, i)
	}
	return s
}

// words appends an enumeration of texts of clients, cleaned for the terminal; last stands before the last one ("and").
func (w Style) words(s Sentence, words []string, last string) Sentence {
	return s.enumerate(len(words), last, func(s Sentence, i int) Sentence { return s.text("%s", w.Clean(words[i])) })
}
