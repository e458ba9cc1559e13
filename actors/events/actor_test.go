package events_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/calendar"
	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/events"
	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/core/answer"
	"lockstep/core/config"
	"lockstep/core/config/configtest"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/messages"
)

// feed records its calls.
type feed struct {
	published []string
	missed    []string
	ends      []events.End
	tries     int64 // that have ended
	waits     []time.Duration
	waiting   int
}

func (f *feed) Publish(kind events.Kind, data []byte) {
	f.published = append(f.published, string(kind)+" "+string(data))
}
func (f *feed) Missed(why string)      { f.missed = append(f.missed, why) }
func (f *feed) Ended(e events.End)     { f.ends = append(f.ends, e) }
func (f *feed) TriesEnded(n int64)     { f.tries += n }
func (f *feed) Waited(d time.Duration) { f.waits = append(f.waits, d) }
func (f *feed) Waiting(owners int)     { f.waiting = owners }

// takeEvents returns the events published since the last call.
func (f *feed) takeEvents() []string {
	defer func() { f.published = nil }()
	return f.published
}

type bench struct {
	*kittest.Env
	queue, cluster *kittest.Probe
	feed           *feed
	events         *actor.PID
}

func onBench(t *testing.T, f func(*testing.T, *bench)) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{Env: e, queue: e.Probe("queue"), cluster: e.Probe("clusterconfig"), feed: &feed{}}
		b.events = e.Start("events", events.Props(events.Config{Env: e.Env, Queue: b.queue.PID, ClusterConfig: b.cluster.PID, Feed: b.feed}))
		f(t, b)
	})
}

func (b *bench) send(m any) {
	b.Send(b.events, m)
	b.Settle()
}

func TestItAsksForNewsWheneverSomebodyHasStarted(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		kittest.Expect[*messages.SubscribeAllJobs](b.queue)
		kittest.Expect[*messages.PublishConfig](b.cluster)
		b.send(&messages.QueueStarted{Incarnation: 2})
		kittest.Expect[*messages.SubscribeAllJobs](b.queue)
		b.Restart(b.events)
		kittest.Expect[*messages.SubscribeAllJobs](b.queue)
		require.Equal(t, []string{"the daemon has started to listen", "the queue has started anew", "the daemon has started to listen"}, b.feed.missed)
	})
}

func TestJobs(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.send(&messages.JobStatesChanged{Jobs: []*messages.JobInfo{
			{Id: 1, Status: int32(job.Queued), Wait: messages.StartWait_FOR_JOBS, Summary: []string{"TEST_DELAY(1.0)"}, ReceivedUs: 1_000_002},
			{Id: 2, Status: int32(job.Success), Priority: -10, Summary: make([]string, 20), ReceivedUs: 1_000_000, StartUs: 3_000_000, EndUs: 10_000_000},
			{Id: 3, Status: int32(job.Canceled), ReceivedUs: 1_000_000, EndUs: 10_000_000},
		}, Archived: []int64{7}})
		told := b.feed.takeEvents()
		require.Len(t, told, 4)
		require.Equal(t, `job {"id":1,"status":"waiting","priority":0,"summary":["TEST_DELAY(1.0)"],"opcodes":1,"received_ts":[1,2],"received":"1970-01-01T00:00:01.000002Z","start_ts":null,"start":null,"end_ts":null,"end":null}`, told[0])
		require.Contains(t, told[1], `"summary":["","","","","","","",""],"opcodes":20`)
		require.Equal(t, `job {"id":7,"archived":true}`, told[3])
		require.Equal(t, []events.End{
			{Status: "success", Started: true, Waited: 2 * time.Second, Ran: 7 * time.Second}, {Status: "canceled"}}, b.feed.ends)
	})
}

func TestEndedTries(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.send(&messages.JobStatesChanged{EndedTries: 1})
		b.send(&messages.JobStatesChanged{Archived: []int64{7}})
		b.send(&messages.JobStatesChanged{EndedTries: 2})
		require.EqualValues(t, 3, b.feed.tries)
	})
}

func TestFilters(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		current := configtest.New(t)
		change := func(uuid, rule string) {
			t.Helper()
			var encoded []byte
			if rule != "" {
				encoded = []byte(rule)
			}
			current = configtest.Edit(t, current, config.ConfigChange{RuleUUID: uuid, Rule: encoded})
			b.send(&clusterconfig.ConfigPublished{Config: current})
		}
		const u = "11111111-2222-4333-8444-555555555555"
		rule := func(action string) string {
			return `{"uuid":"` + u + `","watermark":1,"priority":0,"predicates":[],"action":"` + action + `","reason_trail":[]}`
		}
		b.send(&clusterconfig.ConfigPublished{Config: current})
		b.send(&clusterconfig.ConfigPublished{Config: configtest.Edit(t, current, configtest.Slots(3))})
		require.Empty(t, b.feed.takeEvents(), "what there was is no news")
		for _, step := range []struct{ rule, change string }{{rule("PAUSE"), "added"}, {rule("ACCEPT"), "replaced"}, {rule("ACCEPT"), ""}, {"", "deleted"}} {
			change(u, step.rule)
			told := b.feed.takeEvents()
			if step.change == "" {
				require.Empty(t, told)
				continue
			}
			require.Len(t, told, 1)
			var seen struct{ UUID, Change string }
			require.NoError(t, json.Unmarshal([]byte(told[0][len("filter "):]), &seen))
			require.Equal(t, u, seen.UUID)
			require.Equal(t, step.change, seen.Change)
		}
	})
}

func TestLocks(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		owner := lock.JobOwner(12, "/livelock", 34)
		item := lock.Item{Lock: lock.Member(lock.Node, "a"), Mode: lock.Exclusive}
		tell := func(r lock.Record) {
			b.send(&locks.OwnersPublished{Records: []lock.Record{r}})
		}
		tell(lock.Record{Owner: owner, Pending: &lock.Pending{Owner: owner, Request: lock.Request{item}}})
		require.Equal(t, 1, b.feed.waiting)
		b.Advance(3 * time.Second)
		tell(lock.Record{Owner: owner, Pending: &lock.Pending{Owner: owner, Request: lock.Request{item}}})
		tell(lock.Record{Owner: owner, Locks: []lock.Item{item}})
		tell(lock.Record{Owner: owner})
		require.Equal(t, []time.Duration{3 * time.Second}, b.feed.waits)
		require.Zero(t, b.feed.waiting)
		told := b.feed.takeEvents()
		require.Len(t, told, 4)
		require.JSONEq(t, `{"owner":"12","job":12,"locks":[],"held":0,"pending":[["node/a","exclusive"]],"wanted":1}`, told[0][len("lock "):])
		require.JSONEq(t, `{"owner":"12","job":12,"locks":[["node/a","exclusive"]],"held":1,"pending":[],"wanted":0}`, told[2][len("lock "):])
		require.JSONEq(t, `{"owner":"12","job":12,"locks":[],"held":0,"pending":[],"wanted":0}`, told[3][len("lock "):])

		tell(lock.Record{Owner: owner, Pending: &lock.Pending{Owner: owner, Request: lock.Request{item}}})
		b.send(&messages.LocksStarted{Incarnation: 2})
		require.Zero(t, b.feed.waiting)
	})
}

func TestSchedules(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.feed.missed = nil
		b.send(&calendar.Happened{Events: []answer.ScheduleEvent{
			answer.ScheduleEvent{Name: "nightly", Change: answer.ScheduleFired, Jobs: []int64{12}}.DueAt(time.Unix(1, 0)),
			{Name: "poll", Change: answer.ScheduleRemoved}}})
		require.Equal(t, []string{
			`schedule {"name":"nightly","change":"fired","due_ts":[1,0],"due":"1970-01-01T00:00:01Z","jobs":[12]}`,
			`schedule {"name":"poll","change":"removed"}`}, b.feed.takeEvents())
		require.Empty(t, b.feed.missed)
		b.send(&calendar.Happened{Lost: true})
		require.Equal(t, []string{"the calendar has started anew"}, b.feed.missed)
	})
}

// A subscriber gets the kinds that it has asked for, also from the next incarnation, which says that some may be missing.
func TestSubscribers(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		p, other := b.Probe("subscriber"), b.Probe("other")
		p.Ask(b.events, &events.Subscribe{Kinds: []events.Kind{events.Locks, events.Filters}})
		other.Ask(b.events, &events.Subscribe{Kinds: []events.Kind{events.Jobs}})
		b.send(&locks.OwnersPublished{Records: []lock.Record{{Owner: lock.JobOwner(12, "/livelock", 34)}}})
		require.Contains(t, string(kittest.Expect[*events.EventPublished](p).Data), `"owner":"12"`)
		other.Quiet()
		b.send(&messages.JobStatesChanged{Archived: []int64{7}})
		require.Equal(t, `{"id":7,"archived":true}`, string(kittest.Expect[*events.EventPublished](other).Data))
		p.Quiet()
		b.Restart(b.events)
		kittest.Expect[*events.Gap](p)
		b.send(&messages.LocksStarted{Incarnation: 2})
		kittest.Expect[*events.Gap](p)
		p.Ask(b.events, &events.Subscribe{})
		b.send(&locks.OwnersPublished{Records: []lock.Record{{Owner: lock.JobOwner(12, "/livelock", 34)}}})
		p.Quiet()
	})
}
