package console

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/retry"
	"lockstep/core/session"
	"lockstep/edge/admission"
	"lockstep/edge/login"
	"lockstep/edge/rapi"
)

// All templates parse, no page has an inline script or style, and all assets together are small.
func TestAssetsAndTemplates(t *testing.T) {
	x, err := New(Config{Log: logrus.New(), Queue: rapi.NewForwardingPool(rapi.Gateway{}, admission.NewTable()), Logins: login.New("/nonexistent", logrus.New()), Table: admission.NewTable()})
	require.NoError(t, err)
	total := 0
	for name, a := range x.assets {
		require.NotEmpty(t, a.kind, name)
		total += len(a.data)
	}
	require.Less(t, total, 100_000, "all assets, without compression")
	entries, err := templateFiles.ReadDir("templates")
	require.NoError(t, err)
	for _, e := range entries {
		data, err := templateFiles.ReadFile("templates/" + e.Name())
		require.NoError(t, err)
		for _, forbidden := range []string{" style=", "<style", "javascript:", " onclick=", " onload="} {
			require.NotContains(t, string(data), forbidden, e.Name())
		}
		require.Equal(t, strings.Count(string(data), "<script"), strings.Count(string(data), "<script src="), e.Name())
	}
}

func TestWhereALoginLeads(t *testing.T) {
	for next, want := range map[string]string{"/ui/jobs?status=error": "/ui/jobs?status=error", "": "/ui/", "//evil.example/ui/": "/ui/", "http://evil.example/ui/": "/ui/",
		"/2/jobs": "/ui/", "/ui/\\evil": "/ui/", "/ui/login": "/ui/", "javascript:alert(1)": "/ui/"} {
		require.Equal(t, want, safeNext(next), next)
	}
}

// Output is text with classes: colours stay, and other sequences and control characters cannot act.
func TestTextOfALog(t *testing.T) {
	for text, want := range map[string]string{
		"plain <b>":                        `[{"x":"plain \u003cb\u003e"}]`,
		"\x1b[31mred\x1b[0m and":           `[{"c":"k2","x":"red"},{"x":" and"}]`,
		"\x1b[1;4;92mx":                    `[{"c":"k11 kb ku","x":"x"}]`,
		"\x1b[38;5;200mx\x1b[48;2;1;2;3my": `[{"x":"x"},{"x":"y"}]`,
		"a\x1b[2Jb\x1b]0;title\x07c":       `[{"x":"a"},{"x":"b"},{"x":"c"}]`,
		"a\x1b":                            `[{"x":"a"}]`,
		"\x1b[":                            `null`,
		"bell\a tab\t del\x7f":             `[{"x":"bell␇ tab\t del␡"}]`,
		"50%\r60%":                         `[{"x":"50%60%"}]`,
		"\u202eevil\u2066":                 `[{"x":"�evil�"}]`,
	} {
		data, err := json.Marshal(colourParts(text))
		require.NoError(t, err)
		require.Equal(t, want, string(data), "%q", text)
	}
	long := colourParts(strings.Repeat("ä", 20_000))
	require.Less(t, len(long[0].Text), pieceMax+100)
	require.Contains(t, long[0].Text, "more bytes; the download has them")
	shown := shownEntries([]rapi.LogEntry{{Serial: 1, Stream: "stdout", Text: "a"}, {Serial: 2, Stream: "stdout", Text: "b\n"}, {Serial: 3, Stream: "stderr", Base64: "/wAA"}, {Serial: 4, Stream: rapi.StreamMessage, Text: "note"}})
	require.Equal(t, []bool{true, false, false, false}, []bool{shown[0].Open, shown[1].Open, shown[2].Open, shown[3].Open})
	require.Equal(t, 3, shown[2].Binary)
}

// Output that is not text is one line with its size, in spite of fragments that look like text and of lines of the other stream. Text after
// it is shown.
func TestOutputThatIsNotTextIsOneLine(t *testing.T) {
	entry := func(stream, text, base64 string) rapi.LogEntry {
		return rapi.LogEntry{Stream: stream, Text: text, Base64: base64}
	}
	noise := entry("stdout", "", "/wAA")
	shown := folded(shownEntries([]rapi.LogEntry{entry("stdout", "begin\n", ""), noise, noise, entry("stderr", "warning\n", ""), noise, entry("stdout", "ab\n", ""),
		noise, entry("stdout", "a whole line\n", ""), noise, entry("stdout", "ok\n", "")}))
	type line struct {
		stream string
		binary int
		text   string
	}
	var lines []line
	for _, e := range shown {
		l := line{e.Stream, e.Binary, ""}
		for _, p := range e.Parts {
			l.text += p.Text
		}
		lines = append(lines, l)
	}
	require.Equal(t, []line{{"stdout", 0, "begin"}, {"stdout", 15, ""}, {"stderr", 0, "warning"}, {"stdout", 0, "a whole line"}, {"stdout", 3, ""}, {"stdout", 0, "ok"}}, lines)
	for n, want := range map[int]string{1: "1 byte", 999: "999 bytes", 1000: "1.0 kB", 1_234_567: "1.2 MB"} {
		require.Equal(t, want, bytesText(n))
	}
}

func FuzzTextOfALog(f *testing.F) {
	f.Add("\x1b[31mred\x1b[0m\x1b]0;x\x1b\\")
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range colourParts(text) {
			require.NotContains(t, p.Text, "\x1b")
			require.NotContains(t, p.Class, "<")
		}
	})
}

// A reason has links to the jobs and rules that it names.
func TestReasonsInWords(t *testing.T) {
	status := "running"
	require.Equal(t, []part{{Text: "It"}, {Text: " waits for "}, {Text: "job 7", Link: "/ui/jobs/7"}, {Text: ", which is running, to end with "}, {Text: "success"}, {Text: "."}},
		sentenceOf(answer.Reason{Kind: answer.WhyDependency, Job: 7, JobStatus: &status, Statuses: []string{"success"}}))
	require.Equal(t, part{Text: "abcdefgh…", Link: "/ui/filters#rule-abcdefgh-1234"}, sentenceOf(answer.Reason{Kind: answer.WhyFilter, UUID: "abcdefgh-1234", Action: "PAUSE"})[1])
	require.Equal(t, []part{{Text: "Another reason: moon."}}, sentenceOf(answer.Reason{Kind: "moon"}))
	all := sentences(answer.Why{Reasons: []answer.Reason{{Kind: answer.WhyRunning, Opcodes: 1}, {Kind: answer.WhyRunning, Opcodes: 3}, {Kind: answer.WhyEnded}, {Kind: answer.WhySlots}}})
	require.Len(t, all, 2, "the head says the rest")
}

func TestHowManyNodesMayFail(t *testing.T) {
	nodes := func(answering, voters int) *answer.Nodes {
		n := &answer.Nodes{}
		for i := range voters {
			n.Nodes = append(n.Nodes, answer.Node{Voter: true, Answers: i < answering})
		}
		return n
	}
	require.Empty(t, majority(nil))
	require.Equal(t, "three nodes of three voting nodes answer. One of them may fail, and the queue goes on.", majority(nodes(3, 3)))
	require.Equal(t, "two nodes of three voting nodes answer. None of them may fail.", majority(nodes(2, 3)))
	require.Equal(t, "one node of three voting nodes answers. That is no majority: nothing can be changed until more of them answer.", majority(nodes(1, 3)))
}

// Changes that a slow stream has not taken become one of bounded size.
func TestChangesOfASlowStreamAreBounded(t *testing.T) {
	h := newHub(nil, nil)
	h.running = true // nothing is asked
	l := h.listen()
	for id := range int64(5000) {
		h.publish(changes{Jobs: []int64{id % 3000}})
	}
	h.publish(changes{Locks: true})
	<-l.wake
	c, down, turned := l.take()
	require.Len(t, c.Jobs, changedMax)
	require.True(t, c.All)
	require.True(t, c.Locks)
	require.False(t, c.Filters)
	require.False(t, turned)
	require.Empty(t, down)
	h.setDown("no master")
	h.setDown("")
	c, _, turned = l.take()
	require.True(t, turned)
	require.True(t, c.All, "what was missed meanwhile is asked for")
	h.remove(l)
	h.publish(changes{All: true})
	c, _, _ = l.take()
	require.True(t, c.empty())
}

func TestBarsOfAJob(t *testing.T) {
	at := func(s int64) answer.Time { return answer.Time{Time: time.Unix(1000+s, 0)} }
	bars := barOf(storedJob{received: at(0), begun: at(10), e: at(100), ops: make([]map[string]json.RawMessage, 2), opstatus: []string{"success", "error"},
		start: []answer.Time{at(10), at(50)}, exec: []answer.Time{at(20), at(50)}, end: []answer.Time{at(50), at(100)}}, time.Unix(2000, 0))
	require.Equal(t, []barPart{{0, 100, "queued", "queued for 10.0 s"}, {100, 100, "waiting", "opcode 1 waiting for locks for 10.0 s"},
		{200, 300, "success", "opcode 1 running for 30.0 s"}, {500, 500, "error", "opcode 2 running for 50.0 s"}}, bars)
	require.Nil(t, barOf(storedJob{}, time.Unix(2000, 0)))
}

func TestFieldsOfAForm(t *testing.T) {
	for kind, want := range map[string]string{"a string": "text", "null or an integer greater than 0": "number", "true or false": "bool", `one of "slow", "fast"`: "select",
		"a list, each element a string": "json", "an object": "json", "any value": "json", "a list of at least one string, the first not empty": "lines"} {
		require.Equal(t, want, fieldOf(answer.OpcodeParam{Name: "p", Type: kind}).Input, kind)
	}
	require.Equal(t, []string{"slow", "fast"}, fieldOf(answer.OpcodeParam{Type: `one of "slow", "fast"`}).Options)
	params, problem := paramsOf([]formField{{OpcodeParam: answer.OpcodeParam{Name: "argv"}, Input: "lines", Value: "sh\r\n-c\r\ntrue"}, {OpcodeParam: answer.OpcodeParam{Name: "n"}, Input: "number", Value: " 5 "}, {Input: "text", Value: " "}})
	require.Empty(t, problem)
	require.Equal(t, map[string]json.RawMessage{"argv": json.RawMessage(`["sh","-c","true"]`), "n": json.RawMessage("5")}, params)
	_, problem = paramsOf([]formField{{OpcodeParam: answer.OpcodeParam{Name: "n", Type: "an integer"}, Input: "number", Value: "five"}})
	require.Contains(t, problem, "n is not valid")
}

// A policy of tries is a choice and three texts.
func TestTheFieldOfAPolicy(t *testing.T) {
	f := fieldOf(answer.OpcodeParam{Name: "retry", Type: retry.Wanted, Default: json.RawMessage("null")})
	require.Equal(t, "retry", f.Input)
	require.Equal(t, "no further try", f.Default)
	require.Equal(t, "up to 2 further tries", fieldOf(answer.OpcodeParam{Type: retry.Wanted, Default: json.RawMessage(`{"times": 2}`)}).Default)
	for _, c := range []struct {
		times   string
		texts   retryForm
		want    string // "": the parameter is left out
		problem string
	}{
		{"", retryForm{}, "", ""},
		{"none", retryForm{}, "null", ""},
		{"3", retryForm{}, `{"times": 3}`, ""},
		{"3", retryForm{"1m", "1h", "1, 75,timeout"}, `{"times": 3, "delay": 60, "max_delay": 3600, "on": [1, 75, "timeout"]}`, ""},
		{"", retryForm{Delay: "1m"}, "", "retry: choose how often the command is tried again, or leave the other fields empty."},
		{"x", retryForm{}, "", "retry: choose a number from 1 to 5."},
		{"1", retryForm{Delay: "soon"}, "", `retry: "soon" is no time to wait; write 10s or 5m.`},
		{"1", retryForm{Delay: "1m", MaxDelay: "1s"}, "", "retry: max_delay: want at least the delay, 60 seconds."},
		{"1", retryForm{On: "maybe"}, "", `retry: "maybe": want an exit status from 1 to 255, "failure", "timeout" or "lost".`},
	} {
		f.Value, f.Retry = c.times, c.texts
		params, problem := paramsOf([]formField{f})
		require.Equal(t, c.problem, problem)
		if c.want == "" {
			require.Nil(t, params["retry"])
			continue
		}
		require.JSONEq(t, c.want, string(params["retry"]))
	}
}

func TestTreeOfWaits(t *testing.T) {
	wait := func(id int64, seconds float64, on ...int64) answer.LockWait {
		w := answer.LockWait{Owner: answer.LockOwner{Who: answer.Principal{Job: id}}, Seconds: seconds, Request: []answer.LockItem{{Lock: "node/a", Mode: "exclusive"}}}
		for _, b := range on {
			w.Blockers = append(w.Blockers, answer.LockOwner{Who: answer.Principal{Job: b}})
			w.Locks = append(w.Locks, []string{"node/a"})
		}
		return w
	}
	tree := waitTree([]answer.LockWait{wait(3, 1, 2), wait(2, 5, 1), wait(4, 9, 1), wait(5, 2)})
	require.Len(t, tree, 2)
	require.EqualValues(t, 1, tree[0].Owner.Job)
	require.EqualValues(t, 4, tree[0].Children[0].Owner.Job, "the longest wait first")
	require.EqualValues(t, 3, tree[0].Children[1].Children[0].Owner.Job)
	require.EqualValues(t, 5, tree[1].Owner.Job)
	require.NotPanics(t, func() { waitTree([]answer.LockWait{wait(1, 1, 2), wait(2, 1, 1)}) })
}

func TestWhoIsLocal(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/ui/", nil)
	for address, want := range map[string]bool{"127.0.0.1:7": true, "[::1]:7": true, "192.0.2.7:7": false, "": false} {
		r.RemoteAddr = address
		require.Equal(t, want, isLocal(r), address)
	}
}

// A user without the options read and write sees nothing of a job: no page, no log, no event.
func TestAUserWithoutOptionsSeesNothing(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(users, []byte("guest secret\n"), 0o600))
	log := logrus.New()
	x, err := New(Config{Log: log, Logins: login.New(users, log), Port: 1, Table: admission.NewTable()})
	require.NoError(t, err)
	id := newID()
	guest, known := x.config.Logins.Find("guest")
	require.True(t, known)
	x.sessions.keep(session.HashOf(id), answer.Session{Valid: true, User: "user=guest", Name: "guest", Proof: guest.Proof(id)})
	for _, path := range []string{"", "jobs", "jobs/1", "jobs/1/log", "jobs/1/job.json", "jobs/1/graph", "events", "events?log=1.0", "consoles",
		"timeline", "locks", "filters", "order", "nodes", "settings", "opcodes", "opcodes/OP_TEST_DELAY", "help"} {
		r := httptest.NewRequest(http.MethodGet, rapi.ConsolePath+path, nil)
		r.AddCookie(&http.Cookie{Name: x.cookieName(), Value: base64.RawURLEncoding.EncodeToString(id)})
		w := httptest.NewRecorder()
		x.ServeHTTP(w, r)
		require.Equal(t, http.StatusForbidden, w.Code, path)
	}
}

// A browser that guesses passwords is told when there were too many, and when it may try again. It never gets the code that makes it ask
// for a password itself.
func TestAGuesserIsToldThatThereWereTooMany(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(users, []byte("reader secret read\n"), 0o600))
	log := logrus.New()
	log.SetOutput(io.Discard)
	synctest.Test(t, func(t *testing.T) {
		x, err := New(Config{Log: log, Logins: login.New(users, log), Port: 1, Table: admission.NewTable()})
		require.NoError(t, err)
		for guess := range 10 {
			r := httptest.NewRequest(http.MethodPost, rapi.ConsolePath+"login", strings.NewReader("name=reader&password=wrong"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.RemoteAddr = "127.0.0.1:5000"
			w := httptest.NewRecorder()
			x.ServeHTTP(w, r)
			if guess < 8 {
				require.Equal(t, http.StatusUnprocessableEntity, w.Code)
				require.Contains(t, w.Body.String(), "The name or the password is wrong.")
				continue
			}
			require.Equal(t, http.StatusTooManyRequests, w.Code)
			require.Contains(t, w.Body.String(), "The name or the password is wrong, and too many logins have failed; wait before you try again.")
			require.Equal(t, "3", w.Header().Get("Retry-After"))
		}
	})
}
