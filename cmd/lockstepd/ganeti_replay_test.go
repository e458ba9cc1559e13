package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/filter"
	"lockstep/core/paths"
	"lockstep/core/wire"
)

// exchange is a line of a recording of Ganeti's daemons: a request to luxid or wconfd, and the answer.
type exchange struct {
	To      string
	From    string
	Request struct {
		Method string
		Args   []json.RawMessage
	}
	Answer *recordedAnswer
	Same   bool // the answer is that of the last exchange with the same request
}

type recordedAnswer struct {
	Success bool
	Result  json.RawMessage
}

// cannotReplay returns what the answer to a request depends on if a replay does not have it, and else "".
func (e exchange) cannotReplay() string {
	switch {
	case e.To != "luxid":
		return ""
	case slices.Contains([]string{"WaitForJobChange", "QueryJobs", "CancelJob", "ChangeJobPriority", "ArchiveJob", "AutoArchiveJobs"}, e.Request.Method),
		e.Request.Method == "Query" && (string(e.Request.Args[0]) == `"job"` || string(e.Request.Args[0]) == `"lock"`):
		return "needs job processes"
	case slices.Contains([]string{"SetWatcherPause", "QueryConfigValues"}, e.Request.Method), e.Request.Method == "Query" && e.From == "ganeti-watcher":
		return "needs node daemons"
	}
	return ""
}

// TestReplayOfGanetiDay sends the requests of an operator's day, recorded with Ganeti's own daemons, to a daemon in
// Ganeti mode, and compares the answers. A filter rule keeps the jobs from being started: the recording has the
// requests of their processes.
func TestReplayOfGanetiDay(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	exchanges := recording(t, "testdata/ganeti-day.jsonl.gz", strings.NewReplacer(
		"/var/run/ganeti/livelocks", d.path("run", "livelocks"),
		"192.0.2.1", "127.0.0.1", // no node daemon listens there, and connections are refused at once
	))
	first := slices.IndexFunc(exchanges, func(e exchange) bool { return e.Request.Method == "readConfig" })
	job := slices.IndexFunc(exchanges, func(e exchange) bool { return e.Request.Method == "SubmitJob" && e.Answer.Success })
	id, err := strconv.Atoi(string(exchanges[job].Answer.Result))
	require.NoError(t, err)
	r := newReplay(t, d, exchanges[first].Answer.Result, id-1)
	skipped := map[string]int{}
	for i, e := range exchanges {
		if why := e.cannotReplay(); why != "" {
			skipped[why]++
			continue
		}
		r.play(i, e)
	}
	t.Logf("%d exchanges, of which %d were compared; NOT RUN: %v", len(exchanges), r.compared, skipped)
	require.Greater(t, r.compared, len(exchanges)/2)
}

// recording reads a recording, in whose texts paths and addresses are replaced.
func recording(t *testing.T, name string, replacer *strings.Replacer) (all []exchange) {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	last := map[string]int{}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e exchange
		require.NoError(t, json.Unmarshal([]byte(replacer.Replace(lines.Text())), &e))
		key, err := json.Marshal(e.Request)
		require.NoError(t, err)
		if e.Same {
			e.Answer = all[last[string(key)]].Answer
		}
		last[string(key)] = len(all)
		all = append(all, e)
	}
	require.NoError(t, lines.Err())
	return all
}

// replay sends recorded requests. Values that a daemon chooses, such as times and hardware addresses, differ from the recorded
// ones. Later requests have the values that this daemon has chosen.
type replay struct {
	t         *testing.T
	daemon    *daemon
	conns     map[string]*client
	chosen    map[string]any // the value of this daemon by the recorded value, as JSON
	livelocks map[string]*os.File
	filters   json.RawMessage // the rule that no job is started
	behind    int64           // recorded serial number of the configuration, less that of this daemon
	wrote     bool            // there was a writeConfigAndUnlock since the last comparison of serial numbers
	compared  int
	faults    int
}

// newReplay starts a daemon with a configuration, which has given ids up to serial.
func newReplay(t *testing.T, d *daemon, configuration []byte, serial int) *replay {
	r := &replay{t: t, daemon: d, chosen: map[string]any{}, livelocks: map[string]*os.File{}}
	ganetiData(t, d.path("lib"))
	var config map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(configuration, &config))
	request := filter.ReplaceRequest{Priority: json.RawMessage("0"), Reason: json.RawMessage("[]"), Action: json.RawMessage(`"PAUSE"`), Predicates: json.RawMessage(`[["jobid",[">","id",0]]]`)}
	rule, err := request.Rule(0)
	require.NoError(t, err)
	rule.UUID = "4fa1b4cb-34a4-43a5-8b5e-8ed3f9f0c9a8"
	r.filters = fmt.Appendf(nil, `{%q: %s}`, rule.UUID, filter.Encode(&rule))
	config["filters"] = r.filters
	data, err := json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(d.path("lib", paths.ConfigPath), data, 0o640))
	require.NoError(t, os.WriteFile(d.path("lib", paths.SerialPath), fmt.Appendf(nil, "%d\n", serial), 0o640))
	require.NoError(t, os.MkdirAll(d.path("run", "livelocks"), 0o750))
	d.start(selfAccounts()...)
	signal.Ignore(syscall.SIGHUP) // this process is the owner of the locks, which the daemon wakes
	t.Cleanup(func() { signal.Reset(syscall.SIGHUP) })
	r.conns = map[string]*client{"luxid": d.dial(), "wconfd": d.wconfd()}
	return r
}

// owner is the identity of an owner of locks: job or name, livelock, pid.
var owner = regexp.MustCompile(`\[("[^"]*"|\d+), ?("[^"]*/livelocks/[^"]*"), ?\d+\]`)

// send sends a request with the values of this daemon. failure is the daemon's, nil if the request has succeeded.
func (r *replay) send(line int, e exchange) (answer json.RawMessage, failure *wire.Error) {
	args := make([]any, len(e.Request.Args))
	for i, raw := range e.Request.Args {
		for _, match := range owner.FindAllSubmatch(raw, -1) {
			r.live(string(match[2]))
		}
		raw = owner.ReplaceAll(raw, fmt.Appendf(nil, "[$1,$2,%d]", os.Getpid()))
		args[i] = r.substitute("", exact(r.t, raw))
	}
	if e.Request.Method == "writeConfigAndUnlock" {
		document := args[1].(map[string]any)
		document["serial_no"] = serialOf(document) - r.behind
	}
	err := r.conns[e.To].Call(context.Background(), e.Request.Method, args, &answer)
	if err != nil && !errors.As(err, &failure) {
		r.t.Fatalf("line %d, %s: %v", line+1, e.Request.Method, err)
	}
	return answer, failure
}

func (r *replay) play(line int, e exchange) {
	answer, failure := r.send(line, e)
	r.compared++
	where := fmt.Sprintf("line %d, %s of %s", line+1, e.Request.Method, e.From)
	switch {
	case (failure == nil) != e.Answer.Success:
		r.fault("%s: recorded %s, answered %s %v", where, e.Answer.Result, answer, failure)
	case failure != nil && failure.Class == "JobQueueDrainError":
		// luxid answers a GenericError, which its clients print as an unhandled one
	case failure != nil:
		var class []json.RawMessage
		require.NoError(r.t, json.Unmarshal(e.Answer.Result, &class), where)
		if string(class[0]) != strconv.Quote(failure.Class) {
			r.fault("%s: recorded %s, answered %v", where, e.Answer.Result, failure)
		}
	default:
		recorded, answered := exact(r.t, owner.ReplaceAll(e.Answer.Result, fmt.Appendf(nil, "[$1,$2,%d]", os.Getpid()))), exact(r.t, answer)
		r.compareSerials(where, recorded, answered)
		r.compare(where, e.Request.Method, recorded, answered)
	}
	r.wrote = r.wrote || e.Request.Method == "writeConfigAndUnlock"
}

// compareSerials compares the serial numbers of two configurations, and removes them. Ganeti counts a
// writeConfigAndUnlock that changes nothing, and lockstep does not.
func (r *replay) compareSerials(where string, recorded, answered any) {
	theirs, isConfig := recorded.(map[string]any)
	mine, isObject := answered.(map[string]any)
	if !isConfig || !isObject || theirs["cluster"] == nil {
		return
	}
	behind := serialOf(theirs) - serialOf(mine)
	switch {
	case behind == r.behind:
	case behind == r.behind+1 && r.wrote:
		r.behind = behind
	default:
		r.fault("%s: the serial number is %d behind the recorded one, and it was %d before", where, behind, r.behind)
		r.behind = behind
	}
	r.wrote = false
	delete(theirs, "serial_no")
	delete(mine, "serial_no")
}

func serialOf(config map[string]any) int64 {
	n, _ := config["serial_no"].(json.Number)
	serial, _ := n.Int64()
	return serial
}

// faultsMax is the number of differences that are printed.
const faultsMax = 12

func (r *replay) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(text) > 600 {
		text = text[:600] + "…"
	}
	r.t.Error(text)
	if r.faults++; r.faults == faultsMax {
		r.t.FailNow()
	}
}

// live makes a livelock whose owner lives until the test ends.
func (r *replay) live(quoted string) {
	if r.livelocks[quoted] != nil {
		return
	}
	var path string
	require.NoError(r.t, json.Unmarshal([]byte(quoted), &path))
	file, err := os.Create(path)
	require.NoError(r.t, err)
	require.NoError(r.t, syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}))
	r.livelocks[quoted] = file
	r.t.Cleanup(func() { _ = file.Close() })
}

// exact decodes JSON and keeps numbers as they are.
func exact(t *testing.T, raw []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	require.NoError(t, d.Decode(&v), "%s", raw)
	return v
}

// isTime reports whether the value of a key is a time that the daemon chooses.
func isTime(key string) bool { return key == "mtime" || key == "ctime" }

// number is a JSON number in a form that all writers share.
func number(n json.Number) string {
	f, _ := n.Float64()
	return strconv.FormatFloat(f, 'f', 6, 64)
}

// substitute replaces recorded values of the daemon's choice by those of this daemon.
func (r *replay) substitute(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			if v[k] = r.substitute(k, v[k]); k == "filters" {
				v[k] = r.filters
			}
		}
	case []any:
		for i := range v {
			v[i] = r.substitute("", v[i])
		}
	case json.Number:
		if mine, known := r.chosen[number(v)]; known && isTime(key) {
			return mine
		}
	case string:
		if mine, known := r.chosen[v]; known {
			return mine
		}
	}
	return v
}

var hardwareAddress = regexp.MustCompile(`^([0-9a-f]{2}:){5}[0-9a-f]{2}$`)

// compare reports differences, and learns the values that this daemon has chosen.
func (r *replay) compare(where, key string, recorded, answered any) {
	switch recorded := recorded.(type) {
	case map[string]any:
		object, isObject := answered.(map[string]any)
		if !isObject {
			r.fault("%s: %s: recorded %v, answered %v", where, key, recorded, answered)
			return
		}
		keys := slices.Collect(maps.Keys(recorded))
		for k := range object {
			if _, exists := recorded[k]; !exists {
				keys = append(keys, k)
			}
		}
		for _, k := range slices.Sorted(slices.Values(keys)) {
			if k == "filters" || k == "doc" {
				continue // the rule of the replay; descriptions of fields, which lockstep has in its own words
			}
			r.compare(where, k, recorded[k], object[k])
		}
	case []any:
		list, isList := answered.([]any)
		if !isList || len(list) != len(recorded) {
			r.fault("%s: %s: recorded %v, answered %v", where, key, recorded, answered)
			return
		}
		for i := range recorded {
			element := ""
			if strings.HasPrefix(key, "update") && i == 1 {
				element = "mtime" // updateNode and the like answer serial number and time
			}
			r.compare(where, element, recorded[i], list[i])
		}
	case json.Number:
		mine, isNumber := answered.(json.Number)
		switch {
		case isNumber && isTime(key):
			r.chosen[number(recorded)] = mine
		case !isNumber || number(recorded) != number(mine):
			r.fault("%s: %s: recorded %v, answered %v", where, key, recorded, answered)
		}
	case string:
		mine, isString := answered.(string)
		switch {
		case isString && hardwareAddress.MatchString(recorded) && hardwareAddress.MatchString(mine) && recorded != mine && r.chosen[recorded] == nil:
			r.chosen[recorded] = mine
		case isString && r.chosen[recorded] == answered:
		case recorded != answered:
			r.fault("%s: %s: recorded %q, answered %v", where, key, recorded, answered)
		}
	default:
		if recorded != answered {
			r.fault("%s: %s: recorded %v, answered %v", where, key, recorded, answered)
		}
	}
}

// TestReplayOfTranscripts sends the whole requests of transcripts of a cluster of three nodes, in their order, to a daemon in
// Ganeti mode. The configurations between them are not in the transcripts: an answer may be an error about an object
// that is absent, and no other error.
func TestReplayOfTranscripts(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	configuration, err := os.ReadFile("testdata/ganeti-three-nodes.json")
	require.NoError(t, err)
	exchanges := recording(t, "testdata/ganeti-transcripts.jsonl.gz", strings.NewReplacer(
		"/var/run/ganeti/livelocks", d.path("run", "livelocks"), "198.51.100.", "127.0.0."))
	r := newReplay(t, d, bytes.ReplaceAll(configuration, []byte("198.51.100."), []byte("127.0.0.")), 1)
	outcomes := map[string]int{}
	for i, e := range exchanges {
		if e.Answer == nil { // it is cut; whether the request has succeeded is not
			e.Answer = &recordedAnswer{Success: true}
		}
		if why := e.cannotReplay(); why != "" {
			outcomes["NOT RUN: "+why]++
			continue
		}
		if e.Request.Method == "SetDrainFlag" {
			outcomes["NOT RUN: the request that removes the flag is cut"]++
			continue
		}
		_, failure := r.send(i, e)
		if e.Request.Method == "lockConfig" { // the whole configuration that the owner writes back is cut
			unlock := exchange{To: e.To}
			unlock.Request.Method, unlock.Request.Args = "unlockConfig", e.Request.Args[:1]
			_, _ = r.send(i, unlock)
		}
		switch {
		case (failure == nil) == e.Answer.Success:
			outcomes["as recorded"]++
		case failure == nil:
			outcomes["succeeds now"]++
		case slices.Contains([]string{"OpPrereqError", "ConfigurationError", "ReservationError"}, failure.Class):
			outcomes["object absent"]++
		default:
			r.fault("line %d, %s of %s: %v", i+1, e.Request.Method, e.From, failure)
		}
	}
	t.Logf("%d requests: %v", len(exchanges), outcomes)
}
