package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pages returns the texts of the documents, by path from this folder.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "spec/*.md", "../README.md"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			all[file] = string(text)
		}
	}
	require.Greater(t, len(all), 20)
	return all
}

var (
	link       = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	anchorDrop = regexp.MustCompile(`[^\pL\pN_ -]`)
)

// anchors are the names by which a link leads to the headings of a text, as GitHub makes them.
func anchors(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if m := regexp.MustCompile(`^#+ (.+)`).FindStringSubmatch(line); m != nil {
			name := anchorDrop.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
			all = append(all, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return all
}

// A link of a document leads to a file, and to a heading of it.
func TestLinksOfDocuments(t *testing.T) {
	all := pages(t)
	for page, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = strings.TrimPrefix(filepath.Join(filepath.Dir(page), file), "../docs/")
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads to no file", page, m[1])
			}
			if anchor != "" && !slices.Contains(anchors(all[target]), anchor) {
				t.Errorf("%s: the link %s leads to no heading", page, m[1])
			}
		}
	}
}

// goCode is the Go code of the repository, and that of its tests.
func goCode(t *testing.T) (product, tests string) {
	t.Helper()
	var all, ofTests strings.Builder
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.HasSuffix(path, "_test.go") {
			ofTests.Write(text)
		} else {
			all.Write(text)
		}
		return err
	}))
	return all.String(), ofTests.String()
}

// foreignFlags are flags of other programs: docker, gnt-cluster, gnt-job, curl. accent is a variable of CSS.
var foreignFlags = []string{"accent", "cap-drop", "security-opt", "volume", "unix-socket", "each",
	"data-collector-interval", "enabled-data-collectors", "predictive-queue"}

// named are the things that documents name, each as a part of the source that defines it.
var named = []struct {
	what string
	form *regexp.Regexp // the first group is the name
	in   func(name string) *regexp.Regexp
	but  []string
}{
	{"test", regexp.MustCompile("\\b((?:Test|Benchmark)[A-Z][A-Za-z0-9]*)`"), func(name string) *regexp.Regexp {
		return regexp.MustCompile(`func ` + name) // a pattern of -run may be the beginning of a name
	}, nil},
	{"flag", regexp.MustCompile(`(?:^|[\s` + "`" + `(\[|])--([a-z][a-z0-9-]+)`), func(name string) *regexp.Regexp {
		return regexp.MustCompile(`"(?:--)?` + name + `"`)
	}, foreignFlags},
	{"metric", regexp.MustCompile("`lockstep_([a-z_]+)"), func(name string) *regexp.Regexp {
		return regexp.MustCompile(`"lockstep_` + name)
	}, nil},
	{"setting", regexp.MustCompile(`lockstep config set ([a-z_]+)=`), func(name string) *regexp.Regexp {
		return regexp.MustCompile(`json:"` + name + `[",]|"` + name + `"`)
	}, nil},
}

// A test, flag, metric or setting that a document names exists.
func TestNamesInDocuments(t *testing.T) {
	product, tests := goCode(t)
	for _, n := range named {
		code := product
		if n.what == "test" {
			code = tests
		}
		known := map[string]bool{}
		for page, text := range pages(t) {
			for _, m := range n.form.FindAllStringSubmatch(text, -1) {
				name := m[1]
				if _, looked := known[name]; !looked {
					known[name] = slices.Contains(n.but, name) || n.in(name).MatchString(code)
				}
				if !known[name] {
					t.Errorf("%s: there is no %s %s", page, n.what, name)
				}
			}
		}
		require.Greater(t, len(known), 3, "are %ss looked for in the wrong form?", n.what)
	}
}

var inRepository = regexp.MustCompile("`((?:actors|cmd|core|docs|edge|messages|packaging|persistence|sim|supervisor)/[A-Za-z0-9_/-]+(?:\\.[a-z.]+)?)`")

// A file or folder of the repository that a document names exists.
func TestFilesInDocuments(t *testing.T) {
	count := 0
	for page, text := range pages(t) {
		for _, m := range inRepository.FindAllStringSubmatch(text, -1) {
			count++
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
	}
	require.Greater(t, count, 50)
}
