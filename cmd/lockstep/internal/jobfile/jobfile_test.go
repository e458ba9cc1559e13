package jobfile

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/internal/doctree"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/opcode"
)

// encoded parses a file and returns its jobs as they are submitted, without reasons.
func encoded(t *testing.T, text string) string {
	t.Helper()
	file, err := Parse("x.yaml", "/here", []byte(text))
	require.NoError(t, err)
	jobs, err := file.Encode(client.Trails{})
	require.NoError(t, err)
	all, err := json.Marshal(jobs)
	require.NoError(t, err)
	return strings.ReplaceAll(string(all), `,"reason":[]`, "")
}

func TestShortForms(t *testing.T) {
	for text, want := range map[string]string{
		`run: [sleep, 5]`: `[[{"OP_ID":"OP_RUN_COMMAND","argv":["sleep","5"],"cwd":"/here"}]]`,
		`[{run: [a], cwd: /x}, {run: [b], cwd: y}]`: "" +
			`[[{"OP_ID":"OP_RUN_COMMAND","argv":["a"],"cwd":"/x"}],[{"OP_ID":"OP_RUN_COMMAND","argv":["b"],"cwd":"/here/y"}]]`,
		`{run: "a | b", shell: true}`:            `[[{"OP_ID":"OP_RUN_COMMAND","argv":["sh","-c","a | b"],"cwd":"/here"}]]`,
		`{run: [a], shell: false, timeout: 2.5}`: `[[{"OP_ID":"OP_RUN_COMMAND","argv":["a"],"timeout":2.5,"cwd":"/here"}]]`,
		`{run: [a], timeout: 1h30m, priority: low}`: "" +
			`[[{"OP_ID":"OP_RUN_COMMAND","argv":["a"],"timeout":5400,"priority":10,"cwd":"/here"}]]`,
		`{run: [a], retry: 3}`: `[[{"OP_ID":"OP_RUN_COMMAND","argv":["a"],"retry":3,"cwd":"/here"}]]`,
		`{run: [a], retry: {times: 3, delay: 10s, max_delay: 1h30m, on: [75, timeout]}}`: "" +
			`[[{"OP_ID":"OP_RUN_COMMAND","argv":["a"],"retry":{"times":3,"delay":10,"max_delay":5400,"on":[75,"timeout"]},"cwd":"/here"}]]`,
		`[{OP_ID: OP_RUN_COMMAND, argv: [a], retry: {times: 1, delay: 0.5}}]`: "" +
			`[[{"OP_ID":"OP_RUN_COMMAND","argv":["a"],"retry":{"times":1,"delay":0.5}}]]`,
		`{run: [a], limits: {memory: 2G, cpus: 1.5, nice: 10}}`: "" +
			`[[{"OP_ID":"OP_RUN_COMMAND","argv":["a"],"limits":{"memory":"2G","cpus":1.5,"nice":10},"cwd":"/here"}]]`,
		`steps: [{run: [a], retry: 1}, {run: [b]}]`: "" +
			`[[{"OP_ID":"OP_RUN_COMMAND","argv":["a"],"retry":1,"cwd":"/here"},{"OP_ID":"OP_RUN_COMMAND","argv":["b"],"cwd":"/here"}]]`,
		`{run: [a], env: {A: yes, B: 010, C: 1.50}}`: "" +
			`[[{"OP_ID":"OP_RUN_COMMAND","argv":["a"],"env":{"A":"yes","B":"010","C":"1.50"},"cwd":"/here"}]]`,
		`{run: [a], lock: node/n1, stdin: x}`: "" +
			`[[{"OP_ID":"OP_RUN_COMMAND","argv":["a"],"locks":[["node/n1","exclusive"]],"stdin":"x","cwd":"/here"}]]`,
		`{run: [a], lock: [a, "b:shared"]}`: "" +
			`[[{"OP_ID":"OP_RUN_COMMAND","argv":["a"],"locks":[["a","exclusive"],["b","shared"]],"cwd":"/here"}]]`,
		`{run: [a], after: "7:canceled,error"}`: "" +
			`[[{"OP_ID":"OP_RUN_COMMAND","argv":["a"],"cwd":"/here","depends":[[7,["canceled","error"]]]}]]`,
		`[{run: [a], name: x}, {run: [b], after: x}]`: "" +
			`[[{"OP_ID":"OP_RUN_COMMAND","argv":["a"],"cwd":"/here"}],` +
			`[{"OP_ID":"OP_RUN_COMMAND","argv":["b"],"cwd":"/here","depends":[[-1,["success"]]]}]]`,
		`jobs: [{steps: [{OP_ID: OP_X}, {run: [b]}]}]`: `[[{"OP_ID":"OP_X"},{"OP_ID":"OP_RUN_COMMAND","argv":["b"],"cwd":"/here"}]]`,
		`steps: [{OP_ID: OP_TEST_DELAY, duration: 2, priority: low}]`: "" +
			`[[{"OP_ID":"OP_TEST_DELAY","duration":2,"priority":10}]]`,
		`[{OP_ID: OP_TEST_DELAY, duration: 2s}]`:  `[[{"OP_ID":"OP_TEST_DELAY","duration":2}]]`,
		`[[{OP_ID: OP_TEST_DELAY, duration: 2}]]`: `[[{"OP_ID":"OP_TEST_DELAY","duration":2}]]`,
		`{ops: [{OP_ID: OP_A}], priority: high}`:  `[[{"OP_ID":"OP_A","priority":-10}]]`,
	} {
		require.Equal(t, want, encoded(t, text), text)
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`{rum: [a], lock: x}`:                             `1:2: unknown key "rum" of a job; did you mean "run"?`,
		`{name: x}`:                                       `1:1: the job has no "run", its command, and no "steps" or "ops"`,
		`{run: [a], steps: []}`:                           `1:12: the job has "run" and "steps"; it can have one of run, steps and ops`,
		`{run: []}`:                                       `1:7: run is empty; it begins with the program`,
		`{run: [a, [b]]}`:                                 `1:11: an argument of run is a text, not a list`,
		`{run: a}`:                                        `1:7: run is a list, like [rsync, -a, /srv/], not a string; a text needs "shell: true"`,
		`{run: [a], shell: true}`:                         `1:7: with "shell: true" run is a text, not a list`,
		`{run: [a], shell: 1}`:                            `1:19: shell is true or false, not 1`,
		`{run: [a], lock: "b:big"}`:                       `1:18: lock b:big: the mode of a lock is shared or exclusive, not "big"`,
		`{run: [a], lock: nodes/n1}`:                      `1:18: lock nodes/n1: did you mean node/n1? A lock of your own with this name is lock/nodes/n1`,
		`{run: [a], lock: [d/b, lock/d/b]}`:               `1:24: lock names lock/d/b twice`,
		`{run: [a], lock: [b, lock/b]}`:                   `1:22: lock names lock/b twice`,
		`{run: [a], lock: 1}`:                             `1:18: a lock is a name, like deploy or deploy:shared, not a number`,
		`{run: [a], env: [B]}`:                            `1:17: the environment has lines NAME: value, this is a list`,
		`{run: [a], env: {"B=": c}}`:                      `1:17: Can't parse value for 'env'`,
		`{run: [a], cwd: 1}`:                              `1:17: cwd is a directory, not 1`,
		`{run: [a], timeout: 0}`:                          `1:21: Can't parse value for 'timeout'`,
		`{run: [a], timeout: soon}`:                       `1:21: timeout: "soon" is not a duration`,
		`{run: [a], retry: 6}`:                            `1:19: Can't parse value for 'retry'`,
		`{run: [a], limits: {memory: banana}}`:            `1:20: Can't parse value for 'limits': at memory want a size from 1MiB on`,
		`{run: [a], retry: {times: 2, delay: soon}}`:      `1:19: Can't parse value for 'retry': at delay want a number of seconds`,
		`{run: [a], retry: {delay: 1s}}`:                  `1:19: Can't parse value for 'retry': at times`,
		`[{OP_ID: OP_TEST_DELAY, duration: 1, retry: 2}]`: `OP_TEST_DELAY`,
		`{run: [a], priority: urgent}`:                    `1:22: a priority is low, normal, high or a number`,
		`{run: [a], argv: [b]}`:                           `1:12: unknown key "argv" of a command`,
		`{steps: [{run: [a]}], cwd: /}`:                   `1:23: "cwd" belongs to a step, not to a job of several steps`,
		`{steps: [{run: [a], name: x}]}`:                  `1:21: "name" belongs to the job, not to a step`,
		`{steps: [{OP_ID: OP_X, priority: urgent}]}`:      `1:34: a priority is low, normal, high or a number`,
		`{steps: [{rum: [a]}]}`:                           `1:10: the step has no run, and no OP_ID`,
		`[{OP_ID: OP_TEST_DELAY, duratoin: 2}]`: "1:10: OP_TEST_DELAY needs the parameter duration, a number (in the range of a double)\n" +
			`1:25: OP_TEST_DELAY has no parameter "duratoin"; did you mean "duration"?`,
		`[{OP_ID: OP_RUN_COMMAND, argv: [a], locks: [[x, big]]}]`: `1:44: Can't parse value for 'locks'`,
		"- run: [a]\n  name: 1\n- run: b\n  after: zz top\n- [{OP_ID: OP_TEST_DELAY, duration: x}]": "" +
			"2:9: the name of a job is a string, not a number\n" +
			`3:8: run is a list, like [rsync, -a, /srv/], not a string; a text needs "shell: true"` + "\n4:10: no job of this file has",
	} {
		_, err := Parse("x.yaml", "/here", []byte(text))
		require.Error(t, err, text)
		require.Contains(t, err.Error(), want, text)
		if !strings.Contains(text, "\n") {
			require.Equal(t, strings.Count(want, "\n"), strings.Count(err.Error(), "\n"), err.Error())
		}
	}
}

// Secrets are in no error.
func TestMistakesHaveNoSecrets(t *testing.T) {
	_, err := Parse("x.yaml", "/", []byte(`[{OP_ID: OP_RUN_COMMAND, argv: [a], secret_env: {A: [s3cret]}}]`))
	require.ErrorContains(t, err, "1:49: Can't parse value for 'secret_env'")
	require.NotContains(t, err.Error(), "s3cret")
	for _, wrong := range []string{"name: *s", "after: *s", "lock: *s", "lock: [*s]", "priority: *s", "timeout: *s", "cwd: [*s]", "env: *s",
		"shell: *s", "after: {job: 7, status: *s}", "env: {*s: x, *s: y}"} {
		for _, secret := range []string{`pa ss`, `p"\é `, `x:y `} {
			text, err := json.Marshal(secret)
			require.NoError(t, err)
			_, err = Parse("x.yaml", "/", []byte("- run: [a]\n  secret_env: {A: &s "+string(text)+"}\n  "+wrong+"\n"))
			require.Error(t, err, wrong)
			require.NotContains(t, err.Error(), secret, wrong)
			require.NotContains(t, err.Error(), string(text), wrong)
		}
	}
	file, err := Parse("x.yaml", "/", []byte("- run: [a]\n  secret_env: {A: &s s3cret}\n  after: *s\n"))
	require.NoError(t, err)
	err = file.Resolve(func(name string) (int64, error) { return 0, fmt.Errorf("no job has the name %q", name) })
	require.EqualError(t, err, "3:10: no earlier job of the file has the name <redacted>, and no job has the name <redacted>")
}

// One secret may be the beginning of another, and a number may be one.
func TestSecretsAreHiddenWhole(t *testing.T) {
	s := secretsIn(doctree.Node{Kind: doctree.Object, Keys: []doctree.Key{{Name: "secret_env"}}, Values: []doctree.Node{{Kind: doctree.List,
		Values: []doctree.Node{{Scalar: "abcd"}, {Scalar: "abcdefgh"}, {Scalar: json.Number("123456")}, {Scalar: true}}}}})
	err := s.redact(&doctree.Error{Text: "true is not abcdefgh, abcd or 123456"})
	require.EqualError(t, err, "true is not <redacted>, <redacted> or <redacted>")
}

// Without a command there is nothing to keep, which is right if nothing is to be kept.
func TestNoOutputIsKeptOfAJobWithoutACommand(t *testing.T) {
	file, err := Parse("x.yaml", "/", []byte(`[{OP_ID: OP_TEST_DELAY, duration: 2}]`))
	require.NoError(t, err)
	require.EqualError(t, file.KeepOutput(true, opcode.RunsCommand), "1:1: job 1 runs no command, so it has no output to keep")
	require.NoError(t, file.KeepOutput(false, opcode.RunsCommand))
}

func TestTheTemplateIsAFileOfJobs(t *testing.T) {
	file, err := Parse("x.yaml", "/", []byte(Template))
	require.NoError(t, err)
	require.Equal(t, []Beside{{Name: "dump"}, {Name: "pack"}, {}}, file.Beside())
}

// The examples of the reference are files of jobs.
func TestTheDocumentedFilesAreValid(t *testing.T) {
	reference, err := os.ReadFile("../../../../docs/reference.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(reference), "\n## Files of jobs\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var example strings.Builder
	for line := range strings.Lines(section) {
		if code, indented := strings.CutPrefix(line, "    "); indented {
			example.WriteString(code)
		}
	}
	require.Contains(t, example.String(), "jobs:")
	_, err = Parse("x.yaml", "/", []byte(example.String()))
	require.NoError(t, err)
}

// Every key in the tables has a text, and the reader knows it.
func TestTheDocumentedKeysAreThoseOfTheReader(t *testing.T) {
	for table, job := range map[*[]Field]string{ptr(JobFields()): "ops: []", ptr(CommandFields()): "run: [a]"} {
		for _, field := range *table {
			require.NotEmpty(t, field.Text, field.Name)
			_, err := Parse("x.yaml", "/", []byte("- "+job+"\n  "+field.Name+": {}\n"))
			if err != nil {
				require.NotContains(t, err.Error(), "unknown key", field.Name)
			}
		}
	}
}

func ptr(fields []Field) *[]Field { return &fields }

// The cost of a job does not grow with the length of a file.
func BenchmarkParse(b *testing.B) {
	for name, jobs := range map[string]int{"jobs=100": 100, "jobs=10000": 10_000} {
		file := []byte("jobs:\n" + strings.Repeat("- run: [true]\n  lock: a\n  timeout: 2h\n", jobs))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, err := Parse("x.yaml", "/", file)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*jobs), "µs/job")
		})
	}
}
