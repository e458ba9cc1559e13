package supervisor_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/jobs"
	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/paths"
	"lockstep/messages"
)

// processes are the job processes of a machine. Each is a goroutine that acts as
// lockstep-job does, in the time of the test's clock.
type processes struct {
	w    *world
	work time.Duration // duration of one opcode

	mu       sync.Mutex
	counter  int
	starts   map[uint64]*process
	alive    map[string]*process // by livelock
	permits  map[int64]int       // by job: how many processes were permitted to act
	finished map[int64]string    // by job: the end that its process has written
}

type process struct {
	fleet    *processes
	id       int64
	livelock string
	confirm  chan []byte
	abandon  chan struct{}
	once     sync.Once

	// Guarded by all.mu.
	acting   bool
	gone     bool
	watchers []watcher
}

type watcher struct {
	start uint64
	to    *actor.PID
}

// handshakeTimeout is how long a process waits for its permission (queue.md 4.5).
const handshakeTimeout = 30 * time.Second

func newProcesses(w *world, work time.Duration) *processes {
	return &processes{w: w, work: work, starts: map[uint64]*process{}, alive: map[string]*process{},
		permits: map[int64]int{}, finished: map[int64]string{}}
}

func (p *processes) spawn(id int64) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counter++
	child := &process{fleet: p, id: id, confirm: make(chan []byte, 1), abandon: make(chan struct{}),
		livelock: fmt.Sprintf("/run/livelocks/%s_%d", paths.JobLivelockNameStart(id), p.counter)}
	p.alive[child.livelock] = child
	return child
}

func (p *processes) Start(start uint64, started jobs.Job, to *actor.PID) {
	child := p.spawn(started.ID)
	p.mu.Lock()
	if p.starts[start] != nil {
		p.w.violation("start %d was used twice", start)
	}
	p.starts[start] = child
	child.watchers = []watcher{{start, to}}
	p.mu.Unlock()
	go child.run(start, to)
}

func (p *processes) Confirm(start uint64, hand []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts[start].confirm <- hand
}

func (p *processes) Abandon(start uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if child := p.starts[start]; child != nil {
		child.once.Do(func() { close(child.abandon) })
	}
}

// Tell does nothing: these tests do not check cancels.
func (p *processes) Tell(uint64, jobs.Order) {}

// Probe has nothing to do: the livelocks here end with their processes.
func (p *processes) Probe(uint64) {}

func (p *processes) Adopt(start uint64, _ jobs.Job, _ int64, livelock string, to *actor.PID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	child := p.alive[livelock]
	if child == nil || child.gone {
		p.w.tell(to, &messages.ProcessGone{Attempt: start, Text: "it has ended"})
		return
	}
	child.watchers = append(child.watchers, watcher{start, to})
}

// daemonDied records that no daemon gives permissions or receives messages.
func (p *processes) daemonDied() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts = map[uint64]*process{}
	for _, child := range p.alive {
		child.watchers = nil
		child.once.Do(func() { close(child.abandon) })
	}
}

// acts reports whether a process has permission to act on a job.
func (p *processes) acts(id int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, child := range p.alive {
		if child.id == id && child.acting && !child.gone {
			return true
		}
	}
	return false
}

func (c *process) run(start uint64, to *actor.PID) {
	w := c.fleet.w
	w.tell(to, &messages.ProcessNamed{Attempt: start, Pid: 100, Livelock: c.livelock})
	if !c.permitted() {
		w.tell(to, &messages.HandshakeFailed{Attempt: start, Text: "the start was called off"})
		c.exit("exit status 1")
		return
	}
	w.tell(to, &messages.ProcessConfirmed{Attempt: start})
	c.act()
}

// permitted waits for the permission to act.
func (c *process) permitted() bool {
	late := make(chan struct{})
	stop := c.fleet.w.clock.AfterFunc(handshakeTimeout, func() { close(late) })
	defer stop()
	select {
	case <-c.confirm:
	case <-late:
		return false
	case <-c.abandon:
		select {
		case <-c.confirm: // a permission that was given first counts
		default:
			return false
		}
	}
	c.fleet.permit(c)
	return true
}

func (p *processes) permit(c *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.acting = true
	p.permits[c.id]++
	if p.permits[c.id] > 1 {
		p.w.violation("job %d was permitted to act twice", c.id)
	}
}

// act executes the job as lockstep-job does.
func (c *process) act() {
	w, cl := c.fleet.w, &client{w: c.fleet.w}
	j, err := job.Decode([]byte(w.disk.Content(paths.JobPath(c.id))))
	if err != nil || j.Livelock != c.livelock {
		w.violation("job %d: its process does not find its name in its file: %v", c.id, err)
		c.exit("exit status 1")
		return
	}
	m, err := jobproc.New(j, nil)
	if err != nil {
		w.violation("job %d: %v", c.id, err)
		c.exit("exit status 1")
		return
	}
	c.write(cl, m, m.Start(w.now()))
	next := m.Permitted(w.now())
	for next.Action != jobproc.Exit {
		c.write(cl, m, next)
		switch next.Action {
		case jobproc.Execute:
			w.pause(c.fleet.work)
			next = m.Done(jobproc.Outcome{Result: []byte(`"done"`)}, w.now())
		case jobproc.Begin:
			c.begin(cl, next.Op)
			next = m.Permitted(w.now())
		}
	}
	c.write(cl, m, next)
	c.exit("exit status 0")
}

// begin repeats the request for permission until it is granted.
func (c *process) begin(cl *client, op int) {
	for {
		if _, err := cl.call("LockstepBeginOpcode", c.id, c.livelock, op); err == nil {
			return
		}
		c.fleet.w.pause(time.Second)
	}
}

func (c *process) write(cl *client, m *jobproc.Machine, next jobproc.Step) {
	encoded := job.Encode(m.Job())
	if next.Action == jobproc.Exit {
		c.fleet.mu.Lock()
		c.fleet.finished[c.id] = string(encoded)
		c.fleet.mu.Unlock()
	}
	if err := c.fleet.w.disk.Replace("run-job", paths.JobPath(c.id), encoded); err != nil {
		c.fleet.w.violation("job %d: %v", c.id, err)
	}
	_, _ = cl.call("LockstepReportJob", c.id, c.livelock, rawJSON(encoded)) // a hint
}

func (c *process) exit(how string) {
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	c.gone = true
	for _, watch := range c.watchers {
		c.fleet.w.tell(watch.to, &messages.ProcessGone{Attempt: watch.start, Text: how})
	}
}
