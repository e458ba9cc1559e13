package rapi_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kit"
	"lockstep/core/access"
	answers "lockstep/core/answer"
	"lockstep/core/wire"
	"lockstep/edge/admission"
	"lockstep/edge/login"
	"lockstep/edge/rapi"
)

const uuid1 = "76e6367a-d954-4e33-91fe-c9ce6d10fbfd"

// fakeLuxi imitates the gateway: it has the jobs and rules that tests set, and records the
// calls.
type fakeLuxi struct {
	mu      sync.Mutex
	jobs    map[int64]string // status
	results map[int64][]any  // of opcodes; nil: null
	filters map[string]map[string]any
	lastID  int64
	err     error                                       // of all calls, if not nil
	wait    func(ctx context.Context) (string, error)   // of WaitForJobChange
	work    func(method string)                         // before each answer, if not nil
	asked   []string                                    // method and arguments
	from    []access.Identity                           // who has asked
	answers map[string]func(args []any) (string, error) // replace the usual answers
}

func newFakeLuxi() *fakeLuxi {
	return &fakeLuxi{jobs: map[int64]string{}, results: map[int64][]any{}, filters: map[string]map[string]any{}, answers: map[string]func([]any) (string, error){}}
}

// Call is part of rapi.Luxi.
func (l *fakeLuxi) Call(ctx context.Context, class rapi.Class, method string, args ...any) (json.RawMessage, error) {
	answer, err := l.call(ctx, class, method, args...)
	if err == nil {
		err = admission.Take(ctx, len(answer)) // as a Pool does
	}
	return answer, err
}

// CallParts is part of rapi.LargeLuxi. It cuts the result in two.
func (l *fakeLuxi) CallParts(ctx context.Context, class rapi.Class, method string, args ...any) ([][]byte, error) {
	answer, err := l.Call(ctx, class, method, args...)
	return [][]byte{answer[:len(answer)/2], answer[len(answer)/2:]}, err
}

func (l *fakeLuxi) call(ctx context.Context, _ rapi.Class, method string, args ...any) (json.RawMessage, error) {
	encoded, err := json.Marshal(append([]any{}, args...))
	if err != nil {
		return nil, err
	}
	var plain []any
	if err := json.Unmarshal(encoded, &plain); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.asked, l.from = append(l.asked, method+string(encoded)), append(l.from, rapi.CallerOf(ctx))
	wait, work, err := l.wait, l.work, l.err
	l.mu.Unlock()
	if work != nil {
		work(method)
	}
	if err != nil {
		return nil, err
	}
	if method == "WaitForJobChange" && wait != nil {
		answer, err := wait(ctx)
		return json.RawMessage(answer), err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	answer := l.answers[method]
	if answer == nil {
		answer = l.defaultAnswer(method)
	}
	text, err := answer(plain)
	return json.RawMessage(text), err
}

func failed(class string, args ...string) error {
	e := &wire.Error{Class: class}
	for _, a := range args {
		e.Args = append(e.Args, json.RawMessage(a))
	}
	return e
}

// calls returns the calls of a method since the last time.
func (l *fakeLuxi) calls(method string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, a := range l.asked {
		if args, is := strings.CutPrefix(a, method+"["); is {
			found = append(found, "["+args)
		}
	}
	l.asked = nil
	return found
}

func (l *fakeLuxi) defaultAnswer(method string) func(args []any) (string, error) {
	return map[string]func(args []any) (string, error){
		"QueryJobs":        l.queryJobs,
		"WaitForJobChange": l.waitForJobChange,
		"CancelJob":        l.cancelJob,
		"SubmitJob":        l.submitJob,
		"SubmitManyJobs":   l.submitManyJobs,
		"LockstepSubmitJobs": func(args []any) (string, error) {
			var ids []string
			for range args[0].([]any) {
				l.lastID++
				ids = append(ids, fmt.Sprint(l.lastID))
			}
			return "[" + strings.Join(ids, ",") + "]", nil
		},
		"QueryFilters":  l.queryFilters,
		"ReplaceFilter": l.replaceFilter,
		"DeleteFilter":  l.deleteFilter,
		"Query":         l.query,
		"QueryFields":   func(args []any) (string, error) { return `{"fields":` + definitions(args[1]) + `}`, nil },
		"QueryClusterInfo": func([]any) (string, error) {
			return `{"software_version":"3.0.2","name":"c","master":"n1","volume_group_name":"vg","drbd_usermode_helper":null}`, nil
		},
		"LockstepHoldJob":   func(args []any) (string, error) { return fmt.Sprintf(`[true,"%v"]`, args), nil },
		"LockstepOrderJobs": func(args []any) (string, error) { return fmt.Sprintf(`[[true,"%v"]]`, args), nil },
		"ChangeJobPriority": func([]any) (string, error) { return `[true,"Priorities have been changed"]`, nil },
		"LockstepWhy": func(args []any) (string, error) {
			return fmt.Sprintf(`{"id":%v,"status":"queued","summary":[],"archived":false,"reasons":[{"kind":"slots"}]}`, args[0]), nil
		},
		"LockstepAudit": func([]any) (string, error) {
			return `{"entries":[{"number":8,"time":"2026-01-01T00:00:01.5Z","user":"alice","key":"uid=1000","by":"uid=1000(alice), pid=7",` +
				`"method":"CancelJob","what":"kill job 12","refused":"no","left_out":2}],"last":9,"older":8,"damaged":0}`, nil
		},
		"LockstepSchedules": func(args []any) (string, error) {
			s := `{"name":"a","cron":"0 3 * * *","tz":"Europe/Berlin","anchor_ts":null,"overlap":"skip","catch_up":"last","catch_up_within":86400,"jitter":0,` +
				`"state":"paused","until_ts":[5,0],"owner":"alice","next_ts":[6,0],"running":[12],"last":{"due_ts":[1,0],"missed":"drained"},` +
				`"last_end":{"job":11,"end_ts":[2,0],"result":"exit 3"},"last_success_ts":null,"missed":1`
			if len(args) == 1 && args[0] == nil { // for metrics
				return `{"schedules":[],"zone_data":""}`, nil
			}
			if args[0] == nil {
				return `{"schedules":[` + s + `}],"zone_data":"","more":true}`, nil
			}
			if args[0] == "nosuch" {
				return "", failed("OpPrereqError", `"There is no schedule nosuch: see lockstep schedule list"`, `"unknown_entity"`)
			}
			return `{"schedules":[` + s + `,"jobs":[{"ops":[{"OP_ID":"A"}]}],"history":[{"due_ts":[1,0],"missed":"drained"}],"upcoming":[{"due_ts":[6,0]}]}],"zone_data":"2026a"}`, nil
		},
		"LockstepPutSchedule":   func([]any) (string, error) { return `{"changed":true}`, nil },
		"LockstepOrderSchedule": l.orderSchedule,
		"LockstepLocks": func([]any) (string, error) {
			return `{"locks":[{"name":"node/a","mode":"shared","owners":["12"],"pending":[]}],"waits":[],"jobs":[]}`, nil
		},
		"LockstepStatus": func([]any) (string, error) {
			return `{"jobs":{"queued":3},"run_slots":20,"last_id":7,"drained":true,"running":[{}],"quarantined":[],"queued_with_secrets":0}`, nil
		},
		"QueryInstances": l.queryObjects,
		"QueryNodes":     l.queryObjects,
		"QueryGroups":    l.queryObjects,
		"QueryNetworks":  l.queryObjects,
		"QueryTags": func(args []any) (string, error) {
			if args[1] == "nosuch" {
				return "", failed("OpPrereqError", `"Node name nosuch not found"`, `"unknown_entity"`)
			}
			return `["a","b"]`, nil
		},
		"LockstepPageJobs": l.pageJobs,
		"LockstepNextJobs": func([]any) (string, error) {
			return `{"jobs":[{"id":7,"name":"","user":"","priority":0,"summary":["A"],"received_ts":[1,2],"order":{"kind":"order","position":1},"limits":[]}],"examined":1,"more":false}`, nil
		},
		"LockstepOrder": func(args []any) (string, error) {
			order := map[string]any{"order": "expected", "estimate": true, "jobs": []any{map[string]any{"id": 7, "estimate": true, "running": false,
				"start": map[string]any{"from_ts": []int{1, 2}, "likely_ts": []int{3, 4}, "to_ts": []int{5, 6}}, "waits_for": "slot", "waits_for_jobs": []int{5}}}}
			if args[1] != nil {
				estimate := map[string]any{"id": args[1], "estimate": true, "running": false, "later_than_ts": []int{1, 2}}
				order["preview"] = map[string]any{"id": args[1], "now": estimate, "then": estimate, "changed": []any{}}
			}
			return marshal(order), nil
		},
		"LockstepTestFilter": func([]any) (string, error) { return `{"count":1,"jobs":[7],"unfinished":2,"states":{"queued":1}}`, nil },
		"LockstepListFilters": func([]any) (string, error) {
			return `[{"uuid":"u","watermark":1,"priority":0,"predicates":[["lock",["=~","name","^node/n3$"]]],"action":"PAUSE","reason_trail":[],"until":5}]`, nil
		},
		"LockstepNodes":       func([]any) (string, error) { return `{"self":"","master":"","master_address":"","nodes":[]}`, nil },
		"LockstepNodePromote": func([]any) (string, error) { return `null`, nil },
		"LockstepOpcodes":     func([]any) (string, error) { return `[{"name":"A","doc":"","defined":false,"params":[]}]`, nil },
		"LockstepSetSettings": func([]any) (string, error) { return `null`, nil },
		"SetDrainFlag":        func(args []any) (string, error) { return marshal(args[0]), nil },
		"ArchiveJob":          func(args []any) (string, error) { return marshal(IsFinalIn(l.jobs, args[0])), nil },
		"LockstepGetSettings": func([]any) (string, error) { return `{"max_running_jobs":20}`, nil },
	}[method]
}

// orderSchedule knows any schedule but nosuch.
func (l *fakeLuxi) orderSchedule(args []any) (string, error) {
	switch {
	case args[0] == "nosuch":
		return "", failed("OpPrereqError", `"There is no schedule nosuch: see lockstep schedule list"`, `"unknown_entity"`)
	case args[1] == "run":
		l.lastID++
		return fmt.Sprintf(`{"changed":true,"jobs":[%d]}`, l.lastID), nil
	}
	return `{"changed":true}`, nil
}

// IsFinalIn reports whether the job with that id has ended.
func IsFinalIn(jobs map[int64]string, id any) bool { return rapi.IsFinal(jobs[int64(id.(float64))]) }

// pageJobs answers with all jobs, the newest first; a limit makes a cursor.
func (l *fakeLuxi) pageJobs(args []any) (string, error) {
	request := args[0].(map[string]any)
	var ids []int64
	for id := range l.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	cursor := int64(0)
	if limit, given := request["limit"].(float64); given && int(limit) < len(ids) {
		ids = ids[:int(limit)]
		cursor = ids[len(ids)-1]
	}
	jobs := []any{}
	for _, id := range ids {
		row := map[string]any{"id": id, "name": "", "status": l.jobs[id], "result": "", "user": "", "priority": 0, "summary": []string{"A"},
			"received_ts": []int64{1, 2}, "start_ts": nil, "end_ts": nil, "archived": false}
		if l.jobs[id] == "running" {
			row["progress"] = answers.NewProgress(40, "copying", 100e6, 140e6)
		}
		jobs = append(jobs, row)
	}
	return marshal(map[string]any{"jobs": jobs, "cursor": cursor, "examined": len(jobs)}), nil
}

// values are the fields of a job.
func values(id int64, status string, fields []any) []any {
	op := map[string]any{"OP_ID": "OP_TEST_DELAY", "duration": 1, "reason": []any{}}
	ended := any([]int64{3, 4})
	if status == "queued" || status == "running" {
		ended = nil
	}
	all := map[string]any{"id": id, "ops": []any{op}, "status": status, "summary": []string{"TEST_DELAY(1.0)"}, "opstatus": []string{status},
		"received_ts": []int64{1, 2}, "start_ts": []int64{2, 3}, "end_ts": ended, "oplog": []any{[]any{}}, "opresult": []any{nil}}
	row := make([]any, len(fields))
	for i, f := range fields {
		if f == "id" || status != "" {
			row[i] = all[f.(string)]
		}
	}
	return row
}

// submitJob ends a job that looks for operating systems.
func (l *fakeLuxi) submitJob(args []any) (string, error) {
	l.lastID++
	if args[0].([]any)[0].(map[string]any)["OP_ID"] == "OP_OS_DIAGNOSE" {
		l.jobs[l.lastID] = "success"
		l.results[l.lastID] = []any{[]any{[]any{"noop", []any{"default", "other"}}, []any{"plain", []any{}}}}
	}
	return fmt.Sprint(l.lastID), nil
}

func (l *fakeLuxi) queryJobs(args []any) (string, error) {
	var ids []int64
	if args[0] == nil {
		for id := range l.jobs {
			ids = append(ids, id)
		}
		slices.Sort(ids)
	} else {
		for _, id := range args[0].([]any) {
			ids = append(ids, int64(id.(float64)))
		}
	}
	rows := [][]any{}
	for _, id := range ids {
		row := values(id, l.jobs[id], args[1].([]any))
		if i := slices.Index(args[1].([]any), any("opresult")); i >= 0 && l.results[id] != nil {
			row[i] = l.results[id]
		}
		rows = append(rows, row)
	}
	return marshal(rows), nil
}

func (l *fakeLuxi) waitForJobChange(args []any) (string, error) {
	status := l.jobs[int64(args[0].(float64))]
	if status == "" {
		return "", failed("JobLost", `"Can't load job file"`)
	}
	if previous, _ := args[2].([]any); len(previous) == 1 && previous[0] == "running" {
		status = "success"
	}
	return marshal([]any{[]string{status}, []any{}}), nil
}

func (l *fakeLuxi) cancelJob(args []any) (string, error) {
	id := int64(args[0].(float64))
	if l.jobs[id] == "queued" {
		l.jobs[id] = "canceled"
		return fmt.Sprintf(`[true,"Dequeued job %d"]`, id), nil
	}
	return fmt.Sprintf(`[false,"Job %d not found in queue"]`, id), nil
}

func (l *fakeLuxi) submitManyJobs(args []any) (string, error) {
	rows := []any{}
	for range args[0].([]any) {
		l.lastID++
		rows = append(rows, []any{true, l.lastID})
	}
	return marshal(rows), nil
}

func (l *fakeLuxi) queryFilters(args []any) (string, error) {
	rows := [][]any{}
	for uuid, rule := range l.filters {
		if args[0] != nil && !slices.Contains(args[0].([]any), any(uuid)) {
			continue
		}
		var row []any
		for _, f := range args[1].([]any) {
			row = append(row, rule[f.(string)])
		}
		rows = append(rows, row)
	}
	return marshal(rows), nil
}

func (l *fakeLuxi) replaceFilter(args []any) (string, error) {
	if args[3] == "NOPE" {
		return "", &wire.RequestError{Text: `Failed to parse request: Cannot convert value '[null, 1, [], "NOPE", []]', error: malformed FilterAction JSON: "NOPE"`}
	}
	if predicates := args[2].([]any); len(predicates) > 0 && predicates[0].([]any)[0] == "nosuch" {
		return "", &wire.RequestError{Text: `Failed to parse request: Cannot convert value '[null, 1, [["nosuch", 1]], "PAUSE", []]', error: malformed FilterPredicate: bad parameter list for 'nosuch' predicate: [1]`}
	}
	uuid, _ := args[0].(string)
	if uuid == "" {
		uuid = uuid1
		if l.filters[uuid] != nil {
			uuid = "19483d05-1b05-45e6-9c1e-bdac613f2c15"
		}
	}
	l.filters[uuid] = map[string]any{"uuid": uuid, "watermark": 1, "priority": args[1], "predicates": args[2], "action": args[3], "reason_trail": args[4]}
	return marshal(uuid), nil
}

func (l *fakeLuxi) deleteFilter(args []any) (string, error) {
	uuid := args[0].(string)
	if l.filters[uuid] == nil {
		return "", failed("GenericError", marshal("Filter rule with UUID "+uuid+" does not exist"))
	}
	delete(l.filters, uuid)
	return "null", nil
}

// objectValues are the values of fields of each object that have a meaning for the remote API.
var objectValues = map[string]any{"beparams": map[string]any{"maxmem": 64}, "role": "C", "sip": "192.0.2.1", "oper_state": true, "console": map[string]any{"kind": "msg"}}

// queryObjects knows the objects b and a.
func (l *fakeLuxi) queryObjects(args []any) (string, error) {
	rows := [][]any{}
	names := args[0].([]any)
	if len(names) == 0 {
		names = []any{"b", "a"}
	}
	for _, name := range names {
		if name == "nosuch" {
			continue
		}
		var row []any
		for _, field := range args[1].([]any) {
			value := objectValues[field.(string)]
			if field == "name" {
				value = name
			}
			row = append(row, value)
		}
		rows = append(rows, row)
	}
	return marshal(rows), nil
}

func (l *fakeLuxi) query(args []any) (string, error) {
	fields := args[1].([]any)
	if args[0] == "nosuch" {
		return "", &wire.RequestError{Text: `Failed to parse request: Cannot convert value '["nosuch", ["id"], null]', error: Can't parse value 'nosuch' as neitherQueryTypeLuxi nor QueryTypeOp`}
	}
	rows := [][][2]any{}
	if args[0] == "job" || args[0] == "filter" {
		var row [][2]any
		for _, f := range fields {
			switch f {
			case "id":
				row = append(row, [2]any{0, 14757})
			case "nosuch":
				row = append(row, [2]any{1, nil})
			default:
				row = append(row, [2]any{0, "success"})
			}
		}
		rows = append(rows, row)
	}
	return `{"fields":` + definitions(args[1]) + `,"data":` + marshal(rows) + `}`, nil
}

func definitions(fields any) string {
	names, _ := fields.([]any)
	if names == nil {
		names = []any{"id"}
	}
	all := []map[string]any{}
	for _, name := range names {
		all = append(all, map[string]any{"name": name, "title": name, "kind": "other", "doc": "some"})
	}
	return marshal(all)
}

func marshal(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

const usersFile = "# who may do what\npeer secret write\nro secret\nreader secret read\nhashed {HA1}" + hashedSecret + " read,write\n" +
	"member secret submit\noperator secret operate\ndeploy secret submit,as=alice\n"

// hashedSecret is the MD5 of hashed:Ganeti Remote API:secret.
const hashedSecret = "61e35f0cae55178c6b6e2067cd3e5a35"

// testServer is a server with a fakeLuxi.
type testServer struct {
	testing.TB
	luxi   *fakeLuxi
	feed   *rapi.Feed
	server *rapi.Server
	url    string
	users  string
	logs   *logrustest.Hook
	client *http.Client
	done   chan error
}

// newTestServer starts a server. change may change its configuration before.
func newTestServer(t testing.TB, change ...func(*rapi.Config)) *testServer {
	t.Helper()
	b := &testServer{TB: t, luxi: newFakeLuxi(), feed: rapi.NewFeed(time.Unix(1, 0)), done: make(chan error, 1)}
	b.users = filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(b.users, []byte(usersFile), 0o600))
	log, hook := logrustest.NewNullLogger()
	log.SetLevel(logrus.TraceLevel)
	b.logs = hook
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	config := rapi.Config{Ganeti: true, Log: log, Listener: l, Luxi: b.luxi, Feed: b.feed, Logins: login.New(b.users, log), Table: admission.NewTable(),
		Mailboxes: func() []kit.MailboxStat {
			return []kit.MailboxStat{{Actor: "daemon/queue", Kind: "queue", Queued: 3}, {Actor: "daemon/wconfd", Kind: "wconfd", Queued: 2}}
		},
		DeadLetters: func() uint64 { return 5 }}
	for _, f := range change {
		f(&config)
	}
	b.url = "http://" + l.Addr().String()
	b.client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{}}
	if config.TLS != nil {
		b.url = "https://" + l.Addr().String()
		b.client.Transport = &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	}
	b.server, err = rapi.New(config)
	require.NoError(t, err)
	go func() { b.done <- b.server.Serve() }()
	t.Cleanup(func() {
		b.client.CloseIdleConnections()
		b.stop()
	})
	return b
}

var stopped sync.Map // servers

func (b *testServer) stop() {
	if _, already := stopped.LoadOrStore(b.server, true); already {
		return
	}
	b.server.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(b, b.server.Shutdown(ctx))
	require.NoError(b, <-b.done)
}

func authenticate(c *rapi.Config) { c.RequireAuthentication = true }

// answer is an answer of the server.
type answer struct {
	code   int
	header http.Header
	body   string
}

// do makes a request as a user, "name:password", with a body, which is JSON unless a header says
// otherwise.
func (b *testServer) do(method, path, user, body string, headers ...string) answer {
	b.Helper()
	var source io.Reader
	if body != "" {
		source = strings.NewReader(body)
	}
	r, err := http.NewRequest(method, b.url+path, source)
	require.NoError(b, err)
	if name, password, ok := strings.Cut(user, ":"); ok {
		r.SetBasicAuth(name, password)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if value == "" {
			r.Header.Del(name)
			continue
		}
		r.Header.Set(name, value)
	}
	response, err := b.client.Do(r)
	require.NoError(b, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	require.NoError(b, err)
	return answer{response.StatusCode, response.Header, string(data)}
}

// failure returns the message of an error in Ganeti's form.
func (b *testServer) failure(code int, a answer) string {
	b.Helper()
	require.Equal(b, code, a.code, a.body)
	require.Equal(b, "application/json", a.header.Get("Content-Type"))
	var body struct {
		Code             int
		Message, Explain string
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(a.body)))
	decoder.DisallowUnknownFields()
	require.NoError(b, decoder.Decode(&body), a.body)
	require.Equal(b, code, body.Code)
	require.NotEmpty(b, body.Explain)
	return body.Message
}

func (b *testServer) requireCode(want string, a answer) {
	b.Helper()
	require.Equal(b, http.StatusOK, a.code, a.body)
	require.JSONEq(b, want, a.body)
	require.True(b, strings.HasSuffix(a.body, "\n"))
}
