package rapi_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/events"
	"lockstep/edge/rapi"
)

// stream is a client's connection to /3/events.
type stream struct {
	*testServer
	lines *bufio.Scanner
	close func()
}

func (b *testServer) listen(path, last string) *stream {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+path, nil)
	require.NoError(b, err)
	r.SetBasicAuth("reader", "secret")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	response, err := b.client.Do(r) //nolint:bodyclose // close does
	require.NoError(b, err)
	require.Equal(b, 200, response.StatusCode)
	require.Equal(b, "text/event-stream", response.Header.Get("Content-Type"))
	s := &stream{b, bufio.NewScanner(response.Body), func() { cancel(); response.Body.Close() }}
	s.lines.Buffer(nil, 1<<20)
	b.Cleanup(s.close)
	return s
}

// receivedEvent is an event as a client receives it.
type receivedEvent struct{ id, kind, data string }

func (s *stream) next() receivedEvent {
	s.Helper()
	var e receivedEvent
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data = value
		case "":
			if e.kind != "" {
				return e
			}
		}
	}
	require.NoError(s, s.lines.Err())
	s.Fatal("the stream has ended")
	return e
}

func (b *testServer) publish(from, to int) {
	for i := from; i <= to; i++ {
		b.feed.Publish(events.Jobs, fmt.Appendf(nil, `{"id":%d}`, i))
	}
}

func TestEvents(t *testing.T) {
	b := newTestServer(t)
	b.publish(1, 3)
	s := b.listen("/3/events", "")
	open := s.next()
	require.Equal(t, "open", open.kind)
	b.publish(4, 5)
	b.feed.Publish(events.Locks, []byte(`{"owner":"12"}`))
	require.Equal(t, `{"id":4}`, s.next().data)
	fifth := s.next()
	require.Equal(t, "job", fifth.kind)
	require.Equal(t, "lock", s.next().kind)
	s.close()

	// A client that reconnects gets the events that it has missed.
	b.publish(6, 6)
	s = b.listen("/3/events", fifth.id)
	require.Equal(t, "lock", s.next().kind)
	require.Equal(t, `{"id":6}`, s.next().data)
	s = b.listen("/3/events", open.id)
	require.Equal(t, `{"id":4}`, s.next().data)
	s = b.listen("/3/events?kinds=lock&last_event_id="+open.id, "")
	require.Equal(t, "lock", s.next().kind)
	require.Contains(t, b.failure(400, b.do("GET", "/3/events?kinds=dogs", "reader:secret", "")), "dogs")
}

// A client receives a notice of a gap, and then the events after the gap.
func TestEventsThatAreNotKnownAnyMore(t *testing.T) {
	b := newTestServer(t)
	s := b.listen("/3/events", "")
	id := s.next().id
	s.close()
	b.publish(1, 50_000)
	for _, last := range []string{id, "other-3", "nonsense", id + "9"} {
		s = b.listen("/3/events", last)
		e := s.next()
		require.Equal(t, "reset", e.kind, last)
		b.publish(7, 7)
		require.Equal(t, `{"id":7}`, s.next().data)
		s.close()
	}
	b.feed.Missed("the queue has started anew")
	s = b.listen("/3/events?kinds=lock", id)
	require.Equal(t, "reset", s.next().kind)
}

// Kept events are bounded by their total size, too.
func TestLargeEvents(t *testing.T) {
	b := newTestServer(t)
	s := b.listen("/3/events", "")
	id := s.next().id
	s.close()
	data := append(append([]byte(`"`), strings.Repeat("x", 1<<20)...), '"')
	for range 40 {
		b.feed.Publish(events.Jobs, data)
	}
	s = b.listen("/3/events", id)
	require.Equal(t, "reset", s.next().kind)
}

func TestAListenerEndsWithTheServer(t *testing.T) {
	b := newTestServer(t)
	s := b.listen("/3/events", "")
	s.next()
	b.stop()
	require.False(t, s.lines.Scan())
}

// Each of many listeners gets all events in order, at any rate.
func TestManyListeners(t *testing.T) {
	b := newTestServer(t)
	const listeners, number = 50, 5000
	var streams []*stream
	for range listeners {
		s := b.listen("/3/events", "")
		s.next()
		streams = append(streams, s)
	}
	begin := time.Now()
	go b.publish(1, number)
	for _, s := range streams {
		for i := 1; i <= number; i++ {
			require.Equal(t, fmt.Sprintf(`{"id":%d}`, i), s.next().data)
		}
	}
	t.Logf("%d events to %d listeners in %v", number, listeners, time.Since(begin))
}

func BenchmarkPublish(b *testing.B) {
	feed, data := rapi.NewFeed(time.Now()), make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		feed.Publish(events.Jobs, data)
	}
}

// A stream ends within a heartbeat when its user is removed, gets another password or loses the option read, also while events come all the time.
func TestAStreamEndsWithItsUser(t *testing.T) {
	for name, users := range map[string]string{"removed": "ro secret\n", "another password": "reader changed read\n", "without read": "reader secret\n", "still there": "reader secret write\n"} {
		for _, path := range []string{"/3/events", "/3/jobs/7/log/events"} {
			t.Run(name+" "+path, func(t *testing.T) {
				t.Parallel()
				b := newTestServer(t, func(c *rapi.Config) { c.Heartbeat = 20 * time.Millisecond })
				b.luxi.jobs[7] = "running"
				b.luxi.wait = func(ctx context.Context) (string, error) {
					select {
					case <-ctx.Done():
						return "", ctx.Err()
					case <-time.After(time.Millisecond):
						return `"nochange"`, nil
					}
				}
				s := b.listen(path, "")
				ended, published := make(chan struct{}), 0
				go func() {
					defer close(ended)
					for s.lines.Scan() {
					}
				}()
				require.NoError(t, os.WriteFile(b.users, []byte(users), 0o600))
				deadline := time.After(10 * time.Second)
				if name == "still there" {
					deadline = time.After(2 * time.Second) // longer than the users file is believed
				}
				for {
					published++
					b.publish(published, published)
					select {
					case <-ended:
						require.NotEqual(t, "still there", name)
						return
					case <-deadline:
						require.Equal(t, "still there", name, "it goes on")
						return
					case <-time.After(time.Millisecond):
					}
				}
			})
		}
	}
}
