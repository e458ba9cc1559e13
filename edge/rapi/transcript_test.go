package rapi_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// exchange is a request with the answer of Ganeti 3.0.2.
type exchange struct {
	title, method, path, user, body string
	code                            int
	answer                          string // truncated if long
}

// deviations are the answers that differ here, with the reasons.
var deviations = map[string]struct {
	code int
	why  string
}{
	"unknown job":                           {404, "an unknown job is not an object full of null"},
	"wait on unknown job":                   {404, "as above"},
	"wait without body":                     {400, "Ganeti's server trips over it"},
	"submit into a drained queue":           {503, "trying again helps"},
	"method not allowed":                    {405, "the method is wrong, the server can do others"},
	"HEAD":                                  {200, "HEAD is GET without a body"},
	"tags: a job with a body of query args": {0, "there are no tags here"},
	"tags dry-run delete":                   {0, "as above"},
	"instances POST without parameters":     {0, "there are no instances here"},
}

var requestLine = regexp.MustCompile(`^> ([A-Z]+) (\S+)   \(user: (\S+)\)(?:   body: (.*?))?(?:   extra: .*)?$`)

func readTranscript(t *testing.T) []exchange {
	file, err := os.Open(filepath.Join("testdata", "transcript.txt"))
	require.NoError(t, err)
	defer file.Close()
	var all []exchange
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "=== "):
			all = append(all, exchange{title: line[4:]})
		case len(all) == 0:
		case requestLine.MatchString(line):
			m := requestLine.FindStringSubmatch(line)
			e := &all[len(all)-1]
			e.method, e.path, e.user, e.body = m[1], m[2], m[3], m[4]
		case strings.HasPrefix(line, "< HTTP/1.1 "):
			all[len(all)-1].code, err = strconv.Atoi(strings.Fields(line)[2])
			require.NoError(t, err)
		case strings.HasPrefix(line, "< ") && len(line) > 2 && strings.ContainsAny(line[2:3], `{["0123456789n`):
			all[len(all)-1].answer = line[2:]
		}
	}
	require.NoError(t, lines.Err())
	require.Greater(t, len(all), 50)
	return all
}

// The answers equal those of Ganeti: the same codes, the same errors, and results of the
// same form.
func TestTheTranscriptOfGanetisServer(t *testing.T) {
	b := newTestServer(t, authenticate)
	b.luxi.jobs = map[int64]string{14757: "success", 14758: "running", 14759: "queued"}
	for _, e := range readTranscript(t) {
		t.Run(e.title, func(t *testing.T) {
			b.TB = t
			deviation, deviates := deviations[e.title]
			if deviates && deviation.code == 0 {
				t.Skip(deviation.why)
			}
			if strings.Contains(e.title, "drained") {
				b.luxi.answers["SubmitJob"] = func([]any) (string, error) { return "", failed("JobQueueDrainError", `"Job queue is drained"`) }
			}
			a := b.do(e.method, e.path, e.user, e.body)
			if deviates && deviation.code == 200 {
				require.Equal(t, 200, a.code)
				return
			}
			if deviates {
				b.failure(deviation.code, a)
				return
			}
			require.Equal(t, e.code, a.code, a.body)
			require.Equal(t, "application/json", a.header.Get("Content-Type"))
			if e.code == 401 {
				require.Equal(t, `Basic realm="Ganeti Remote API"`, a.header.Get("WWW-Authenticate"))
			}
			switch {
			case e.method == "HEAD":
				require.Empty(t, a.body)
			case e.code == 403:
				require.Contains(t, b.failure(403, a), "needs the role", "Ganeti does not say what is missing")
			case e.code != 200:
				require.JSONEq(t, e.answer, a.body)
			case e.answer != "" && json.Valid([]byte(e.answer)):
				requireForm(t, parsed(t, e.answer), parsed(t, a.body), "$")
			}
		})
	}
}

func parsed(t *testing.T, text string) any {
	var value any
	require.NoError(t, json.Unmarshal([]byte(text), &value), text)
	return value
}

// requireForm checks that values have the same type and objects the same keys. Of lists it
// compares the first elements. Opcodes and null may have any form.
func requireForm(t *testing.T, want, got any, at string) {
	t.Helper()
	if want == nil || got == nil || strings.Contains(at, ".ops[") {
		return
	}
	require.IsType(t, want, got, at)
	switch want := want.(type) {
	case map[string]any:
		got := got.(map[string]any)
		for key := range want {
			require.Contains(t, got, key, at)
			requireForm(t, want[key], got[key], at+"."+key)
		}
		require.Len(t, got, len(want), at)
	case []any:
		if got := got.([]any); len(want) > 0 && len(got) > 0 {
			requireForm(t, want[0], got[0], at+"[0]")
		}
	}
}
