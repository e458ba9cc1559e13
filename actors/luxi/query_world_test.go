package luxi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/inquirer"
	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/actors/luxi"
	"lockstep/core/answer"
	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/messages"
)

// world has all items of queries. The gateway's neighbours answer from it.
type world struct {
	jobs         map[int64]*job.Job // live
	forgotten    bool               // the queue keeps no file's content
	drained      bool
	files        map[string]string
	failure      *messages.Failure // of the store, for every request
	reads        []string
	writes       []string
	config       *model.Config
	rules        []string
	locks        string
	dependencies string
	inquiries    []*inquirer.Ask
	silent       bool // no inquiry has an answer
	readers      []*messages.ReaderWait
	readersAsked int
}

func newWorld(t *testing.T) *world {
	content, err := os.ReadFile("../../core/config/testdata/config.data.json")
	require.NoError(t, err)
	return &world{jobs: map[int64]*job.Job{}, files: map[string]string{}, config: configtest.Decode(t, content), locks: `[]`, dependencies: `[]`}
}

// add adds a live job.
func (w *world) add(j *job.Job) {
	w.jobs[int64(j.ID)] = j
	w.files[paths.JobPath(int64(j.ID))] = string(job.Encode(j))
}

// archive adds a job to the archive.
func (w *world) archive(j *job.Job) {
	w.files[paths.ArchivePath(int64(j.ID))] = string(job.Encode(j))
}

// inWorld runs a test with a gateway whose neighbours answer at once.
func inWorld(t *testing.T, f func(*testing.T, *world, *client)) {
	t.Helper()
	inWorldWith(t, false, f)
}

// inWorldWith is inWorld, if asksNodes with node daemons.
func inWorldWith(t *testing.T, asksNodes bool, f func(*testing.T, *world, *client)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		w := newWorld(t)
		b := &bench{T: t, Env: e, queue: e.Probe("queue"), jobs: e.Probe("jobs"), store: e.Probe("store")}
		answering := func(name string, answer func(any) any) *kittest.Probe {
			p := e.Probe(name)
			p.Answer(answer)
			return p
		}
		b.queue.Answer(w.queueSays)
		b.store.Answer(w.storeSays)
		b.jobs.Answer(w.jobsSay)
		var nodes *actor.PID
		if asksNodes {
			nodes = answering("inquirer", w.nodesSay).PID
		}
		b.luxi = e.Start("luxi", luxi.Props(luxi.Config{Env: e.Env, Queue: b.queue.PID, Jobs: b.jobs.PID, Store: b.store.PID,
			Inquirer:      nodes,
			Catalogue:     opcode.Builtin(),
			Locks:         answering("locks", w.locksSay).PID,
			Scheduler:     answering("scheduler", w.schedulerSays).PID,
			Filters:       answering("filters", w.filtersSay).PID,
			ClusterConfig: answering("cluster", w.clusterSays).PID,
		}))
		f(t, w, b.connect())
	})
}

func (w *world) jobsSay(m any) any {
	asks, is := m.(*messages.GetFailingWrites)
	if !is {
		return nil
	}
	w.readersAsked++
	return &messages.GetFailingWritesResult{Request: asks.Request, Readers: w.readers}
}

func (w *world) queueSays(m any) any {
	switch m := m.(type) {
	case *messages.GetQueueStatus:
		return &messages.GetQueueStatusResult{Request: m.Request, Drained: w.drained}
	case *messages.ListJobs:
		ids := m.Ids
		if m.All {
			ids = slices.Sorted(maps.Keys(w.jobs))
		}
		if m.Limit > 0 {
			ids = w.window(m)
		}
		answer := &messages.ListJobsResult{Request: m.Request}
		for _, id := range ids {
			j := w.jobs[id]
			if j == nil {
				answer.Rows = append(answer.Rows, &messages.JobRow{Id: id, Unknown: true})
				continue
			}
			row := rowOf(j)
			if w.forgotten {
				row.Info.Encoded = nil
			}
			answer.Rows = append(answer.Rows, row)
		}
		return answer
	}
	return nil
}

// window is the part of the queue that a page asks for.
func (w *world) window(m *messages.ListJobs) []int64 {
	ids := slices.Sorted(maps.Keys(w.jobs))
	if m.Newest {
		slices.Reverse(ids)
	}
	ids = slices.DeleteFunc(ids, func(id int64) bool {
		return m.Newest && m.Cursor > 0 && id >= m.Cursor || !m.Newest && id <= m.Cursor
	})
	return ids[:min(len(ids), int(m.Limit))]
}

func (w *world) storeSays(m any) any {
	r, ok := m.(*messages.AccessStore)
	if !ok {
		return &messages.StoreStarted{Incarnation: 1}
	}
	answer := &messages.AccessStoreResult{Request: r.Request}
	switch {
	case r.GetRead() != nil:
		path := r.GetRead().Path
		w.reads = append(w.reads, path)
		content, there := w.files[path]
		answer.What = &messages.AccessStoreResult_Read{Read: &messages.ReadFileResult{Content: []byte(content), Missing: !there, Failure: w.failure}}
	case r.GetList() != nil:
		answer.What = &messages.AccessStoreResult_List{List: &messages.ListDirResult{Names: w.list(r.GetList().Dir + "/")}}
	default:
		answer.What = &messages.AccessStoreResult_Files{Files: w.change(r)}
	}
	return answer
}

func (w *world) list(dir string) []string {
	names := map[string]bool{}
	for path := range w.files {
		if rest, below := strings.CutPrefix(path, dir); below {
			name, _, _ := strings.Cut(rest, "/")
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (w *world) change(r *messages.AccessStore) *messages.ChangeFilesResult {
	done := &messages.ChangeFilesResult{}
	fail := func(path string, missing bool) {
		if f := w.failure; f != nil || missing {
			done.Failures = append(done.Failures, &messages.FileFailure{Path: path, Failure: f, Missing: missing})
		}
	}
	for _, f := range r.GetWrite().GetFiles() {
		w.writes = append(w.writes, fmt.Sprintf("%s %q durable=%t", f.Path, f.Content, r.GetWrite().Durable))
		w.files[f.Path] = string(f.Content)
		fail(f.Path, false)
	}
	for _, path := range r.GetRemove().GetPaths() {
		_, there := w.files[path]
		w.writes = append(w.writes, path+" removed")
		delete(w.files, path)
		fail(path, !there)
	}
	return done
}

func (w *world) locksSay(m any) any {
	call, ok := m.(*locks.Operate)
	if !ok || call.Operation != (locks.ListRows{}) {
		return nil
	}
	var rows []answer.Lock
	if err := json.Unmarshal([]byte(w.locks), &rows); err != nil {
		panic(err)
	}
	return &locks.OperateResult{Request: call.Request, Value: rows}
}

func (w *world) schedulerSays(m any) any {
	ask, ok := m.(*messages.ListDependencies)
	if !ok {
		return nil
	}
	answer := &messages.ListDependenciesResult{Request: ask.Request}
	var jobs []struct {
		ID int64
		On []struct {
			ID       int64
			Statuses []string
		}
	}
	if err := json.Unmarshal([]byte(w.dependencies), &jobs); err != nil {
		panic(err)
	}
	for _, j := range jobs {
		waiting := &messages.JobDependencies{Id: j.ID}
		for _, on := range j.On {
			waiting.On = append(waiting.On, &messages.JobDependency{Job: on.ID, Statuses: on.Statuses})
		}
		answer.Jobs = append(answer.Jobs, waiting)
	}
	return answer
}

func (w *world) filtersSay(m any) any {
	ask, ok := m.(*messages.ListFilters)
	if !ok {
		return nil
	}
	answer := &messages.ListFiltersResult{Request: ask.Request}
	for _, rule := range w.rules {
		answer.Rules = append(answer.Rules, []byte(rule))
	}
	return answer
}

func (w *world) clusterSays(m any) any {
	ask, ok := m.(*messages.PublishConfig)
	if !ok {
		return nil
	}
	return &clusterconfig.ConfigPublished{Request: ask.Request, Config: w.config}
}

// asks calls a method and returns the result.
func (c *client) asks(method, args string) any {
	c.Helper()
	c.Call(method, args)
	answer := c.Answer()
	var a struct {
		Success bool
		Result  any
	}
	require.NoError(c, json.Unmarshal([]byte(answer), &a))
	require.True(c, a.Success, answer)
	return a.Result
}

// cells is the data of a Query's answer, as JSON.
func (c *client) cells(args string) string {
	c.Helper()
	result, ok := c.asks("Query", args).(map[string]any)
	require.True(c, ok)
	encoded, err := json.Marshal(result["data"])
	require.NoError(c, err)
	return string(encoded)
}
