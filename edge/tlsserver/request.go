package tlsserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"lockstep/core/budget"
	"lockstep/edge/admission"
)

// Bounds of one request.
const (
	// BodyTimeout is the time in which a client must send a body.
	BodyTimeout = 10 * time.Second
	// AnswerTimeout is the time in which a client must take an answer, with a second more for each MB.
	AnswerTimeout = 60 * time.Second
	megabyte      = 1 << 20
	// requestBytes is the memory of a request and its answer beside their contents.
	requestBytes = 8 << 10
	readStep     = 64 << 10
)

// Request is one HTTP request with what it takes of its server: the place of its connection, and memory until the answer is sent. It is a
// http.ResponseWriter, whose first byte begins the sending. Begin makes it, Login and Admit follow, and End ends it, in one goroutine.
type Request struct {
	http.ResponseWriter
	conn   *conn         // nil: the connection is not one of Conns, as in tests
	origin budget.Client // before a login
	client budget.Client
	share  *admission.Share
	stream bool      // its messages have deadlines of their own
	begun  time.Time // when the answer began
	sent   int       // bytes of the answer

	mu    sync.Mutex // a wait may end in another goroutine
	phase budget.Phase
	ended bool
}

// Begin makes a request, for the client of its connection. It returns the request with a context that has the client and the memory. It
// takes no memory: that is Admit's, after the login.
func Begin(w http.ResponseWriter, r *http.Request, table *admission.Table) (*Request, *http.Request) {
	c, _ := r.Context().Value(connKey{}).(*conn)
	client := admission.Address(r.RemoteAddr)
	if c != nil {
		client = c.client
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // that of the previous answer on this connection
	q := &Request{ResponseWriter: w, conn: c, origin: client, client: client, phase: budget.Idle}
	q.share = table.Share(client, func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
	if HasBody(r) {
		_ = control.SetReadDeadline(time.Now().Add(BodyTimeout)) // also for one that is refused
	}
	ctx := context.WithValue(r.Context(), requestKey{}, q)
	ctx = admission.WithWaiter(admission.WithClient(ctx, client), q)
	return q, r.WithContext(admission.WithShare(ctx, q.share))
}

// Admit takes memory for the request, from the client for whom it counts by now. A user who has logged in is so not refused for the memory
// that others have who come from the same address. The error is admission.ErrBusy.
func (q *Request) Admit() error { return q.share.Grow(requestBytes) }

type requestKey struct{}

// RequestOf is the request of a context; nil: it was not begun.
func RequestOf(ctx context.Context) *Request {
	q, _ := ctx.Value(requestKey{}).(*Request)
	return q
}

// HasBody reports whether a client sends a body.
func HasBody(r *http.Request) bool {
	return r.ContentLength != 0 && r.Body != nil && r.Body != http.NoBody
}

// Login makes the request and its connection count for a user who has logged in.
func (q *Request) Login(c budget.Client, r *http.Request) *http.Request {
	q.client = c
	q.share.Assign(q.client)
	if q.conn != nil {
		q.conn.slot.Assign(q.client)
	}
	return r.WithContext(admission.WithClient(r.Context(), q.client))
}

// Take asks for this many more bytes of memory, for the answer. The error is admission.ErrBusy.
func (q *Request) Take(bytes int) error { return q.share.Add(bytes) }

// Origin is the client of the connection before a login.
func (q *Request) Origin() budget.Client { return q.origin }

// Client is whom the request counts for.
func (q *Request) Client() budget.Client { return q.client }

// Work says that the request is complete and is at work now: its connection does not give way until the answer is made.
func (q *Request) Work() { q.move(budget.Working) }

// Listen says that the request only waits for something to happen: its connection may give way.
func (q *Request) Listen() { q.move(budget.Idle) }

// Wait is part of admission.Waiter. A stream, and an answer that is being sent, give way in any case.
func (q *Request) Wait() (resume func()) {
	if !q.change(budget.Working, budget.Idle) {
		return func() {}
	}
	return func() { q.change(budget.Idle, budget.Working) }
}

// Stream is Listen for an answer that is a stream, written by a StreamWriter.
func (q *Request) Stream() {
	q.stream = true
	q.Listen()
}

func (q *Request) move(to budget.Phase) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.set(to)
}

// change moves from one phase to another, and reports whether the request was in it.
func (q *Request) change(from, to budget.Phase) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.phase != from {
		return false
	}
	q.set(to)
	return true
}

// set changes the phase of the request, and with it that of its connection. After the end of the request it does nothing. The caller
// holds the mutex.
func (q *Request) set(to budget.Phase) {
	from := q.phase
	if from == to || q.ended {
		return
	}
	q.phase = to
	if q.conn == nil {
		return
	}
	q.conn.change(func() {
		for phase, by := range map[budget.Phase]int{from: -1, to: 1} {
			switch phase {
			case budget.Working:
				q.conn.working += by
			case budget.Sending:
				q.conn.sending += by
			case budget.Silent, budget.Idle:
			}
		}
	})
}

// Write is part of http.ResponseWriter. A client that does not take the answer in its time loses the connection.
func (q *Request) Write(data []byte) (int, error) {
	if !q.stream {
		q.move(budget.Sending)
		if q.begun.IsZero() {
			q.begun = time.Now()
		}
		q.sent += len(data)
		limit := q.begun.Add(AnswerTimeout + time.Duration(q.sent)*time.Second/megabyte)
		_ = http.NewResponseController(q.ResponseWriter).SetWriteDeadline(limit) // a connection of HTTP has one
	}
	return q.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (q *Request) Unwrap() http.ResponseWriter { return q.ResponseWriter }

// End gives back the memory of the request and the place of its connection.
func (q *Request) End() {
	q.mu.Lock()
	q.set(budget.Idle)
	q.ended = true
	q.mu.Unlock()
	q.share.End()
}

// Errors of ReadBody, beside those of the connection and admission.ErrBusy.
var (
	ErrBodyTooLarge = errors.New("the body is too large")
	ErrBodyTooSlow  = errors.New("the body was not sent in time")
)

// ReadBody reads a body of at most limit bytes, within BodyTimeout. It takes memory as bytes come. The time for the next request on
// the connection is not bounded by it.
func (q *Request) ReadBody(r *http.Request, limit int) ([]byte, error) {
	control := http.NewResponseController(q.ResponseWriter)
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	if !HasBody(r) {
		return nil, nil
	}
	if r.ContentLength > int64(limit) {
		return nil, ErrBodyTooLarge
	}
	_ = control.SetReadDeadline(time.Now().Add(BodyTimeout))
	q.share.Receive() // after the deadline: an interruption is not undone by it
	source := http.MaxBytesReader(q.ResponseWriter, r.Body, int64(limit))
	var data []byte
	for {
		if cap(data)-len(data) < readStep/2 {
			size := max(readStep, 2*cap(data))
			if r.ContentLength > 0 && int64(size) > r.ContentLength {
				size = max(int(r.ContentLength)+readStep/2, len(data)+readStep/2)
			}
			if err := q.share.Grow(requestBytes + size); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, size), data...)
		}
		n, err := source.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF { //nolint:errorlint // io.Reader returns the very value
			return data, q.share.Keep()
		}
		if err != nil {
			return nil, q.bodyError(err)
		}
	}
}

func (q *Request) bodyError(err error) error {
	var large *http.MaxBytesError
	var slow interface{ Timeout() bool }
	switch {
	case q.share.Keep() != nil:
		return admission.ErrBusy
	case errors.As(err, &large):
		return ErrBodyTooLarge
	case errors.As(err, &slow) && slow.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return ErrBodyTooSlow
	default:
		return err
	}
}
