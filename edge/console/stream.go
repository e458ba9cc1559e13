package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lockstep/actors/events"
	"lockstep/core/budget"
	"lockstep/edge/admission"
	"lockstep/edge/rapi"
	"lockstep/edge/tlsserver"
)

// Times and bounds of a stream.
const (
	tickInterval = 250 * time.Millisecond // least time between two messages about changes
	beatInterval = 10 * time.Second       // without messages; the session is checked, too
	sendTimeout  = 15 * time.Second       // for a browser to take one message
	logsMax      = 20                     // logs of one stream
)

// events sends one stream of server-sent events to a browser, which its tabs share: "change" when something has changed, "state" when
// the queue begins or ceases to answer, "log" with entries of the logs that the query names as log=ID.SERIAL, "logend" after the last
// entry, and "logout" when the session has ended.
func (x *Console) events(w http.ResponseWriter, r *http.Request) {
	who, _, err := x.sessions.user(r, x.cookieName())
	switch {
	case errors.Is(err, errNoSession):
		w.WriteHeader(http.StatusUnauthorized)
		return
	case err != nil:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case !who.Reads():
		w.WriteHeader(http.StatusForbidden)
		return
	}
	wanted, err := logsOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	slot := x.streams.Admit(admission.ClientOf(ctx), cancel) // the user who has most streams loses one
	if slot == nil {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer slot.Close()
	slot.Move(budget.Idle)
	tlsserver.RequestOf(ctx).Stream()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies must not buffer the stream
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	s := &stream{console: x, request: r, messages: make(chan []byte), ctx: ctx, out: tlsserver.StreamWriter{Response: w, Timeout: sendTimeout}}
	l := x.hub.listen()
	defer x.hub.remove(l)
	for id, after := range wanted {
		go s.follow(id, after)
	}
	s.run(l)
}

// logsOf are the logs that a stream follows: the serial number after which each begins, by job.
func logsOf(r *http.Request) (map[int64]int64, error) {
	wanted := map[int64]int64{}
	for _, text := range r.URL.Query()["log"] {
		idText, afterText, _ := strings.Cut(text, ".")
		id, err := strconv.ParseInt(idText, 10, 64)
		after, err2 := strconv.ParseInt(afterText, 10, 64)
		if err != nil || err2 != nil || id < 1 || after < 0 || len(wanted) >= logsMax {
			return nil, badRequest("a log is named by a job id and a serial number; there are at most %d", logsMax)
		}
		wanted[id] = after
	}
	return wanted, nil
}

// stream is the stream of one browser.
type stream struct {
	console  *Console
	request  *http.Request
	ctx      context.Context //nolint:containedctx // of the stream, which ends with it
	messages chan []byte     // of the followers of logs; each waits until the browser has taken the former one
	out      tlsserver.StreamWriter
	err      error // the browser has gone, or is too slow
}

// run sends messages until the browser goes, is too slow, or is logged out.
func (s *stream) run(l *listener) {
	s.send("open", map[string]any{})
	beat := time.NewTicker(beatInterval)
	defer beat.Stop()
	var wake <-chan struct{} = l.wake
	var pause <-chan time.Time
	for s.err == nil {
		select {
		case <-wake:
			found, down, turned := l.take()
			if turned {
				s.send("state", map[string]string{"down": down})
			}
			if !found.empty() {
				s.send("change", found)
			}
			wake, pause = nil, time.After(tickInterval)
		case <-pause:
			wake, pause = l.wake, nil
		case text := <-s.messages:
			_, s.err = s.out.Write(text)
		case <-beat.C:
			who, _, err := s.console.sessions.user(s.request.WithContext(s.ctx), s.console.cookieName())
			if errors.Is(err, errNoSession) || err == nil && !who.Reads() {
				s.send("logout", map[string]any{})
				return
			}
			if s.err == nil {
				_, s.err = s.out.Write([]byte(":\n\n"))
			}
		case <-s.console.stopping:
			return
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *stream) send(kind string, data any) {
	if text, err := encodeEvent(kind, data); err == nil && s.err == nil {
		_, s.err = s.out.Write(text)
	}
}

func encodeEvent(kind string, data any) ([]byte, error) {
	encoded, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	return rapi.FormatEvent("", events.Kind(kind), encoded), nil
}

// follow sends the entries of one log to the browser, until the job ends or the browser goes. While the queue does not answer it tries
// again.
func (s *stream) follow(id, after int64) {
	deliver := func(kind string, data any) error {
		text, err := encodeEvent(kind, data)
		if err != nil {
			return err
		}
		select {
		case s.messages <- text:
			return nil
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
	for s.ctx.Err() == nil {
		status, err := rapi.FollowLog(s.ctx, s.console.queue, id, after, func(entries []rapi.LogEntry) error {
			if err := deliver("log", map[string]any{"job": id, "entries": shownEntries(entries)}); err != nil {
				return err
			}
			after = entries[len(entries)-1].Serial
			return nil
		})
		if err == nil {
			_ = deliver("logend", map[string]any{"job": id, "status": status}) // the browser has gone otherwise
			return
		}
		if f := rapi.AsFailure(err); f.Code == http.StatusNotFound {
			return
		}
		select {
		case <-time.After(hubPause):
		case <-s.ctx.Done():
		}
	}
}
