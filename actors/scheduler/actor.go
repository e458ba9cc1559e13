// Package scheduler is the actor that decides which job runs next, and explains what holds
// the others back.
//
// It owns the order of the eligible jobs, the run slots, the dependencies, and the
// permission of a job to begin its next opcode. The queue sends it pending, active and
// released jobs, the lock manager the held and wanted locks, and the configuration actor
// the settings. Connections tell it which jobs wait for which others in their processes. It answers ExplainJobs, ListDependencies,
// AwaitJobs, TakeSnapshot and BeginOp. It sends the queue
// PickJob, StartWaitChanged and EndUnrunnableJob, and the lock manager the paused
// jobs.
//
// How long opcodes have taken survives in a file, of which it is the writer. Of the rest only the catalogue and the
// numbers of answered BeginOps survive its crash. A crash of the queue drops all it knows of jobs, except these numbers: it asks
// for everything again. Connections send their waits and their open BeginOps again.
package scheduler

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/actors/opcodes"
	"lockstep/actors/store"
	"lockstep/core/config"
	"lockstep/core/config/model"
	"lockstep/core/deadlock"
	"lockstep/core/dependency"
	"lockstep/core/heap"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/opcode"
	"lockstep/core/sched"
	"lockstep/messages"
)

// Config has the neighbours and settings of the scheduler.
type Config struct {
	Env           *kit.Env
	Store         *actor.PID
	Queue         *actor.PID
	Locks         *actor.PID
	ClusterConfig *actor.PID
	Catalogue     *opcode.Catalogue
	// GanetiJobs is true in Ganeti mode: Ganeti's job process runs the jobs with Ganeti's opcodes. It does not ask before it
	// begins an opcode, but waits for locks then.
	GanetiJobs bool
	// StartUnblocked is that of sched.Settings.
	StartUnblocked bool
	// Decided is called with the duration of each search for jobs to start. It may be nil.
	Decided func(took time.Duration)
	// SliceWork is the work between two messages, in steps of about 20 ns; 0: 250,000.
	SliceWork int
}

// Props describes the scheduler, the actor that decides which job runs next. The catalogue and the numbers of answered BeginOps survive a
// restart.
func Props(c Config) *actor.Props {
	catalogue, answered := c.Catalogue, answeredBegins{}
	return kit.NumberedProps(c.Env, "scheduler", func(incarnation uint32) actor.Actor {
		c.Catalogue = catalogue
		return &scheduler{
			config:          c,
			learned:         learned{store: store.NewClient(c.Store, incarnation)},
			catalogue:       &catalogue,
			answered:        answered,
			request:         uint64(incarnation) << 32,
			lastReached:     uint64(incarnation) << 32,
			settings:        sched.Defaults(),
			paused:          map[job.ID]uint64{},
			lastPause:       uint64(incarnation) << 32,
			unknownOutcomes: map[job.ID]bool{},
			published:       deadlock.NewLocks(),
			awaited:         newClientWaits(),
		}
	})
}

type scheduler struct {
	config      Config
	lastReached uint64             // number of the last ReachOp; the upper 32 bits are the incarnation
	request     uint64             // number of the last ListUnfinishedJobs; the upper 32 bits are the incarnation
	catalogue   **opcode.Catalogue // kept for the next incarnation
	answered    answeredBegins     // kept for the next incarnation

	configured  bool
	cluster     *model.Object[model.Cluster] // the origin of settings
	ownSettings []byte                       // lockstep's, as well
	settings    sched.Settings
	resources   *config.Resources
	learned     learned

	state      *sched.State // nil until the queue has sent the unfinished jobs
	graph      dependency.Graph
	jobs       map[job.ID]*scheduledJob
	deferred   kit.Deferred[*messages.BeginOp] // requests from before that
	wakeAt     time.Time                       // of the timer; zero: there is none
	unpassable []int64                         // what the lock manager was told of ForbidBypass
	// unknownOutcomes are the jobs whose outcome this node does not know. They are shown to
	// people.
	unknownOutcomes map[job.ID]bool
	published       *deadlock.Locks // of the owners that the lock manager knows
	awaited         clientWaits

	continuing bool // continuePick is on its way
	notDue     heap.Heap[*scheduledJob, dueOrder]
	backlog    backlog

	paused    map[job.ID]uint64 // as last sent to the lock manager, with SetLockPause.withhold
	lastPause uint64            // the last of these numbers; the upper 32 bits are the incarnation
}

// wake is a timer: a job may be due, or past reserve_after.
type wake struct{ at time.Time }

// continuePick: the last search for jobs to start has not examined all that may start.
type continuePick struct{}

func (s *scheduler) Receive(ctx actor.Context) {
	if s.learned.store.Handle(ctx) {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.readDurations(ctx)
		ctx.Request(s.config.ClusterConfig, &messages.PublishConfig{})
		s.requestJobs(ctx) // an answer to a former incarnation is stale from now on
	case *messages.QueueStarted:
		s.requestJobs(ctx)
	case *clusterconfig.ConfigPublished:
		s.configChanged(ctx, m)
	case *messages.ListUnfinishedJobsResult:
		s.loadJobs(ctx, m)
	case *messages.EnqueueJobs:
		s.enqueue(ctx, m)
	case *messages.JobReleased:
		s.jobReleased(ctx, m)
	case *messages.GetJobOutcomeResult:
		s.jobOutcome(ctx, m)
	case *messages.VerdictsChanged:
		s.verdictsChanged(ctx, m)
	case *continueBacklog:
		s.backlog.scheduled = false
		s.workOff(ctx)
	case *messages.ReachOpResult:
		s.opReached(ctx, m)
	case *messages.HoldChanged:
		s.holdChanged(ctx, m)
	case *messages.PriorityChanged:
		s.priorityChanged(ctx, m)
	case *messages.BeginOp:
		s.beginOp(ctx, m, ctx.Sender())
	case *messages.GetBeginWait:
		s.getBeginWait(ctx, m)
	case *locks.OwnersPublished:
		s.locksPublished(ctx, m)
	case *opcodes.Changed:
		s.opcodesChanged(m)
	case *writeDurations:
		s.learned.timed = false
		s.writeLearned(ctx)
	case *messages.Drain:
		s.drain(ctx)
	case *continuePick:
		s.continuing = false
	case *wake:
		if m.at.Equal(s.wakeAt) {
			s.wakeAt = time.Time{}
		}
	case *messages.ExplainJobs:
		s.explainJobs(ctx, m)
	case *messages.GetRunSlots:
		ctx.Respond(&messages.GetRunSlotsResult{Request: m.Request, Taken: s.slotsTaken()})
	case *messages.ListDependencies:
		s.dependencies(ctx, m)
	case *TakeSnapshot:
		s.takeSnapshot(ctx, m)
	case *messages.AwaitJobs:
		s.awaitJobs(ctx, m, ctx.Sender())
	case *actor.Terminated:
		s.awaited.end(m.Who.Id)
	default:
		kit.Unexpected(ctx)
	}
	s.pick(ctx)
}

// requestJobs drops everything known of jobs and asks for all unfinished ones, once the
// settings are known. Open BeginOps stay open.
func (s *scheduler) requestJobs(ctx actor.Context) {
	for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
		if j := s.jobs[id]; j.openBegin != nil {
			s.deferred.Add(j.openBegin, j.requester)
		}
	}
	s.state, s.graph, s.jobs = nil, dependency.Graph{}, nil
	s.notDue = heap.Heap[*scheduledJob, dueOrder]{}
	s.dropBacklog(ctx)
	clear(s.unknownOutcomes)
	s.request++ // this also makes answers to a former incarnation stale
	if !s.configured || s.learned.table == nil {
		return
	}
	ctx.Request(s.config.Queue, &messages.ListUnfinishedJobs{Request: s.request})
}

// configChanged takes the settings and the resources. Settings that are not valid are logged and not taken. The demand of known jobs is
// not computed again. For another order all jobs are requested from the queue.
func (s *scheduler) configChanged(ctx actor.Context, m *clusterconfig.ConfigPublished) {
	s.resources = config.ResourcesOf(m.Config)
	if s.configured && m.Config.Cluster == s.cluster && bytes.Equal(m.Settings, s.ownSettings) {
		return
	}
	settings, err := config.DecodeSettings(m.Settings)
	slots := int(m.Config.Cluster.Value.MaxRunningJobs)
	if err == nil && slots < 1 {
		err = fmt.Errorf("max_running_jobs is %d, must be at least 1", slots)
	}
	if err != nil {
		s.config.Env.Log().WithFields(logrus.Fields{"err": err}).Error("settings cannot be used; the scheduler keeps the former ones")
		return
	}
	first := !s.configured
	s.configured, s.cluster, s.ownSettings = true, m.Config.Cluster, m.Settings
	former := s.settings.Order
	s.settings = sched.SettingsOf(slots, settings)
	s.settings.StartUnblocked = s.config.StartUnblocked
	switch expected := s.settings.Order == sched.Expected; {
	case first, expected != (former == sched.Expected): // other orders need other data about each job
		s.requestJobs(ctx)
	case s.state != nil:
		s.state.SetSettings(s.settings)
	}
}

func (s *scheduler) loadJobs(ctx actor.Context, m *messages.ListUnfinishedJobsResult) {
	if m.Request != s.request {
		return
	}
	s.state = sched.NewState(s.settings)
	s.graph, s.jobs = dependency.Graph{}, make(map[job.ID]*scheduledJob, len(m.Pending)+len(m.Active))
	// Running jobs first: they take their slots before a pending job is considered.
	for _, w := range m.Active {
		if j := s.add(w); j != nil {
			j.running, j.adopted = true, true
			j.beganUs = j.decoded.Ops[j.op].Exec.Sec*1e6 + j.decoded.Ops[j.op].Exec.Usec
			c := j.candidate(s)
			c.BeganUs = j.beganUs
			s.state.AddRunning(c)
			s.declare(j)
			j.decoded = nil
		}
	}
	var pending []*scheduledJob
	for _, w := range m.Pending {
		if j := s.add(w); j != nil {
			pending = append(pending, j)
		}
	}
	for _, j := range pending {
		s.consider(ctx, j)
		j.decoded = nil
	}
	s.answered.keepOnly(s.jobs)
	s.syncPauses(ctx)
	// Only now: records of lock owners are dropped while there is no state.
	ctx.Request(s.config.Locks, &messages.PublishLocks{})
	// Last: whether a job may begin its next opcode depends on what else runs.
	s.deferred.HandleAll(ctx, s.beginOp)
}

// enqueue takes new jobs. One that is enqueued before ListUnfinishedJobsResult comes is in that result, and is dropped here.
func (s *scheduler) enqueue(ctx actor.Context, m *messages.EnqueueJobs) {
	if s.state == nil {
		return
	}
	for _, w := range m.Jobs {
		s.backlog.add(w)
	}
	s.continueBacklog(ctx)
}

// jobReleased drops a job that has ended or has lost its process, or that the queue will
// enqueue again after a change.
func (s *scheduler) jobReleased(ctx actor.Context, m *messages.JobReleased) {
	if s.state == nil {
		return
	}
	id := job.ID(m.Id)
	delete(s.backlog.arrived, id)
	name := ""
	if j := s.jobs[id]; j != nil {
		name = j.name
		s.answerBegin(ctx, j, &messages.BeginOpResult{Failure: messages.JobLostFailure("The job is over")})
		s.dropDue(j)
		delete(s.jobs, id)
	}
	s.recordDurations(ctx, name, m.Encoded)
	delete(s.answered, id)
	s.forgetPause(ctx, id)
	s.graph.Forget(id)
	if !m.Ended {
		s.state.Release(id) // the queue enqueues it again, or ends it
		return
	}
	s.state.Remove(id)
	// The dependents are told after the job has left its slot: the jobs that become ready compete for this slot.
	s.dependenciesResolved(ctx, s.graph.Ended(id, job.Status(m.Status)))
}

// jobOutcome takes the outcome of an unknown job on which others depend: they become ready or unrunnable, or wait on.
func (s *scheduler) jobOutcome(ctx actor.Context, m *messages.GetJobOutcomeResult) {
	switch id := job.ID(m.Id); {
	case s.state == nil:
	case m.Unknown: // the jobs that depend on it wait
		s.unknownOutcomes[id] = true
	case m.Missing:
		s.dependenciesResolved(ctx, s.graph.Missing(id))
	default:
		s.dependenciesResolved(ctx, s.graph.Ended(id, job.Status(m.Status)))
	}
}

// locksPublished takes the records of lock owners. A complete list, from a lock manager that has started, replaces all former ones and is
// answered with the pauses.
func (s *scheduler) locksPublished(ctx actor.Context, m *locks.OwnersPublished) {
	if s.state == nil {
		return
	}
	if m.Complete {
		s.state.ForgetOwners()
		s.published = deadlock.NewLocks()
		s.unpassable = nil // the lock manager has started
		s.sendPauses(ctx, m.Incarnation)
	}
	for _, r := range m.Records {
		s.published.Set(r)
		var pending lock.Request
		if r.Pending != nil && !slices.ContainsFunc(m.Withheld, func(w locks.Withheld) bool { return w.Owner == r.Owner }) {
			pending = r.Pending.Request
		}
		s.state.SetOwnerLocks(r.Owner, r.Locks, pending)
	}
	for _, w := range m.Withheld {
		s.lockRequestWithheld(ctx, w.Owner.Job, w.Pause)
	}
}

// opcodesChanged takes a new catalogue, which is used for jobs that come from now on.
func (s *scheduler) opcodesChanged(m *opcodes.Changed) {
	s.config.Catalogue, *s.catalogue = m.Catalogue, m.Catalogue
}

// sleep sets the timer for the next search without a message.
func (s *scheduler) sleep(ctx actor.Context, now time.Time) {
	at := s.state.Wake()
	if s.notDue.Len() > 0 {
		due := s.notDue.First().dueAt()
		if again := now.Add(lookAgain); due.After(again) {
			due = again
		}
		if at.IsZero() || due.Before(at) {
			at = due
		}
	}
	if !at.IsZero() && (s.wakeAt.IsZero() || at.Before(s.wakeAt)) {
		s.wakeAt = at
		kit.SendAfter(s.config.Env.Clock(), ctx.ActorSystem(), at.Sub(now), ctx.Self(), &wake{at})
	}
}

// forbidBypass tells the lock manager which active jobs nothing may overtake: those past reserve_after, if there is no bound for all.
func (s *scheduler) forbidBypass(ctx actor.Context, now time.Time) {
	var ids []int64
	if s.settings.Order == sched.Expected && s.settings.LockBypass == 0 {
		for _, id := range s.state.RunningIDs() {
			if j := s.jobs[id]; j != nil && now.UnixMicro()-j.receivedUs >= s.settings.ReserveAfter.Microseconds() {
				ids = append(ids, int64(id))
			}
		}
	}
	if !slices.Equal(ids, s.unpassable) {
		s.unpassable = ids
		ctx.Send(s.config.Locks, &locks.ForbidBypass{Ids: ids})
	}
}

func (s *scheduler) pick(ctx actor.Context) {
	if s.state == nil {
		return
	}
	began := s.config.Env.Clock().Now()
	s.takeDue(ctx, began)
	picked := s.state.Pick(began)
	if s.config.Decided != nil && s.state.Len() > 0 {
		s.config.Decided(s.config.Env.Clock().Now().Sub(began))
	}
	if s.state.Unfinished() && !s.continuing {
		s.continuing = true
		ctx.Send(ctx.Self(), &continuePick{})
	}
	marked := s.state.MarkBlocked()
	s.sleep(ctx, began)
	s.forbidBypass(ctx, began)
	for _, id := range picked {
		j := s.jobs[id]
		continues := j.running
		j.running, j.expected = true, nil
		j.beganUs = began.UnixMicro()
		s.declare(j)
		if continues {
			s.mayGoOn(ctx, j)
			continue
		}
		ctx.Send(s.config.Queue, &messages.PickJob{Id: int64(id)})
	}
	for _, id := range marked {
		s.showWait(ctx, s.jobs[id])
	}
}
