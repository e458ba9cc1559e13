// Package calendar is the actor that submits the jobs of schedules at their due times (docs/over-time.md).
//
// It owns the files of schedules (package schedule), with one exception: the queue writes the file of a schedule in the commit of its
// jobs. So the jobs of a due time and the note that it is decided are durable together. It takes Change and List. A change is answered
// when the store has written the file.
//
// One write or submission of a schedule is on its way at a time. What comes meanwhile waits. After a crash the files say what has become
// of each due time. A submission whose outcome is not known is looked up in the file, when the queue has ended or forgotten it.
package calendar

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/grants"
	"lockstep/actors/kit"
	"lockstep/actors/opcodes"
	"lockstep/actors/store"
	"lockstep/core/access"
	rules "lockstep/core/calendar"
	"lockstep/core/heap"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/core/schedule"
	"lockstep/messages"
)

// Config has the neighbours and ports of the calendar.
type Config struct {
	Env       *kit.Env
	Store     *actor.PID
	Queue     *actor.PID
	Events    *actor.PID // the actor that publishes what happens to schedules; nil: there is none
	Accounts  Accounts
	Catalogue *opcode.Catalogue // until opcodes.Changed brings another one
	Policy    access.Policy     // until grants.Changed brings other grants
	Daemon    access.Submitter
	Zones     schedule.Zones
}

// Props describes the calendar, the actor that submits the jobs of schedules. The catalogue, the grants and the numbers of submissions
// survive a restart.
func Props(c Config) *actor.Props {
	kept, sent := &c, map[uint64]bool{}
	return kit.NumberedProps(c.Env, "calendar", func(incarnation uint32) actor.Actor {
		return &calendar{config: kept, sent: sent, incarnation: incarnation, store: store.NewClient(c.Store, incarnation),
			lists:   kit.NewAsker[*messages.ListJobsResult](c.Queue, incarnation),
			kills:   kit.NewAsker[*messages.OrderJobsResult](c.Queue, incarnation),
			request: uint64(incarnation) << 32, schedules: map[string]*entry{}, unread: map[string]bool{},
			jobs: map[int64]*entry{}, submitting: map[uint64]*entry{},
			finding: map[uint64]func(actor.Context, *OwnerFound){}}
	})
}

type calendar struct {
	config *Config // of all incarnations
	// sent are the submissions of all incarnations that the queue may still have. Until they have an outcome the files are not read: they do
	// not show what such a submission writes, and its due time would fire twice.
	sent        map[uint64]bool
	incarnation uint32
	store       *store.Client
	lists       kit.Asker[*messages.ListJobsResult]
	kills       kit.Asker[*messages.OrderJobsResult]
	request     uint64 // number of the last submission or question about an owner

	announced  bool // the queue has started
	reading    int  // files that are being read; the schedules are complete when it is 0
	loaded     bool // the files were read
	deferred   kit.Deferred[any]
	schedules  map[string]*entry
	unread     map[string]bool  // schedules whose files could not be read
	jobs       map[int64]*entry // open jobs
	submitting map[uint64]*entry
	finding    map[uint64]func(actor.Context, *OwnerFound)

	due   heap.Heap[*entry, wakeOrder]
	seen  time.Time // the clock at the last look
	timer uint64    // number of the last timer; an earlier one means nothing
}

// entry is a schedule. Its File is what the disk has, and its State what events have said last.
type entry struct {
	schedule.Standing
	pauseUs int64 // end of the pause, as events have said; 0: there is none
	rule    rules.Rule
	// busy: a write or a submission is on its way, and file does not change.
	busy    bool
	owed    bool // due times that are owed are tried at the next step
	why     string
	wake    time.Time // when it is looked at again, if it has a place
	place   int       // in the heap, from 1; 0: none
	waiting kit.Deferred[func(actor.Context)]
	removed bool
	// unwritten: it is a new one, which the disk does not have yet. Nothing is said of it.
	unwritten bool

	// Of the submission on its way.
	firing firing
	after  []int64        // the jobs for whose ends it waits
	fired  *schedule.File // the file with it, without the ids of its jobs
}

// wakeOrder puts the schedule that is looked at first before the others. A schedule has its place in the heap, from 1.
type wakeOrder struct{}

func (wakeOrder) Before(a, b *entry) bool {
	return a.wake.Before(b.wake) || a.wake.Equal(b.wake) && a.File.Name < b.File.Name
}

func (wakeOrder) Moved(e *entry, index int) { e.place = index + 1 }

const (
	// lookPause is the longest time between two looks at the clock, which an operator may set.
	lookPause = time.Minute
	// failurePause is the pause after a failed write, before the file is read again.
	failurePause = 5 * time.Second
	// notRunning is why due times are late of which nothing else is known.
	notRunning = "no master was running lockstepd at this time, or it was busy"
)

type (
	// looked is a timer: due times may have come.
	looked struct{ timer uint64 }
	// readAgain is a timer: the file of a schedule is to be read again.
	readAgain struct{ e *entry }
	// readUnread is a timer: the file of a schedule, which could not be read, is to be read again.
	readUnread struct {
		incarnation uint32
		name        string
	}
	// loadAgain is a timer: the schedules could not be read.
	loadAgain struct{}
)

func (c *calendar) Receive(ctx actor.Context) {
	if c.store.Handle(ctx) {
		return
	}
	c.handle(ctx, ctx.Message(), ctx.Sender())
}

func (c *calendar) handle(ctx actor.Context, message any, sender *actor.PID) {
	switch m := message.(type) {
	case *actor.Started:
		if c.incarnation > 1 && c.config.Events != nil { // what the former one did not come to say is not said
			ctx.Send(c.config.Events, &Happened{Lost: true})
		}
		c.store.Connect(ctx)
		ctx.Request(c.config.Queue, &messages.AnnounceQueue{})
	case *messages.QueueStarted:
		c.queueStarted(ctx, m)
	case *loadAgain:
		c.loadSettled(ctx)
	case *looked:
		if m.timer == c.timer {
			c.look(ctx)
		}
	case *readAgain:
		c.reread(ctx, m.e)
	case *readUnread:
		if m.incarnation == c.incarnation {
			c.loadOne(ctx, m.name, func(ctx actor.Context, e *entry) {
				if e != nil {
					c.begin(ctx, e)
				}
			})
		}
	case *opcodes.Changed:
		c.config.Catalogue = m.Catalogue
	case *grants.Changed:
		c.config.Policy.Grants = m.Grants
	case *messages.SubmitJobsResult:
		c.submitted(ctx, m)
	case *messages.CheckSubmissionResult:
		c.outcomeUnknown(ctx, m.Request)
	case *messages.ListJobsResult:
		c.lists.Answered(ctx, m.Request, m)
	case *messages.OrderJobsResult:
		c.kills.Answered(ctx, m.Request, m)
	case *messages.JobStatesChanged:
		c.jobsChanged(ctx, m)
	case *OwnerFound:
		if then := c.finding[m.Question]; then != nil {
			delete(c.finding, m.Question)
			then(ctx, m)
		}
	case *Summarize:
		ctx.Send(sender, &SummarizeResult{Request: m.Request, Summary: c.summary()})
	case *Change, *List:
		if !c.loaded {
			c.deferred.Add(message, sender)
			return
		}
		c.asked(ctx, message, sender)
	default:
		kit.Unexpected(ctx)
	}
}

// queueStarted goes on with an incarnation of the queue: it has restored the files of firings that were not recorded.
func (c *calendar) queueStarted(ctx actor.Context, m *messages.QueueStarted) {
	if len(c.schedules) > 0 {
		ctx.Request(c.config.Queue, &messages.SubscribeAllJobs{})
	}
	c.announced = true
	c.loadSettled(ctx)
	c.lists.Started(ctx, m.Incarnation)
	c.kills.Started(ctx, m.Incarnation)
	for _, number := range slices.Sorted(maps.Keys(c.sent)) {
		ctx.Request(c.config.Queue, &messages.CheckSubmission{Request: number})
	}
}

// loadSettled reads all files, unless they were read or a submission may still change one.
func (c *calendar) loadSettled(ctx actor.Context) {
	if c.announced && !c.loaded && c.reading == 0 && len(c.sent) == 0 {
		c.load(ctx)
	}
}

// load reads all files.
func (c *calendar) load(ctx actor.Context) {
	c.reading = 1
	c.store.List(ctx, "schedules", paths.ScheduleDir, func(ctx actor.Context, m *messages.ListDirResult) {
		if m.Failure != nil {
			c.reading = 0
			c.config.Env.Log().WithField("err", m.Failure.Text).Error("schedules cannot be listed; listing them again")
			kit.SendAfter(c.config.Env.Clock(), ctx.ActorSystem(), failurePause, ctx.Self(), &loadAgain{})
			return
		}
		for _, base := range m.Names {
			if name, is := paths.ParseSchedulePath(paths.ScheduleDir + "/" + base); is {
				c.reading++
				c.loadOne(ctx, name, func(ctx actor.Context, _ *entry) { c.read(ctx) })
			}
		}
		c.read(ctx)
	})
}

// loadOne reads a file. One that cannot be read is read again after a pause, and meanwhile its schedule does nothing.
func (c *calendar) loadOne(ctx actor.Context, name string, then func(actor.Context, *entry)) {
	file := paths.SchedulePath(name)
	c.store.Read(ctx, "schedules", file, func(ctx actor.Context, m *messages.ReadFileResult) {
		f, err := schedule.Decode(m.Content)
		var e *entry
		delete(c.unread, name)
		switch {
		case m.Missing:
		case m.Failure != nil:
			c.config.Env.Log().WithFields(logrus.Fields{"schedule": name, "err": m.Failure.Text}).
				Error("a schedule cannot be read; reading it again")
			c.unread[name] = true
			kit.SendAfter(c.config.Env.Clock(), ctx.ActorSystem(), failurePause, ctx.Self(), &readUnread{c.incarnation, name})
		case err != nil:
			c.config.Env.Log().WithFields(logrus.Fields{"schedule": name, "err": err}).
				Error("the file of a schedule cannot be used, and is quarantined")
			c.store.Quarantine(ctx, file, func(actor.Context, *messages.QuarantineFileResult) {})
		default:
			e = &entry{owed: true}
			c.take(e, f)
			e.State, e.pauseUs = c.standing(e) // that is no news
		}
		then(ctx, e)
	})
}

// begin lets a schedule work whose file was read.
func (c *calendar) begin(ctx actor.Context, e *entry) {
	c.askOpen(ctx, e, func(ctx actor.Context) { c.step(ctx, e) })
}

// read notes that a file was read. After the last one the schedules begin to work.
func (c *calendar) read(ctx actor.Context) {
	if c.reading--; c.reading > 0 {
		return
	}
	c.loaded = true
	if len(c.schedules) > 0 { // before they are asked about their jobs, so that no end is missed
		ctx.Request(c.config.Queue, &messages.SubscribeAllJobs{})
	}
	for _, e := range c.byName() {
		c.begin(ctx, e)
	}
	c.deferred.HandleAll(ctx, c.handle)
	c.look(ctx)
}

// take puts a schedule in force as the disk has it.
func (c *calendar) take(e *entry, f *schedule.File) {
	if e.File != nil {
		for _, id := range e.File.Open {
			delete(c.jobs, id)
		}
	}
	if e.File == nil || e.Broken != nil || e.File.AnchorUs != f.AnchorUs || !e.File.HasTimesOf(f.Definition) {
		if e.rule, e.Broken = f.Rule(c.config.Zones); e.Broken != nil {
			c.config.Env.Log().WithFields(logrus.Fields{"schedule": f.Name, "err": e.Broken}).Error("the due times of a schedule cannot be computed")
		}
	}
	if e.Broken != nil {
		e.Next = time.Time{}
	}
	e.File, e.MissedUs = f, 0
	if missed := f.LastMissed(); missed != nil {
		e.MissedUs = missed.DueUs
	}
	c.schedules[f.Name] = e
	for _, id := range f.Open {
		c.jobs[id] = e
	}
}
