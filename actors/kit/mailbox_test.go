package kit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

// listMailbox records what is posted.
type listMailbox struct {
	posted []any
}

func (m *listMailbox) PostUserMessage(msg any)   { m.posted = append(m.posted, msg) }
func (m *listMailbox) PostSystemMessage(msg any) { m.posted = append(m.posted, msg) }
func (m *listMailbox) Start()                    {}
func (m *listMailbox) UserMessageCount() int     { return len(m.posted) }

func (m *listMailbox) RegisterHandlers(actor.MessageInvoker, actor.Dispatcher) {}

func TestSafeMailboxKeepsEarlyMessages(t *testing.T) {
	inner := &listMailbox{}
	m := &safeMailbox{Mailbox: inner}
	started, stop := &actor.Started{}, &actor.Stop{}
	m.PostUserMessage("a")
	m.PostSystemMessage(stop)
	m.PostUserMessage("b")
	m.PostSystemMessage(started)
	require.Empty(t, inner.posted, "nothing goes on before Start")

	m.Start()
	m.PostUserMessage("c")
	require.Equal(t, []any{started, "a", stop, "b", "c"}, inner.posted)
}

// TestSendWhileSpawning is pitfall P2: messages by name arrive at every moment of a spawn.
// Without safeMailbox some senders panic and some actors never handle a message.
func TestSendWhileSpawning(t *testing.T) {
	const spawns, senders = 1500, 3
	env := New(Options{})
	var handled, startedFirst atomic.Int64
	props := env.Props("target", func() actor.Actor {
		seen := 0
		return actor.ReceiveFunc(func(c actor.Context) {
			if _, ok := c.Message().(*actor.Started); ok && seen == 0 {
				startedFirst.Add(1)
			}
			if c.Sender() != nil {
				handled.Add(1)
				c.Respond(c.Message())
			}
			seen++
		})
	})
	var next atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for !stop.Load() {
				env.System().Root.Send(env.PID(fmt.Sprintf("t-%d", next.Load())), "early")
			}
		})
	}
	for i := range int64(spawns) {
		next.Store(i)
		pid, _, err := env.SpawnRoot(props, fmt.Sprintf("t-%d", i))
		require.NoError(t, err)
		_, err = env.System().Root.RequestFuture(pid, "ask", time.Minute).Result()
		require.NoError(t, err, "spawn %d is deaf", i)
		env.System().Root.Stop(pid)
	}
	stop.Store(true)
	wg.Wait()
	require.EqualValues(t, spawns, handled.Load())
	require.EqualValues(t, spawns, startedFirst.Load(), "Started comes first")
}

// TestSendInTheMiddleOfASpawn sends at the worst moment: the name is known, and the mailbox
// does not know its actor.
func TestSendInTheMiddleOfASpawn(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		props := r.props(spec{name: "daemon"}).Clone(actor.WithOnInit(func(actor.Context) {
			r.send("daemon", "1", "2")
			r.env.System().Root.Poison(r.env.PID("daemon"))
		}))
		_, done, err := r.env.SpawnRoot(props, "daemon")
		require.NoError(t, err)
		settle()
		require.Equal(t, []string{
			"daemon#1 started", "daemon#1 got 1", "daemon#1 got 2", "daemon#1 stopping", "daemon#1 stopped",
		}, r.of())
		require.True(t, isClosed(done))
	})
}

func TestMailboxes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.root(spec{name: "daemon", children: []spec{{name: "b"}, {name: "a"}}})
		settle()
		release := make(chan struct{})
		r.send("daemon/a", do(func(actor.Context) { <-release }), "1", "2")
		settle()
		require.Equal(t, []MailboxStat{
			{Actor: "daemon", Kind: "kind-daemon"},
			{Actor: "daemon/a", Kind: "kind-a", Queued: 2},
			{Actor: "daemon/b", Kind: "kind-b"},
		}, r.env.Mailboxes())

		close(release)
		settle()
		require.Zero(t, r.env.Mailboxes()[1].Queued)
		require.Zero(t, r.env.Mailboxes()[1].Busy)
		r.send("daemon/a", do(func(actor.Context) { r.clock.advance(3 * time.Second) }), do(func(actor.Context) { r.clock.advance(time.Second) }))
		settle()
		require.Equal(t, 3*time.Second, r.env.Mailboxes()[1].Busy)
		r.env.System().Root.Stop(r.env.PID("daemon"))
		settle()
		require.Empty(t, r.env.Mailboxes())
	})
}
