// Package docs_test checks that the targets of all citations in code and documents exist.
package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// section is a heading of a document and the text below it, up to the next
// heading of its level or a higher one.
type section struct {
	level  int
	number string // "" if the heading has none
	title  string
	items  []string // numbers of the list directly below the heading
	inside []string // titles of the headings below it
	full   bool     // the section has text besides headings
}

// document is the sections of one file, in its order.
type document []*section

var (
	headingLine = regexp.MustCompile(`^(#+) (?:([0-9]+[A-Z]?(?:\.[0-9]+)*) )?(.+)$`)
	itemLine    = regexp.MustCompile(`^([0-9]+)\. `)
)

func parseDocument(text string) document {
	var d document
	var open []*section
	code := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if m := headingLine.FindStringSubmatch(line); m != nil && !code {
			s := &section{level: len(m[1]), number: m[2], title: m[3]}
			open = slices.DeleteFunc(open, func(o *section) bool { return o.level >= s.level })
			for _, o := range open {
				o.inside = append(o.inside, s.title)
			}
			d, open = append(d, s), append(open, s)
			continue
		}
		for _, o := range open {
			o.full = o.full || line != ""
		}
		if m := itemLine.FindStringSubmatch(line); m != nil && len(open) > 0 {
			s := open[len(open)-1]
			s.items = append(s.items, m[1])
		}
	}
	return d
}

func (d document) find(is func(*section) bool) *section {
	if i := slices.IndexFunc(d, is); i >= 0 {
		return d[i]
	}
	return nil
}

// numbered returns the section of a number, or the section whose list has an item of that
// number: 8A.1 is item 1 of 8A.
func (d document) numbered(number string) (found *section, item bool) {
	if s := d.find(func(s *section) bool { return s.number == number }); s != nil {
		return s, false
	}
	dot := strings.LastIndexByte(number, '.')
	if dot < 0 {
		return nil, false
	}
	s := d.find(func(s *section) bool { return s.number == number[:dot] })
	if s == nil || !slices.Contains(s.items, number[dot+1:]) {
		return nil, false
	}
	return s, true
}

// The parts of a citation. A gap may contain a line break of a comment.
const (
	gap    = `(?:[ \t]+|[ \t]*\n[ \t]*(?:(?://+|#+)[ \t]*)?)`
	number = `[0-9]+[A-Z]?(?:\.[0-9]+)*`
	quoted = `"[^"]+"`
	item   = `,` + gap + `(?:steps?|points?)` + gap + `[0-9]+(?:` + gap + `(?:to|and)` + gap + `[0-9]+)?`
	ref    = `(?:` + number + `\b(?:` + item + `)?(?:,` + gap + quoted + `)?|` + quoted + `)`
	joint  = `(?:,` + gap + `(?:and` + gap + `)?|` + gap + `(?:and|to)` + gap + `)`
)

var (
	citation = regexp.MustCompile(`(^|[^\w/.-])([a-z][a-z-]*\.md)(` + gap + ref + `(?:` + joint + ref + `)*)?`)
	oneRef   = regexp.MustCompile(`(` + joint + `)?(?:(` + number + `)\b(` + item + `)?(?:,` + gap + `(` + quoted + `))?|(` + quoted + `))`)
	inFile   = regexp.MustCompile(`\bsections?` + gap + `(` + number + `)`)
	digits   = regexp.MustCompile(`[0-9]+`)
	breaks   = regexp.MustCompile(gap)
	mention  = regexp.MustCompile(`\.md|(?i:design)|STYLE|shared`) // a cheap first check: most files have no citation
)

// unknown are forbidden forms of citations, each with its replacement.
var unknown = []struct {
	form    *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\bDESIGN\b`), `write design.md and the heading, as design.md "Replication"`},
	{regexp.MustCompile(`\bSTYLE\b`), "write docs/contributing.md"},
	{regexp.MustCompile(`\bdesigns?/[a-z-]+\.(txt|rst)|\bdesign-[a-z-]+\.rst`), `write designs.md and the heading, as designs.md "Job execution"`},
	{regexp.MustCompile(`\bdesigns?,?` + gap + `sections?\b`), `write design.md and the heading, as design.md "Replication"`},
	{regexp.MustCompile(`(?i)\bthe` + gap + `designs?\b|'s` + gap + `designs?\b`), `write design.md or designs.md, and the heading in quotes`},
	{regexp.MustCompile(`[a-z-]+\.md` + gap + `(?:sections?|§)`), "leave the word section out"},
	{regexp.MustCompile(`\.\./shared\b`), "cite docs/spec"},
}

// problem is a citation that does not resolve.
type problem struct {
	at   int // offset in the text
	what string
}

// checkText returns the invalid citations of a text.
func checkText(text string, documents map[string]document) []problem {
	var all []problem
	for _, u := range unknown {
		for _, m := range u.form.FindAllStringIndex(text, -1) {
			all = append(all, problem{m[0], fmt.Sprintf("%q: %s", text[m[0]:m[1]], u.instead)})
		}
	}
	for _, m := range citation.FindAllStringSubmatchIndex(text, -1) {
		file := text[m[4]:m[5]]
		d, known := documents[file]
		switch {
		case m[6] >= 0 && !known:
			all = append(all, problem{m[4], "docs/spec has no " + file})
		case m[6] >= 0:
			for _, what := range checkRefs(text[m[6]:m[7]], d) {
				all = append(all, problem{m[4], file + " " + what})
			}
		case known && text[m[2]:m[3]] != "(":
			all = append(all, problem{m[4], file + ": write the number of the section, or its heading in quotes, behind it"})
		}
	}
	return all
}

// checkRefs resolves the references that follow the name of a document.
func checkRefs(refs string, d document) []string {
	var wrong []string
	var before string // the previous number if it is that of an item
	for _, m := range oneRef.FindAllStringSubmatch(refs, -1) {
		joint, number, items, inside, title := m[1], m[2], m[3], m[4], m[5]
		if title != "" {
			title = unquote(title)
			s := d.find(func(s *section) bool { return s.title == title })
			wrong = append(wrong, missing(s, fmt.Sprintf("%q", title))...)
			continue
		}
		s, isItem := d.numbered(number)
		wrong = append(wrong, missing(s, number)...)
		if before != "" && !isItem && !strings.Contains(number, ".") {
			wrong = append(wrong, fmt.Sprintf("%s after %s: write both numbers in full", number, before))
		}
		if strings.Contains(joint, "to") && strings.Contains(number, ".") {
			wrong = append(wrong, between(d, before, number)...)
		}
		before = ""
		if isItem {
			before = number
		}
		for _, n := range digits.FindAllString(items, -1) {
			if s != nil && !slices.Contains(s.items, n) {
				wrong = append(wrong, fmt.Sprintf("%s has no list with %s", number, n))
			}
		}
		if inside != "" && s != nil && !slices.Contains(s.inside, unquote(inside)) {
			wrong = append(wrong, fmt.Sprintf("%s has no heading %s", number, inside))
		}
	}
	return wrong
}

// between checks the items within a range.
func between(d document, from, to string) []string {
	dot := strings.LastIndexByte(to, '.')
	if from == "" || !strings.HasPrefix(from, to[:dot+1]) {
		return nil
	}
	first, _ := strconv.Atoi(from[dot+1:])
	last, _ := strconv.Atoi(to[dot+1:])
	var wrong []string
	for n := first + 1; n < last; n++ {
		s, _ := d.numbered(to[:dot+1] + strconv.Itoa(n))
		wrong = append(wrong, missing(s, to[:dot+1]+strconv.Itoa(n))...)
	}
	return wrong
}

func missing(s *section, name string) []string {
	switch {
	case s == nil:
		return []string{name + ": there is no such section"}
	case !s.full:
		return []string{name + ": the section is empty"}
	}
	return nil
}

// unquote removes quotes and line breaks from a heading.
func unquote(s string) string { return breaks.ReplaceAllString(strings.Trim(s, `"`), " ") }

func readSpec(t *testing.T) map[string]document {
	t.Helper()
	files, err := filepath.Glob("spec/*.md")
	require.NoError(t, err)
	documents := map[string]document{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if name := filepath.Base(file); name != "README.md" {
			documents[name] = parseDocument(string(text))
		}
	}
	require.NotEmpty(t, documents)
	return documents
}

// cites reports whether a file may contain citations.
func cites(path string) bool {
	kinds := []string{".go", ".proto", ".md", ".txt", ".yml", ".yaml", ".sh", ".py", ".html"}
	return slices.Contains(kinds, filepath.Ext(path)) || filepath.Base(path) == "Makefile"
}

// Every citation in the repository leads to a section with content.
func TestCitations(t *testing.T) {
	documents := readSpec(t)
	var all []string
	count := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "var", "spec"}, entry.Name()) {
			return fs.SkipDir
		}
		if !entry.Type().IsRegular() || !cites(path) || entry.Name() == "spec_test.go" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := string(data)
		if !mention.MatchString(text) {
			return nil
		}
		count += len(citation.FindAllString(text, -1))
		for _, p := range checkText(text, documents) {
			line := 1 + strings.Count(text[:p.at], "\n")
			all = append(all, fmt.Sprintf("%s:%d: %s", strings.TrimPrefix(filepath.ToSlash(path), "../"), line, p.what))
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, count, 200, "are citations looked for in the wrong place?")
	require.Empty(t, all, "%s\nthe forms of citations: docs/spec/README.md", strings.Join(all, "\n"))
}

// The headings of design.md are the names by which code cites it: each is there once, and none has a number.
func TestDecisionsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range readSpec(t)["design.md"] {
		require.Empty(t, s.number, "design.md: %s", s.title)
		require.False(t, seen[s.title], "design.md has two headings %q", s.title)
		seen[s.title] = true
	}
}

// References within docs/spec resolve, and no section is empty.
func TestSpecIsClosed(t *testing.T) {
	documents := readSpec(t)
	for name, d := range documents {
		text, err := os.ReadFile(filepath.Join("spec", name))
		require.NoError(t, err)
		for _, m := range inFile.FindAllStringSubmatch(string(text), -1) {
			s, _ := d.numbered(m[1])
			require.Empty(t, missing(s, m[1]), "%s: %s", name, m[0])
		}
		for _, s := range d {
			require.True(t, s.full, "%s: %s %s has no content", name, s.number, s.title)
		}
		for _, m := range citation.FindAllStringSubmatch(string(text), -1) {
			if cited, known := documents[m[2]]; known && m[3] != "" {
				require.Empty(t, checkRefs(m[3], cited), "%s: %s", name, m[0])
			}
		}
	}
}

func TestFormsOfCitations(t *testing.T) {
	documents := map[string]document{"queue.md": parseDocument("## 4 Life\n### 4.6 Cancel\nText.\n\n1. one\n2. two\n" +
		"#### Job end\nText.\n## 7 Empty\n## 8 Items\n### 8A Items\n1. one\n2. two\n3. three\n## 9 Nine\nText.\n")}
	for _, good := range []string{"(queue.md 4.6)", "queue.md 4.6.", "queue.md 4.6, step 2", "queue.md 4.6, steps 1 to 2; more",
		"queue.md 4 and 9", "queue.md 4, 4.6 and 9", "queue.md 8A.1, 8A.2 and 8A.3", "queue.md 8A.1 to 8A.3", `queue.md 4, "Job end"`,
		"(queue.md\n// 4.6)", "queue.md \"Job\n\t// end\"", "queue.md 4.6, last column", "[queue](queue.md)", "docs/spec/queue.md", "by design"} {
		require.Empty(t, checkText(good, documents), "%s", good)
	}
	for bad, what := range map[string]string{
		"queue.md 4.7":            "4.7: there is no such section",
		"queue.md 4.6.3":          "4.6.3: there is no such section",
		"queue.md 7":              "the section is empty",
		"queue.md 4, 4.6 and 10":  "10: there is no such section",
		"queue.md 8A.1 and 9":     "write both numbers in full",
		"queue.md 8A.1 to 8A.4":   "8A.4: there is no such section",
		"queue.md 4.6, step 3":    "4.6 has no list with 3",
		`queue.md 4.6, "Other"`:   `4.6 has no heading "Other"`,
		`queue.md "Other"`:        `"Other": there is no such section`,
		"as queue.md says":        "write the number of the section",
		"config.md 3":             "docs/spec has no config.md",
		"queue.md section 4":      "leave the word section out",
		"DESIGN section 9":        "write design.md",
		"STYLE":                   "write docs/contributing.md",
		"designs/daemons.txt":     "write designs.md and the heading",
		"(design,\n// section 4)": "write design.md and the heading",
		"as the\n// design wants": "write design.md or designs.md",
		"../shared/spec":          "cite docs/spec",
	} {
		found := checkText(bad, documents)
		require.NotEmpty(t, found, "%s", bad)
		require.Contains(t, found[0].what, what, "%s", bad)
	}
}
