package monitor

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/lock"
	"lockstep/messages"
)

func info(id int64, s job.Status, change func(*messages.JobInfo)) *messages.JobInfo {
	i := &messages.JobInfo{Id: id, Status: int32(s), ReceivedUs: noon.Add(-time.Duration(100-id) * time.Second).UnixMicro()}
	if change != nil {
		change(i)
	}
	return i
}

func startedAfter(d time.Duration) func(*messages.JobInfo) {
	return func(i *messages.JobInfo) { i.StartUs = i.ReceivedUs + d.Microseconds() }
}

func TestQueueReport(t *testing.T) {
	q := NewQueue()
	require.Equal(t, `{"status":{"code":2,"message":"the queue has not started yet"},"role":"none","jobs":null}`, string(encode(q.Report(noon, Alone, QueueState{}))))
	q.Changed(noon, []*messages.JobInfo{info(1, job.Success, nil)}, 1) // before the list: the list says it
	q.Listed([]*messages.JobInfo{info(1, job.Success, nil), info(2, job.Queued, nil), info(3, job.Queued, func(i *messages.JobInfo) { i.Wait = messages.StartWait_FOR_JOBS }), info(4, job.Running, startedAfter(time.Second))})
	q.Changed(noon, []*messages.JobInfo{info(1, job.Success, nil)}, 0) // a repetition
	q.Changed(noon, []*messages.JobInfo{info(4, job.Success, startedAfter(time.Second)), info(5, job.Queued, nil)}, 0)
	q.Changed(noon, []*messages.JobInfo{info(5, job.Running, startedAfter(2*time.Second)), info(6, job.Canceled, func(i *messages.JobInfo) { i.Result = rejectedResult })}, 2)
	r := q.Report(noon, Alone, QueueState{RunSlots: 5})
	require.Equal(t, JobCounts{Queued: 1, Waiting: 1, Running: 1, Success: 1, Canceled: 1}, *r.Jobs)
	require.Equal(t, `{"status":{"code":0,"message":""},"role":"none","jobs":{"queued":1,"waiting":1,"running":1,"canceling":0,"success":1,"error":0,"canceled":1},"pending_max":3,"oldest_queued_seconds":98,"oldest_waiting_seconds":97,"started_total":1,"finished_total":2,"submit_to_start_seconds":{"p50":2,"p90":2,"p99":2},"drained":false,"rejected_by_filter_total":1,"archived_total":2}`,
		string(encode(r)))
	require.True(t, q.Unfinished(5))
	require.False(t, q.Unfinished(4))

	r = q.Report(noon.Add(11*time.Minute), Leader, QueueState{RunSlots: 5, Drained: true, Disk: DiskState{Unwritable: true, Free: 0.001, Known: true}})
	require.Equal(t, NeedsYou, r.Status.Code)
	require.Equal(t, "the directory of the queue cannot be written\nless than 1 % of the disk of the queue is free\nthe queue is drained and takes no jobs\na job has been queued for more than 5m0s while run slots are free; lockstep why tells the reason", r.Status.Message)
	require.Nil(t, r.SubmitToStart.P50, "the last start is longer ago than ten minutes")
	require.Equal(t, Fine, q.Report(noon.Add(time.Hour), Alone, QueueState{RunSlots: 2}).Status.Code, "no slot is free")
	require.Equal(t, `{"status":{"code":0,"message":""},"role":"follower","jobs":null}`, string(encode(q.Report(noon, Follower, QueueState{}))))
	q.Forget()
	require.Equal(t, Unknown, q.Report(noon, Leader, QueueState{}).Status.Code)
}

// Counts are those of the latest states, whatever the order and number of changes is.
func TestQueueCountsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := NewQueue()
		q.Listed(nil)
		jobs := map[int64]*job.Job{}
		for range rapid.IntRange(0, 60).Draw(t, "changes") {
			id := rapid.Int64Range(1, 8).Draw(t, "id")
			if jobs[id] == nil && id > 1 && jobs[id-1] == nil {
				continue // ids rise
			}
			if jobs[id] == nil {
				jobs[id] = jobtest.Queued(id, jobtest.Delay(), jobtest.Delay())
			}
			for range rapid.IntRange(0, 3).Draw(t, "steps") { // changes may be told as one
				jobtest.Step(jobs[id], func(events []job.Event) job.Event { return rapid.SampledFrom(events).Draw(t, "event") })
			}
			q.Changed(noon, []*messages.JobInfo{info(id, jobs[id].Status(), nil)}, 0)
		}
		want := map[string]int64{}
		for s := job.Queued; s <= job.Error; s++ {
			want[s.String()] = 0
		}
		for _, j := range jobs {
			want[j.Status().String()]++
		}
		require.Equal(t, want, q.Report(noon, Alone, QueueState{}).Jobs.ByStatus())
	})
}

func record(o lock.Owner, held int, wants bool) lock.Record {
	r := lock.Record{Owner: o}
	for i := range held {
		r.Locks = append(r.Locks, lock.Item{Lock: lock.Member(lock.Node, string(rune('a'+i))), Mode: lock.Mode(i%2) + lock.Shared})
	}
	if wants {
		r.Pending = &lock.Pending{Owner: o, Request: lock.Request{{Lock: lock.Member(lock.Node, "z"), Mode: lock.Exclusive}}}
	}
	return r
}

func TestLockReport(t *testing.T) {
	l := NewLocks()
	require.Equal(t, Unknown, l.Report(noon, Alone).Status.Code)
	a, b, c := lock.JobOwner(12, "/l12", 5), lock.NamedOwner("watcher", "/lw", 6), lock.JobOwner(13, "/l13", 7)
	l.Changed(noon, []lock.Record{record(a, 1, false)}, false) // before the complete list
	l.Changed(noon, []lock.Record{record(a, 2, false)}, true)
	l.Changed(noon.Add(time.Second), []lock.Record{record(b, 0, true), record(c, 0, true)}, false)
	l.Changed(noon.Add(4*time.Second), []lock.Record{record(c, 1, false)}, false)
	r := l.Report(noon.Add(6*time.Second), Leader)
	require.Equal(t, `{"status":{"code":0,"message":""},"role":"leader","held":{"exclusive":1,"shared":2},"pending":1,"longest_wait_seconds":5,"longest_held_seconds":6,"holder":12,"granted_total":1,"waiters":[["node/z","exclusive","watcher",5]],"dead_owners_total":0}`,
		string(encode(r)))
	require.Equal(t, 3.0, r.Waits.Sum)
	public := string(NewReport(collector(t, LocksName), noon, r.Data()).Public)
	require.Contains(t, public, `"holder":null,"granted_total":1,"waiters":[]`)

	require.Contains(t, l.Report(noon.Add(time.Hour), Leader).Status.Message, "waited for locks for more than 5m0s")
	l.Died(noon, []lock.Owner{a})
	l.Died(noon, []lock.Owner{a})
	require.Equal(t, Fine, l.Report(noon.Add(10*time.Second), Leader).Status.Code)
	r = l.Report(noon.Add(40*time.Second), Leader)
	require.Equal(t, NeedsYou, r.Status.Code)
	require.Equal(t, int64(1), r.DeadOwners)
	l.Changed(noon, []lock.Record{record(c, 1, false)}, true)
	r = l.Report(noon.Add(40*time.Second), Leader)
	require.Equal(t, Fine, r.Status.Code)
	require.Equal(t, HeldLocks{Shared: 1}, r.Held, "a complete list has no other owners")
	require.Zero(t, r.Pending)
	l.Forget()
	require.Equal(t, Unknown, l.Report(noon, Leader).Status.Code)
	require.Equal(t, `{"status":{"code":0,"message":""},"role":"follower"}`, string(encode(l.Report(noon, Candidate))))
}

func TestReplicationReport(t *testing.T) {
	c := NewCluster()
	require.Equal(t, `{"status":{"code":0,"message":""},"role":"none","term":0,"leader":null,"members":[],"commit_index":0,"applied_index":0,"commit_seconds":{"p50":null,"p99":null},"stock_nodes":[]}`,
		string(encode(c.Report(noon))))
	v := View{Role: Leader, Term: 3, Leader: "n1", Applied: 2000, Members: []Member{{"n1", "10.0.0.1:1", true}, {"n2", "10.0.0.2:1", true}, {"n3", "10.0.0.3:1", true}}}
	c.Changed(v)
	c.Read(3, 2010)
	require.Equal(t, Fine, c.Report(noon).Status.Code, "the others were not asked yet")
	c.Answered(noon, []MemberState{{"n1", true, 2000}, {"n2", true, 1990}, {"n3", false, 0}})
	c.Committed(noon, 5*time.Millisecond)
	r := c.Report(noon)
	require.Equal(t, `{"status":{"code":1,"message":"a node lags behind or does not answer; a majority stands"},"role":"leader","term":3,"leader":"n1","members":[["n1","10.0.0.1:1",true,2000,0,0],["n2","10.0.0.2:1",true,1990,10,0],["n3","10.0.0.3:1",false,null,null,0]],"commit_index":2010,"applied_index":2000,"commit_seconds":{"p50":0.005,"p99":0.005},"stock_nodes":[]}`,
		string(encode(r)))
	require.Equal(t, map[string]uint64{"n1": 0, "n2": 10}, r.Lags)
	public := string(NewReport(collector(t, Replication), noon, r.Data()).Public)
	for _, secret := range []string{"n1", "n2", "n3", "10.0.0"} {
		require.NotContains(t, public, secret)
	}
	require.Contains(t, public, `[null,null,true,1990,10,0]`)

	c.Answered(noon, []MemberState{{"n1", true, 2000}, {"n2", false, 0}, {"n3", false, 0}})
	require.Equal(t, NeedsYou, c.Report(noon).Status.Code)
	c.Answered(noon.Add(20*time.Second), []MemberState{{"n1", true, 2000}, {"n2", true, 10}, {"n3", true, 2000}})
	r = c.Report(noon.Add(20 * time.Second))
	require.Equal(t, Repairs, r.Status.Code)
	require.Equal(t, [6]any{"n2", "10.0.0.2:1", true, uint64(10), uint64(1990), 20.0}, r.Members[1])

	v.Role, v.Leader, v.Failure = Follower, "n2", "disk full"
	c.Changed(v)
	r = c.Report(noon)
	require.Equal(t, "the disk of this node refuses committed entries", r.Status.Message)
	require.Nil(t, r.Members[0][2], "a follower does not know of the others")
	c.Changed(View{Role: Candidate})
	require.Equal(t, NeedsYou, c.Report(noon).Status.Code)
	c.Changed(View{Role: Alone})
	c.StockNodes([]StockNode{{Name: "node1", LastSuccess: noon, Failures: 2, Behind: 1}})
	r = c.Report(noon)
	require.Equal(t, Repairs, r.Status.Code)
	require.Equal(t, [4]any{"node1", 1795348800.0, 2, 1}, r.StockNodes[0])
	require.NotContains(t, string(encode(r.Data().Public)), "node1")
}

func TestProcessReport(t *testing.T) {
	all := []Process{{Job: 5, PID: 77, RSS: 1024, CPU: 0.5, Since: 9}, {Job: 6, PID: 78}}
	r := NewProcessReport(all, func(id int64) bool { return id == 5 })
	require.Equal(t, `{"status":{"code":4,"message":"1 job processes have no job that is to run"},"count":2,"jobs":[[5,77,1024,0.5,9],[6,78,0,0,0]],"orphans":1}`, string(encode(r)))
	require.Equal(t, `{"status":{"code":4,"message":"1 job processes have no job that is to run"},"count":2,"jobs":[],"orphans":1}`, string(encode(r.Data().Public)))
	require.Contains(t, string(encode(NewProcessReport(all, nil))), `"orphans":null`)
}

func TestDaemonReport(t *testing.T) {
	d := Daemon{Version: "1.2", Started: noon, Restarts: 3}
	require.Nil(t, d.Report(noon.Add(time.Second), Usage{CPU: time.Second}).CPUPercent)
	r := d.Report(noon.Add(3*time.Second), Usage{Memory: 5, CPU: 2 * time.Second, Goroutines: 7})
	require.Equal(t, `{"status":{"code":0,"message":""},"memory":5,"size_unit":"bytes","uptime":3,"cpu_percent":50,"version":"1.2","goroutines":7,"restarts":3}`, string(encode(r)))
}

func TestConfigReport(t *testing.T) {
	c := configtest.New(t)
	r := NewConfigReport(c, "", []string{"ssconf_node_list"})
	require.True(t, r.Readable)
	require.Equal(t, c.Serial, *r.Serial)
	require.NotContains(t, string(encode(r.Data().Public)), "node_list")
	require.Contains(t, string(encode(r.Data().Public)), `"ssconf_behind_count":1`)
	require.Equal(t, `{"status":{"code":4,"message":"the configuration cannot be read"},"serial":null,"cluster_serial":null,"mtime":null,"readable":false,"ssconf_behind":[],"ssconf_behind_count":0}`,
		string(encode(NewConfigReport(nil, "torn", nil))))
	require.Equal(t, Unknown, NewConfigReport(nil, "", nil).Status.Code)
}

func TestFacts(t *testing.T) {
	c, _ := configtest.Change(configtest.Config(), 5, func(e *model.Edit) {
		configtest.Cluster(e, func(v *model.Cluster) {
			v.DataCollectors = model.Dict[model.Collector]{{Key: CPULoad, Value: model.Collector{Active: true, Interval: 30_000_000}}, {Key: DRBD, Value: model.Collector{Interval: 5}}}
			v.EnabledHypervisors = []string{"kvm", "xen-pvm"}
		})
	})
	require.True(t, SameFacts(c, c))
	require.False(t, SameFacts(c, configtest.Config()))
	var node string
	for _, n := range c.Nodes.All() {
		if f := FactsOf(c, n.Value.Name); len(f.Instances) > 0 && len(f.Minors) > 0 {
			node = n.Value.Name
		}
	}
	f := FactsOf(c, node)
	require.Equal(t, Setting{true, 30 * time.Second}, f.SettingOf(collector(t, CPULoad)))
	require.Equal(t, Setting{false, time.Second}, f.SettingOf(collector(t, DRBD)), "the least interval is a second")
	require.Equal(t, Setting{true, 5 * time.Second}, f.SettingOf(collector(t, QueueName)))
	require.True(t, f.HasXen())
	require.True(t, (*Facts)(nil).HasXen())
	require.NotEmpty(t, f.Volumes)
	require.Empty(t, FactsOf(c, "nowhere").Instances)
}

func TestFactsFromAnswers(t *testing.T) {
	a := Answers{Serial: 9,
		Minors:     recorded(t, "drbd-pairing.json"),
		Instances:  json.RawMessage(`[[{"name":"b","uuid":"u2","admin_state":"up","hypervisor":"xen-hvm","mtime":2.5},{"name":"a","uuid":"u1","admin_state":"down","hypervisor":"kvm","mtime":1}],[{"name":"c"}]]`),
		Disks:      map[string]json.RawMessage{"a": json.RawMessage(`[{"dev_type":"drbd","logical_id":["x","y",1,2,3,"s"],"children":[{"dev_type":"plain","logical_id":["xenvg","vol"],"children":[]}]}]`)},
		Collectors: json.RawMessage(`{"cpu-avg-load":{"active":true,"interval":30000000},"lv":{"active":false,"interval":60000000}}`)}
	f, err := FactsFrom(a)
	require.NoError(t, err)
	require.Equal(t, &Facts{Serial: 9, Xen: true, Settings: map[string]Setting{CPULoad: {true, 30 * time.Second}, LV: {false, time.Minute}},
		Minors: map[int64]string{0: "instance1.example.com"}, Volumes: map[string]string{"xenvg/vol": "a"},
		Instances: []Instance{{"a", "u1", "down", 1}, {"b", "u2", "up", 2.5}}}, f)
	names, err := InstanceNames(a.Instances)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "a", "c"}, names)
	for _, change := range []func(*Answers){
		func(a *Answers) { a.Minors = json.RawMessage(`{}`) },
		func(a *Answers) { a.Instances = json.RawMessage(`5`) },
		func(a *Answers) { a.Collectors = json.RawMessage(`[]`) },
		func(a *Answers) { a.Disks = map[string]json.RawMessage{"a": json.RawMessage(`{}`)} },
	} {
		bad := a
		change(&bad)
		_, err := FactsFrom(bad)
		require.Error(t, err)
	}
}

func TestPaths(t *testing.T) {
	for path, want := range map[string]Resource{
		"/": Versions, "/1": VersionRoot, "/1/": VersionRoot, "/1/list/collectors": Listing, "/1/list/collectors/x": Listing,
		"/1/report/all": AllReports, "/1/report/all/x/y": AllReports, "/1/report/default/cpu-avg-load": SingleReport, "/1/report/a/b/c": SingleReport,
		"/1/report": NoReport, "/1/report/x": NoReport, "/1/report/storage/": NoReport, "/1/report/": NoReport,
		"/1/list": NoResource, "/2": NoResource, "/01": NoResource, "//1/report/all": NoResource, "/1.0": NoResource, "": NoResource, "/x": NoResource, "/1//report/all": NoResource,
	} {
		got, _, _ := FindResource(path)
		require.Equal(t, want, got, path)
	}
	_, category, name := FindResource("/1/report/storage/drbd/more")
	require.Equal(t, "storage drbd", category+" "+name)
}

func TestSnapshot(t *testing.T) {
	s := &Snapshot{Reports: []*Report{
		NewReport(collector(t, CPULoad), noon, Data{Full: 1}),
		NewReport(collector(t, DiskStats), noon, Data{Full: 2}),
		NewReport(collector(t, LocksName), noon, Data{Full: "full", Public: "public"}),
	}}
	require.Equal(t, `[["cpu-avg-load","default",0],["diskstats","storage",0],["locks","daemon",1]]`, string(EncodeListing(s.Reports)))
	require.Equal(t, `[]`, string(EncodeListing(nil)))
	for _, login := range []bool{true, false} {
		var reports []struct{ Data any }
		require.NoError(t, json.Unmarshal(s.AppendAll(nil, login), &reports))
		require.Len(t, reports, 3)
		require.Equal(t, map[bool]string{true: "full", false: "public"}[login], reports[2].Data)
	}
	require.Nil(t, s.Report(LV))
	require.Equal(t, "[]", string((&Snapshot{}).AppendAll(nil, true)))
	require.True(t, strings.HasPrefix(string(s.AppendAll([]byte("x"), false)), "x["))
}

func TestHistogram(t *testing.T) {
	h := newHistogram([]float64{1, 2})
	for _, v := range []float64{0.5, 1, 1.5, 9} {
		h.Observe(v)
	}
	require.Equal(t, map[float64]uint64{1: 2, 2: 3}, h.Buckets())
	c := h.Clone()
	h.Observe(1)
	require.Equal(t, uint64(4), c.Count)
	require.Equal(t, 12.0, c.Sum)
	var r recent
	for i := range 5000 {
		r.add(noon, float64(i))
	}
	require.LessOrEqual(t, len(r.values), 2*recentMax)
	require.Equal(t, 4999.0, *r.quantiles(noon, 1)[0])
}
