package rapi

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"lockstep/actors/events"
)

const (
	listenersMax = 200              // streams of events at a time
	heartbeat    = 15 * time.Second // a sign of life, while nothing happens
	retryMillis  = 2000             // pause before a client comes back
	batchMax     = 256              // events sent at once
)

// events is a stream of server-sent events. Who comes back with the last id that
// it has seen gets what it has missed, or, where that is not known any more, an
// event that says so.
func (s *Server) events(c *call) (any, error) {
	kinds, err := c.kinds()
	if err != nil {
		return nil, err
	}
	select {
	case s.listeners <- struct{}{}:
		defer func() { <-s.listeners }()
	default:
		return nil, &Failure{Code: http.StatusServiceUnavailable, Message: "Too many clients listen to events; try again later", RetryAfter: 30}
	}
	name := c.Request.Header.Get("Last-Event-ID")
	if name == "" {
		name = c.URL.Query().Get("last_event_id")
	}
	header := c.ResponseWriter.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // a proxy that collects is no stream
	c.WriteHeader(http.StatusOK)
	if c.Method == http.MethodHead {
		return answered{}, nil
	}
	ctx, stop := s.untilStop(c.Context())
	defer stop()
	l := &listener{feed: s.config.Feed, kinds: kinds, w: c.ResponseWriter, control: http.NewResponseController(c.ResponseWriter)}
	l.begin(name)
	for l.err == nil && ctx.Err() == nil {
		l.next(ctx)
	}
	return answered{}, nil
}

// kinds are those that the client wants; nil: all.
func (c *call) kinds() ([]events.Kind, error) {
	given := c.URL.Query().Get("kinds")
	if given == "" {
		return nil, nil
	}
	var kinds []events.Kind
	for name := range strings.SplitSeq(given, ",") {
		kind := events.Kind(strings.TrimSpace(name))
		if !slices.Contains([]events.Kind{events.Jobs, events.Filters, events.Locks}, kind) {
			return nil, fail(http.StatusBadRequest, "There are no events of kind '%s'; there are job, filter, lock", shortened(name))
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

// listener is one stream of events.
type listener struct {
	feed    *Feed
	kinds   []events.Kind
	seen    uint64 // number of the last event that it needs no more
	w       http.ResponseWriter
	control *http.ResponseController
	err     error // the client is gone
}

// begin says where the stream begins: after what the client has seen, or now.
func (l *listener) begin(name string) {
	l.seen = l.feed.last()
	number, ours := l.feed.number(name)
	switch {
	case name == "":
		l.send(fmtEvent(l.feed.name(l.seen), "open", []byte("{}")))
	case ours:
		l.seen = number // if that is too long ago, next says so
	default:
		l.send(fmtEvent(l.feed.name(l.seen), reset, quotedReason("the daemon is another one than that of the last event")))
	}
}

// next sends what there is, or waits for something to happen.
func (l *listener) next(ctx context.Context) {
	found, changed, lost := l.feed.after(l.seen, batchMax)
	switch {
	case lost:
		l.seen = l.feed.last()
		l.send(fmtEvent(l.feed.name(l.seen), reset, quotedReason("there were more events than are kept")))
	case len(found) > 0:
		var text []byte
		for _, e := range found {
			if l.kinds == nil || e.kind == reset || slices.Contains(l.kinds, e.kind) {
				text = append(text, fmtEvent(l.feed.name(e.number), e.kind, e.data)...)
			}
		}
		l.seen = found[len(found)-1].number
		if text != nil {
			l.send(text)
		}
	default:
		timer := time.NewTimer(heartbeat)
		defer timer.Stop()
		select {
		case <-changed:
		case <-timer.C:
			l.send([]byte(":\n\n"))
		case <-ctx.Done():
		}
	}
}

func (l *listener) send(text []byte) {
	if _, l.err = (paced{l.w, l.control}).Write(text); l.err == nil {
		l.err = l.control.Flush()
	}
}

// fmtEvent writes an event as browsers read it. JSON as we make it has no line
// ends; what others have made may.
func fmtEvent(id string, kind events.Kind, data []byte) []byte {
	var b bytes.Buffer
	b.WriteString("id: " + id + "\nevent: " + string(kind) + "\n")
	if kind == "open" {
		b.WriteString("retry: 2000\n")
	}
	for line := range bytes.Lines(data) {
		b.WriteString("data: ")
		b.Write(bytes.TrimRight(line, "\r\n"))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}
