package rapi

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"lockstep/actors/events"
	"lockstep/core/answer"
	"lockstep/core/budget"
	"lockstep/edge/admission"
	"lockstep/edge/tlsserver"
)

const (
	eventStreamsMax   = 200              // open streams at a time
	logStreamsMax     = 200              // open streams of logs at a time
	heartbeatInterval = 15 * time.Second // between two looks at the user, and for a comment while there is no event
	retryMillis       = 2000             // pause before a client reconnects
	batchMax          = 256              // events sent at once
)

// events sends a stream of server-sent events. A client that reconnects with the id of its last
// event gets the events since then, or a "reset" event if these are no longer retained.
func (s *Server) events(c *call) (any, error) {
	if s.config.Feed == nil {
		return nil, newFailure(http.StatusNotFound, "This server has no events; lockstep events shows those of the queue")
	}
	kinds, err := c.kinds()
	if err != nil {
		return nil, err
	}
	ctx, stop, err := s.listen(c, s.streams)
	if err != nil {
		return nil, err
	}
	defer stop()
	name := c.Request.Header.Get("Last-Event-ID")
	if name == "" {
		name = c.URL.Query().Get("last_event_id")
	}
	startEventStream(c.ResponseWriter)
	if c.Method == http.MethodHead {
		return alreadyWritten{}, nil
	}
	l := &eventStream{feed: s.config.Feed, kinds: kinds, w: c.ResponseWriter, heartbeat: s.config.Heartbeat}
	l.start(name)
	for l.err == nil && ctx.Err() == nil {
		l.next(ctx)
	}
	return alreadyWritten{}, nil
}

// listen gives the request one of the streams, for which its user gives way when they are used up and he has most. ctx ends then, and
// when the server stops.
func (s *Server) listen(c *call, streams *admission.Slots) (ctx context.Context, stop func(), err error) {
	ctx, cancel := s.withStop(c)
	slot := streams.Admit(c.request.Client(), cancel)
	if slot == nil {
		cancel()
		return nil, nil, &Failure{Code: http.StatusServiceUnavailable, Message: "Too many clients listen; try again later", RetryAfter: 30}
	}
	slot.Move(budget.Idle)
	c.request.Stream()
	return ctx, func() { slot.Close(); cancel() }, nil
}

// startEventStream begins the answer of a stream of server-sent events.
func startEventStream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies must not buffer the stream
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush() // the client knows that the stream has begun, before an event comes
}

// kinds are the kinds of events that the client asks for; nil: all.
func (c *call) kinds() ([]events.Kind, error) {
	given := c.URL.Query().Get("kinds")
	if given == "" {
		return nil, nil
	}
	var kinds []events.Kind
	for name := range strings.SplitSeq(given, ",") {
		kind := events.Kind(strings.TrimSpace(name))
		if !slices.Contains(answer.EventKinds(), string(kind)) {
			return nil, newFailure(http.StatusBadRequest, "There are no events of kind '%s'; there are %s", tlsserver.Truncated(name),
				strings.Join(answer.EventKinds(), ", "))
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

// eventStream is one stream of events.
type eventStream struct {
	feed     *Feed
	kinds    []events.Kind
	lastSent uint64 // number of the last event that was sent
	w        http.ResponseWriter
	// heartbeat is after how long without an event the stream shows that it is there.
	heartbeat time.Duration
	err       error // set when the client has gone
}

// start sets the position of the stream: after the last event that the client has, or now.
func (s *eventStream) start(name string) {
	s.lastSent = s.feed.lastNumber()
	number, own := s.feed.parseEventID(name)
	switch {
	case name == "":
		s.send(FormatEvent(s.feed.eventID(s.lastSent), "open", []byte("{}")))
	case own:
		s.lastSent = number // next sends a reset if later events are no longer retained
	default:
		s.send(FormatEvent(s.feed.eventID(s.lastSent), gapKind, reasonData("the daemon is another one than that of the last event")))
	}
}

// next sends the events since the last one, or waits for one. After heartbeat without an event it sends a comment. Lost events are
// reported as a gap.
func (s *eventStream) next(ctx context.Context) {
	found, changed, lost := s.feed.since(s.lastSent, batchMax)
	switch {
	case lost:
		s.lastSent = s.feed.lastNumber()
		s.send(FormatEvent(s.feed.eventID(s.lastSent), gapKind, reasonData("there were more events than are kept")))
	case len(found) > 0:
		var text []byte
		for _, e := range found {
			if s.kinds == nil || e.kind == gapKind || slices.Contains(s.kinds, e.kind) {
				text = append(text, FormatEvent(s.feed.eventID(e.number), e.kind, e.data)...)
			}
		}
		s.lastSent = found[len(found)-1].number
		if text != nil {
			s.send(text)
		}
	default:
		timer := time.NewTimer(s.heartbeat)
		defer timer.Stop()
		select {
		case <-changed:
		case <-timer.C:
			s.send([]byte(":\n\n"))
		case <-ctx.Done():
		}
	}
}

func (s *eventStream) send(text []byte) {
	_, s.err = streamTo(s.w).Write(text)
}

// FormatEvent encodes an event as text/event-stream. Each line of data is sent as a line of its
// own. Without an id the client keeps the id of the event before.
func FormatEvent(id string, kind events.Kind, data []byte) []byte {
	var b bytes.Buffer
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("event: " + string(kind) + "\n")
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
