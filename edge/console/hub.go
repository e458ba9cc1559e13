package console

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"lockstep/core/answer"
	"lockstep/core/wire"
	"lockstep/edge/rapi"
)

// Times of the hub.
const (
	eventsSeconds = 30                     // one wait for events
	hubPause      = 500 * time.Millisecond // before it asks again after an error
	hubLinger     = 30 * time.Second       // it listens on after the last stream has ended
	changedMax    = 500                    // ids of one change; more are "all"
)

// hub receives the changes of the queue over one connection, for all streams of this node. It listens while there are streams.
type hub struct {
	queue    *rapi.Pool
	stopping <-chan struct{}

	mu        sync.Mutex
	listeners map[*listener]bool
	running   bool
	down      string // why the queue does not answer; "": it does
}

// changes are what has changed since a stream has sent the last ones.
type changes struct {
	Jobs    []int64 `json:"jobs,omitempty"`
	All     bool    `json:"all,omitempty"` // more jobs than Jobs has, or changes may have been lost
	Locks   bool    `json:"locks,omitempty"`
	Filters bool    `json:"filters,omitempty"`
}

func (c changes) empty() bool { return len(c.Jobs) == 0 && !c.All && !c.Locks && !c.Filters }

// listener is a stream as the hub sees it. Changes that it has not taken yet become one.
type listener struct {
	wake chan struct{} // has one element if there is something to take

	mu      sync.Mutex
	pending changes
	seen    map[int64]bool // ids in pending
	down    string
	turned  bool // down has changed
}

func newHub(queue *rapi.Pool, stopping <-chan struct{}) *hub {
	return &hub{queue: queue, stopping: stopping, listeners: map[*listener]bool{}}
}

// listen adds a stream of a browser, and starts the hub's conversation with the daemon for the first one.
func (h *hub) listen() *listener {
	l := &listener{wake: make(chan struct{}, 1), seen: map[int64]bool{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners[l] = true
	if h.down != "" {
		l.setDown(h.down)
	}
	if !h.running {
		h.running = true
		go h.run()
	}
	return l
}

func (h *hub) remove(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
}

// run listens to the daemon's events for all streams, until there has been no stream for a while or the console stops. While the daemon
// does not answer, the streams hear of it.
func (h *hub) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-h.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	lastUsed := time.Now()
	conversation := h.queue.Converse()
	defer func() { conversation.Close() }()
	for ctx.Err() == nil {
		data, err := conversation.Call(ctx, "LockstepEvents", eventsSeconds, []string{answer.EventFilter, answer.EventLock})
		var found answer.JobEvents
		if err == nil {
			err = json.Unmarshal(data, &found)
		}
		if err != nil {
			h.setDown(describe(err))
			conversation.Close()
			select {
			case <-time.After(hubPause):
			case <-ctx.Done():
			}
			conversation = h.queue.Converse()
		} else {
			h.setDown("")
			h.publish(changesOf(found))
		}
		if h.used() {
			lastUsed = time.Now()
		} else if time.Since(lastUsed) > hubLinger && h.end() {
			return
		}
	}
}

func (h *hub) used() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.listeners) > 0
}

// end reports whether the hub may end: no stream has come since it found none.
func (h *hub) end() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = len(h.listeners) > 0
	return !h.running
}

// describe is an error of the conversation with the daemon for people.
func describe(err error) string {
	var failed *wire.Error
	if errors.As(err, &failed) {
		return failed.Error()
	}
	return "The queue does not answer."
}

// changesOf are the changes that the events of one answer tell. After missed events everything may have changed.
func changesOf(e answer.JobEvents) changes {
	c := changes{All: e.Missed, Locks: e.Missed, Filters: e.Missed}
	for _, j := range e.Jobs {
		c.Jobs = append(c.Jobs, j.ID)
	}
	c.Jobs = append(c.Jobs, e.Archived...)
	for _, other := range e.Others {
		c.Locks = c.Locks || other.Kind == answer.EventLock
		c.Filters = c.Filters || other.Kind == answer.EventFilter
	}
	return c
}

func (h *hub) publish(c changes) {
	if c.empty() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		l.add(c)
	}
}

func (h *hub) setDown(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down == reason {
		return
	}
	h.down = reason
	for l := range h.listeners {
		l.setDown(reason)
		if reason == "" {
			l.add(changes{All: true, Locks: true, Filters: true})
		}
	}
}

func (l *listener) add(c changes) {
	l.mu.Lock()
	p := &l.pending
	p.All, p.Locks, p.Filters = p.All || c.All, p.Locks || c.Locks, p.Filters || c.Filters
	for _, id := range c.Jobs {
		if !l.seen[id] && len(p.Jobs) < changedMax {
			l.seen[id] = true
			p.Jobs = append(p.Jobs, id)
		} else if !l.seen[id] {
			p.All = true
		}
	}
	l.mu.Unlock()
	l.signal()
}

func (l *listener) setDown(reason string) {
	l.mu.Lock()
	l.down, l.turned = reason, true
	l.mu.Unlock()
	l.signal()
}

func (l *listener) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take returns what has changed since the last call. down says why the queue does not answer, "" if it does; turned: this has changed.
func (l *listener) take() (c changes, down string, turned bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, down, turned = l.pending, l.down, l.turned
	l.pending, l.turned = changes{}, false
	clear(l.seen)
	return c, down, turned
}
