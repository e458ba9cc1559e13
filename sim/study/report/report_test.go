package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/study"
)

// comparisons are the reports that compared has made.
var comparisons sync.Map

// compared is compare, computed once for the same arguments. Callers must not change the
// result.
func compared(t *testing.T, mix string, jobs int) Report {
	key := fmt.Sprint(mix, jobs)
	if r, known := comparisons.Load(key); known {
		return r.(Report)
	}
	r := compare(t, mix, jobs)
	comparisons.Store(key, r)
	return r
}

// compare makes the report of a small comparison.
func compare(t *testing.T, mix string, jobs int) Report {
	m, err := study.FindMix(mix)
	require.NoError(t, err)
	o := study.CompareOptions{Timings: true,
		MixOptions: study.MixOptions{Seed: 3, Jobs: jobs, Slots: 5, Nodes: 12, Load: 0.1}}
	c, err := study.Compare(m, o)
	require.NoError(t, err)
	return Report{Mix: m, Options: o, Command: "lockstep-sim report", Comparison: c,
		Measures: []Measure{{"makespan", "1 h", "2 h", "-50 %", "better"}}}
}

func written(t *testing.T, r Report) string {
	var b bytes.Buffer
	require.NoError(t, Write(&b, r))
	return b.String()
}

// element is an element of a page with its content.
type element struct {
	name  string
	attrs map[string]string
	text  string // without that of its children
	inner []*element
}

func (e *element) find(name, class string) []*element {
	var found []*element
	for _, child := range e.inner {
		if child.name == name && (class == "" || slices.Contains(strings.Fields(child.attrs["class"]), class)) {
			found = append(found, child)
		}
		found = append(found, child.find(name, class)...)
	}
	return found
}

func (e *element) number(t *testing.T, attr string) float64 {
	n, err := strconv.ParseFloat(e.attrs[attr], 64)
	require.NoError(t, err, attr)
	return n
}

// parsed parses a page. It fails the test if the tags do not match.
func parsed(t *testing.T, page string) *element {
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, []string{"meta"}, xml.HTMLEntity
	open := []*element{{}}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			require.Len(t, open, 1)
			return open[0]
		}
		require.NoError(t, err)
		last := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			last.inner = append(last.inner, e)
			open = append(open, e)
		case xml.EndElement:
			require.Equal(t, last.name, token.Name.Local)
			open = open[:len(open)-1]
		case xml.CharData:
			last.text += string(token)
		}
	}
}

func TestTheSameSeedGivesTheSamePage(t *testing.T) {
	require.Equal(t, written(t, compare(t, "operator", 60)), written(t, compare(t, "operator", 60)))
}

func TestEachJobIsInEachGanttChartOnce(t *testing.T) {
	for _, mix := range []string{"operator", "evacuation", "maintenance"} {
		charts := parsed(t, written(t, compared(t, mix, 150))).find("figure", "gantt")
		require.Len(t, charts, 2)
		for _, chart := range charts {
			rows := chart.find("g", "bars")
			require.LessOrEqual(t, len(rows), 2*5, "no more rows than slots, and as many jobs without one between two opcodes")
			seen := map[int]int{}
			for _, row := range rows {
				for _, bar := range row.inner {
					var id int
					_, err := fmt.Sscanf(bar.inner[0].text, "job %d,", &id)
					require.NoError(t, err)
					seen[id]++
				}
			}
			require.Len(t, seen, 150)
			for id, times := range seen {
				require.Equal(t, 1, times, "job %d", id)
			}
		}
	}
}

func TestBarsOfARowDoNotOverlap(t *testing.T) {
	for _, chart := range parsed(t, written(t, compared(t, "maintenance", 150))).find("figure", "gantt") {
		for _, row := range chart.find("g", "bars") {
			end := float64(marginLeft)
			for _, bar := range row.find("rect", "") {
				x, width := bar.number(t, "x"), bar.number(t, "width")
				require.GreaterOrEqual(t, width, 0.0)
				require.GreaterOrEqual(t, x+0.011, end, "places have two digits")
				end = x + width
			}
			require.LessOrEqual(t, end, float64(chartWidth-marginEnd)+0.011)
		}
	}
}

// A page needs no network and contains no script.
func TestThePageNeedsNothingElse(t *testing.T) {
	page := written(t, compared(t, "operator", 150))
	for _, word := range []string{"http://", "https://", "<script", "<link", "<img", "<iframe", "url(", "@import", "href="} {
		require.NotContains(t, page, word)
	}
	require.NotContains(t, page, "ZgotmplZ", "what html/template finds unsafe")
	require.NotRegexp(t, regexp.MustCompile(`NaN|Inf`), page)
}

func TestTextIsEscaped(t *testing.T) {
	r := compared(t, "quiet", 10)
	r.Settings = []string{`x=<script>alert("1")</script>`}
	page := written(t, r)
	require.NotContains(t, page, "<script")
	parsed(t, page)
}

func TestHistogramsCountEachJob(t *testing.T) {
	page := parsed(t, written(t, compared(t, "operator", 150)))
	all := page.find("g", "counts")
	count := func(of []*element, class string) int {
		sum := 0
		for _, e := range of {
			for _, bar := range e.find("rect", class) {
				var order string
				var n int
				_, err := fmt.Sscanf(bar.inner[0].text, "%s order: %d jobs", &order, &n)
				require.NoError(t, err)
				require.Equal(t, class, order)
				sum += n
			}
		}
		return sum
	}
	for _, class := range []string{"expected", "plain"} {
		require.Equal(t, 150, count(all[:1], class))
		require.Equal(t, 150, count(all[1:], class), "by kind")
	}
}

func TestAComparisonWithoutTimings(t *testing.T) {
	r := compared(t, "quiet", 10)
	r.Comparison.Plain.Timings = nil
	require.ErrorContains(t, Write(io.Discard, r), "Timings")
}
