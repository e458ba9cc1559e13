package sched

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
)

// because is a job whose opcodes have these reason trails, as JSON.
func because(trails ...string) *job.Job {
	inputs := make([]json.RawMessage, len(trails))
	for i, trail := range trails {
		inputs[i] = json.RawMessage(`{"OP_ID": "OP_TEST_DELAY", "reason": ` + trail + `}`)
	}
	return job.New(7, inputs, make([]int, len(trails)), job.Timestamp{Sec: 1}, "")
}

func TestReasonLimits(t *testing.T) {
	said := func(texts ...string) string {
		var entries []string
		for _, text := range texts {
			entries = append(entries, fmt.Sprintf(`["gnt:user", %q, 1]`, text))
		}
		return `[` + strings.Join(entries, ",") + `]`
	}
	for name, c := range map[string]struct {
		trails []string
		want   []Limit
	}{
		"none":                      {[]string{said("pink bunny")}, nil},
		"one":                       {[]string{said("rate-limit:3:bunny")}, []Limit{{"rate-limit:3:bunny", 3}}},
		"no label":                  {[]string{said("rate-limit:3")}, []Limit{{"rate-limit:3:", 3}}},
		"an empty label":            {[]string{said("rate-limit:3:")}, []Limit{{"rate-limit:3:", 3}}},
		"a label with colons":       {[]string{said("rate-limit:3:a:b:")}, []Limit{{"rate-limit:3:a:b:", 3}}},
		"twice":                     {[]string{said("rate-limit:3:a", "rate-limit:3:a"), said("rate-limit:3:a")}, []Limit{{"rate-limit:3:a", 3}}},
		"the same number, spelled":  {[]string{said("rate-limit:03:a", "rate-limit:+3:a")}, []Limit{{"rate-limit:3:a", 3}}},
		"another number":            {[]string{said("rate-limit:3:a", "rate-limit:2:a")}, []Limit{{"rate-limit:2:a", 2}, {"rate-limit:3:a", 3}}},
		"of several opcodes":        {[]string{said("x"), said("rate-limit:1:b"), said("rate-limit:1:a")}, []Limit{{"rate-limit:1:a", 1}, {"rate-limit:1:b", 1}}},
		"zero":                      {[]string{said("rate-limit:0:a")}, nil},
		"negative":                  {[]string{said("rate-limit:-1:a")}, nil},
		"no number":                 {[]string{said("rate-limit:many:a", "rate-limit::a", "rate-limit", "rate-limit:")}, nil},
		"a fraction":                {[]string{said("rate-limit:1.5:a")}, nil},
		"beyond all numbers":        {[]string{said("rate-limit:99999999999999999999:a")}, nil},
		"another word":              {[]string{said("xrate-limit:1:a", "rate-limits:1:a", " rate-limit:1:a", "RATE-LIMIT:1:a")}, nil},
		"elsewhere in the entry":    {[]string{`[["rate-limit:1:a", "x", 1]]`}, nil},
		"escaped":                   {[]string{`[["x", "rate\u002dlimit:1:a", 1]]`, `[["x", "rate-limit:1:\u0061", 1]]`}, []Limit{{"rate-limit:1:a", 1}}},
		"trails that are no trails": {[]string{`"rate-limit:1:a"`, `[["rate-limit:1:a"], ["x", 7]]`, `["rate-limit:1:a"]`, `[["x", ["rate-limit:1:a"], 1]]`}, nil},
		"one entry is none":         {[]string{`[["x"], ["x", 7], ["x", "rate-limit:1:a", 1]]`}, []Limit{{"rate-limit:1:a", 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, ReasonLimits(because(c.trails...)))
		})
	}
}

// For any trails, each limit of a job occurs once, in order. Two jobs are in the same bucket if number and label are
// equal.
func TestReasonLimitsAreASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SampledFrom([]string{"rate-limit:1:a", "rate-limit:01:a", "rate-limit:2:a", "rate-limit:1:b", "rate-limit:x", "pink"})
		var trails []string
		want := map[string]int{}
		for range rapid.IntRange(1, 4).Draw(t, "opcodes") {
			var entries []string
			for _, word := range rapid.SliceOfN(words, 0, 4).Draw(t, "trail") {
				entries = append(entries, `["s", "`+word+`", 1]`)
				switch word {
				case "rate-limit:1:a", "rate-limit:01:a":
					want["rate-limit:1:a"] = 1
				case "rate-limit:2:a":
					want[word] = 2
				case "rate-limit:1:b":
					want[word] = 1
				}
			}
			trails = append(trails, `[`+strings.Join(entries, ",")+`]`)
		}
		got := map[string]int{}
		last := ""
		for _, l := range ReasonLimits(because(trails...)) {
			require.Greater(t, l.Key, last)
			last, got[l.Key] = l.Key, l.N
		}
		require.Equal(t, want, got)
	})
}
