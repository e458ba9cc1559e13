package console

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"lockstep/edge/rapi"
)

// readFresh is how long an answer serves other readers. Many browsers that show the same page then cost the queue four questions a
// second, not four each.
const readFresh = 250 * time.Millisecond

// reads makes calls without effect, and shares answers between requests that ask the same at the same time.
type reads struct {
	queue rapi.Luxi

	mu   sync.Mutex
	open map[string]*read
}

// read is one call: on its way until done is closed, then its answer.
type read struct {
	done chan struct{}
	data json.RawMessage
	err  error
	at   time.Time
}

func newReads(queue rapi.Luxi) *reads { return &reads{queue: queue, open: map[string]*read{}} }

// get makes a call, or waits for the same call of another request. An answer may be as old as maxAge.
func (c *reads) get(ctx context.Context, maxAge time.Duration, class rapi.Class, method string, args ...any) (json.RawMessage, error) {
	key, err := json.Marshal(append([]any{method}, args...))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	r := c.open[string(key)]
	if r != nil {
		select {
		case <-r.done:
			if r.err != nil || time.Since(r.at) > maxAge {
				r = nil
			}
		default:
		}
	}
	if r == nil {
		r = &read{done: make(chan struct{})}
		c.open[string(key)] = r
		c.sweep()
		go c.run(r, class, method, args) // not bound to ctx: others may wait for it
	}
	c.mu.Unlock()
	select {
	case <-r.done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *reads) run(r *read, class rapi.Class, method string, args []any) {
	ctx, cancel := context.WithTimeout(context.Background(), pageTimeout)
	defer cancel()
	r.data, r.err = c.queue.Call(ctx, class, method, args...)
	r.at = time.Now()
	close(r.done)
}

// forget drops all answers, so that the next page shows what has changed.
func (c *reads) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.open)
}

// readsKept bounds the answers that are kept.
const readsKept = 256

// sweep drops old answers. The caller holds the mutex.
func (c *reads) sweep() {
	if len(c.open) < readsKept {
		return
	}
	for key, r := range c.open {
		select {
		case <-r.done:
			delete(c.open, key)
		default:
		}
	}
}

// ask decodes the answer of a call.
func ask[T any](q *request, class rapi.Class, method string, args ...any) (T, error) {
	return askAged[T](q, readFresh, class, method, args...)
}

// askAged is ask for an answer that may be older.
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
	ctx := rapi.WithCaller(q.Context(), q.user.Who+", from="+remoteHost(q.Request))
	data, err := q.console.queue.Call(ctx, class, method, args...)
	q.console.reads.forget()
	if err != nil || result == nil {
		return err
	}
	return json.Unmarshal(data, result)
}
