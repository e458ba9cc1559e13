package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/store"
	"lockstep/messages"
)

// clientActor is an actor with a Client. It runs the functions that it is sent.
type clientActor struct {
	client *store.Client
	other  func(any)
}

type do func(actor.Context, *store.Client)

func (c *clientActor) Receive(ctx actor.Context) {
	if c.client.Handle(ctx) {
		return
	}
	switch m := ctx.Message().(type) {
	case do:
		m(ctx, c.client)
	case actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		c.other(m)
	}
}

// clientBench is a clientActor with a probe for the store.
type clientBench struct {
	*kittest.Env
	store    *kittest.Probe
	customer *actor.PID
	answers  []string // in the order in which they came
	others   []any
}

func newClientBench(e *kittest.Env, incarnation uint32) *clientBench {
	s := &clientBench{Env: e, store: e.Probe("store")}
	props := e.Props("customer", func() actor.Actor {
		return &clientActor{client: store.NewClient(s.store.PID, incarnation), other: func(m any) { s.others = append(s.others, m) }}
	})
	s.customer = e.Start("customer", props)
	return s
}

func (s *clientBench) do(f do) {
	s.Send(s.customer, f)
	s.Settle()
}

func (s *clientBench) read(path string) {
	s.do(func(ctx actor.Context, c *store.Client) {
		c.Read(ctx, "test", path, func(_ actor.Context, m *messages.ReadFileResult) {
			s.answers = append(s.answers, path+"="+string(m.Content))
		})
	})
}

func (s *clientBench) started(epoch uint64) {
	s.Send(s.customer, &messages.StoreStarted{Incarnation: epoch})
	s.Settle()
}

// expectReads returns the paths and numbers of the reads since the last call. All must be
// for that incarnation of the store.
func (s *clientBench) expectReads(t *testing.T, epoch uint64) (paths []string, numbers []uint64) {
	for _, m := range s.store.Unread() {
		r := m.(*messages.AccessStore)
		require.Equal(t, epoch, r.Incarnation)
		paths = append(paths, r.GetRead().Path)
		numbers = append(numbers, r.Request)
	}
	return paths, numbers
}

func (s *clientBench) answerRead(number uint64, content string) {
	s.Send(s.customer, &messages.AccessStoreResult{Request: number,
		What: &messages.AccessStoreResult_Read{Read: &messages.ReadFileResult{Content: []byte(content)}}})
	s.Settle()
}

func (s *clientBench) idle() (idle bool) {
	s.do(func(_ actor.Context, c *store.Client) { idle = c.Idle() })
	return idle
}

func TestClientHoldsRequestsUntilTheStoreIsKnown(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		s := newClientBench(e, 1)
		s.do(func(ctx actor.Context, c *store.Client) { c.Connect(ctx) })
		kittest.Expect[*messages.AnnounceStore](s.store)
		s.read("a")
		s.read("b")
		s.store.Quiet()
		require.False(t, s.idle())
		s.started(3)
		paths, _ := s.expectReads(t, 3)
		require.Equal(t, []string{"a", "b"}, paths)
	})
}

func TestClientSendsAgainInOrder(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		s := newClientBench(e, 1)
		s.started(1)
		for _, path := range []string{"a", "b", "c", "d"} {
			s.read(path)
		}
		_, numbers := s.expectReads(t, 1)
		s.answerRead(numbers[1], "1")
		s.started(1) // repeated
		s.store.Quiet()
		s.started(2)
		paths, again := s.expectReads(t, 2)
		require.Equal(t, []string{"a", "c", "d"}, paths)
		require.Equal(t, []uint64{numbers[0], numbers[2], numbers[3]}, again)

		s.started(1) // from the former store
		s.store.Quiet()
		for _, n := range again {
			s.answerRead(n, "2")
			s.answerRead(n, "3") // the former store had answered too
		}
		require.Equal(t, []string{"b=1", "a=2", "c=2", "d=2"}, s.answers)
		require.True(t, s.idle())
		s.read("e")
		paths, _ = s.expectReads(t, 2)
		require.Equal(t, []string{"e"}, paths)
		require.Empty(t, s.others)
	})
}

func (s *clientBench) write(durable bool, paths ...string) {
	m := &messages.WriteFiles{Durable: durable}
	for _, path := range paths {
		m.Files = append(m.Files, &messages.FileWrite{Path: path})
	}
	s.do(func(ctx actor.Context, c *store.Client) {
		c.Write(ctx, m, func(_ actor.Context, done *messages.ChangeFilesResult) {
			answer := strings.Join(paths, " ")
			for _, f := range done.Failures {
				answer += " !" + f.Path
			}
			s.answers = append(s.answers, answer)
		})
	})
}

// A write is not repeated if a later write replaces its files: the later one may be done,
// and a crash could leave the earlier content.
func TestClientDoesNotTakeFilesBack(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		s := newClientBench(e, 1)
		s.started(1)
		s.write(true, "a")
		s.write(true, "b", "c")
		s.write(false, "a") // not as durable
		s.write(true, "a", "b")
		s.write(true, "c")
		s.store.Unread()
		for epoch := range uint64(2) {
			s.started(2 + epoch)
			var sent []string
			for _, m := range s.store.Unread() {
				r := m.(*messages.AccessStore)
				var paths []string
				for _, f := range r.GetWrite().Files {
					paths = append(paths, f.Path)
				}
				sent = append(sent, fmt.Sprintf("%d: %s", uint32(r.Request), strings.Join(paths, " ")))
			}
			require.Equal(t, []string{"2: b c", "4: a b", "5: c"}, sent)
		}
		s.Send(s.customer, &messages.AccessStoreResult{Request: 1<<32 + 4, What: &messages.AccessStoreResult_Files{Files: &messages.ChangeFilesResult{
			Failures: []*messages.FileFailure{{Path: "b"}}}}})
		s.Settle()
		require.Equal(t, []string{"a", "a", "a b !b"}, s.answers)
		require.False(t, s.idle())
	})
}

// Answered requests are not repeated, also after many of them.
func TestClientForgetsWhatWasAnswered(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		s := newClientBench(e, 1)
		s.started(1)
		s.read("first")
		_, first := s.expectReads(t, 1)
		for range 200 {
			s.read("x")
			_, numbers := s.expectReads(t, 1)
			s.answerRead(numbers[0], "")
		}
		s.read("last")
		s.expectReads(t, 1)
		s.started(2)
		paths, numbers := s.expectReads(t, 2)
		require.Equal(t, []string{"first", "last"}, paths)
		require.Equal(t, first[0], numbers[0])
	})
}

// Answers to a former incarnation of the actor are ignored.
func TestClientIgnoresAnswersForAFormerIncarnation(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		s := newClientBench(e, 2)
		s.started(1)
		s.read("a")
		_, numbers := s.expectReads(t, 1)
		former := uint64(1)<<32 | numbers[0]&0xffffffff
		require.NotEqual(t, former, numbers[0])
		s.answerRead(former, "former")
		require.Empty(t, s.answers)
		s.answerRead(numbers[0], "mine")
		require.Equal(t, []string{"a=mine"}, s.answers)
	})
}

func TestClientLeavesOtherMessagesAlone(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		s := newClientBench(e, 1)
		s.Send(s.customer, &messages.Drain{})
		s.Settle()
		require.Len(t, s.others, 1)
	})
}
