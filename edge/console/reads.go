package console

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"lockstep/core/access"
	"lockstep/core/budget"
	"lockstep/edge/admission"
	"lockstep/edge/rapi"
	"lockstep/edge/tlsserver"
)

// readFresh is how long an answer serves other readers. Many browsers that show the same page then cost the queue four questions a
// second, not four each.
const readFresh = 250 * time.Millisecond

// readsKept bounds the answers that are kept, in bytes, and in time: longer than any page takes them.
const (
	readsKept = 16 << 20
	readLife  = time.Minute
)

// reads makes calls without effect, and shares answers between requests that ask the same. Requests of one client also share the call: one
// that waits for the turns of its client does not keep another client waiting.
type reads struct {
	queue rapi.Luxi

	mu   sync.Mutex
	open map[string]*read
	kept []*read // with an answer, the oldest first
	size int     // bytes of kept
}

// read is one call: on its way until done is closed, then its answer.
type read struct {
	key  string
	by   budget.Client
	done chan struct{}
	data json.RawMessage
	err  error
	at   time.Time
}

func newReads(queue rapi.Luxi) *reads { return &reads{queue: queue, open: map[string]*read{}} }

// get makes a call, or waits for the same call of another request. An answer may be as old as maxAge. The memory of the answer counts for
// the request of ctx.
func (c *reads) get(ctx context.Context, maxAge time.Duration, class rapi.Class, method string, args ...any) (json.RawMessage, error) {
	key, err := json.Marshal(append([]any{method}, args...))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	r := c.open[string(key)]
	if r != nil && !r.serves(admission.ClientOf(ctx), maxAge) {
		r = nil
	}
	if r == nil {
		r = &read{key: string(key), by: admission.ClientOf(ctx), done: make(chan struct{})}
		c.open[r.key] = r
		part, release := admission.Part(ctx)
		go c.run(context.WithoutCancel(part), release, r, class, method, args) // others may wait for it when ctx has ended
	} else {
		defer admission.WaiterOf(ctx).Wait()() // for the call of another request
	}
	c.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if r.err != nil {
		return nil, r.err
	}
	return r.data, admission.Take(ctx, len(r.data))
}

// serves reports whether a request of a client may have the answer of this call, which may be as old as maxAge. The caller holds the mutex.
func (r *read) serves(c budget.Client, maxAge time.Duration) bool {
	select {
	case <-r.done:
		return r.err == nil && time.Since(r.at) <= maxAge
	default:
		return r.by == c
	}
}

// run makes a call for the request that asks first. What the answer takes counts for that client until it is there, and then for each
// request that has it.
func (c *reads) run(ctx context.Context, release func(), r *read, class rapi.Class, method string, args []any) {
	defer release()
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	r.data, r.err = c.queue.Call(ctx, class, method, args...)
	r.at = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[r.key] == r { // not forgotten
		c.keep(r)
	}
	close(r.done)
}

// keep adds an answer, and drops old ones. The caller holds the mutex.
func (c *reads) keep(r *read) {
	c.kept = append(c.kept, r)
	c.size += len(r.data)
	for len(c.kept) > 0 && (c.size > readsKept || time.Since(c.kept[0].at) > readLife) {
		first := c.kept[0]
		c.kept[0], c.kept = nil, c.kept[1:]
		c.size -= len(first.data)
		if c.open[first.key] == first {
			delete(c.open, first.key)
		}
	}
}

// forget drops all answers, so that the next page shows what has changed.
func (c *reads) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.open)
	c.kept, c.size = nil, 0
}

// ask decodes the answer of a call. The answer may be as old as readFresh.
func ask[T any](q *request, class rapi.Class, method string, args ...any) (T, error) {
	return askAged[T](q, readFresh, class, method, args...)
}

// askAged is ask for an answer that may be as old as maxAge.
func askAged[T any](q *request, maxAge time.Duration, class rapi.Class, method string, args ...any) (T, error) {
	var result T
	data, err := q.console.reads.get(q.Context(), maxAge, class, method, args...)
	if err == nil {
		err = json.Unmarshal(data, &result)
	}
	return result, err
}

// do makes a call with an effect, in the name of the user.
func (q *request) do(class rapi.Class, result any, method string, args ...any) error {
	return q.doAs(q.user.From, class, result, method, args...)
}

// doAs is do for a submission, whose jobs run as the account of from.
func (q *request) doAs(from access.Identity, class rapi.Class, result any, method string, args ...any) error {
	ctx := rapi.WithCaller(q.Context(), q.user.Who+", from="+tlsserver.RemoteHost(q.Request), from)
	data, err := q.console.queue.Call(ctx, class, method, args...)
	q.console.reads.forget()
	if err != nil || result == nil {
		return err
	}
	return json.Unmarshal(data, result)
}
