// Package configstoretest has a storage of the configuration in memory, for tests of its clients. It keeps what its records say,
// not what their sender has in memory.
package configstoretest

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/messages"
)

// Storage stands for the configstore in tests of its clients: it keeps the state in memory, and can fail, hold and forget requests.
type Storage struct {
	PID *actor.PID

	t           testing.TB
	mu          sync.Mutex
	incarnation uint64
	state       journal.State
	number      uint64
	applied     map[uint64]*journal.Record
	batches     []int // number of records of each append
	flushes     int
	failures    []string      // of the next appends
	foreign     *model.Config // what another program has written; nil: nothing
	holding     bool
	held        []held
}

type held struct {
	message any
	sender  *actor.PID
}

// Start starts a Storage that has the configuration c and no reservations. With c nil its Load says that there is no config.data.
func Start(t testing.TB, e *kittest.Env, c *model.Config) *Storage {
	s := &Storage{t: t, incarnation: 1, applied: map[uint64]*journal.Record{}, state: journal.State{Config: c}}
	pid, _, err := e.SpawnRoot(e.Props("storage", func() actor.Actor { return s }), "storage")
	require.NoError(t, err)
	s.PID = pid
	return s
}

// State returns the state after all records that the Storage has taken.
func (s *Storage) State() journal.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Last returns the record that the Storage took last; nil if there was none.
func (s *Storage) Last() *journal.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied[s.number]
}

// Replace gives the storage another configuration, as if another sender had changed it.
func (s *Storage) Replace(c *model.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Config = c
	s.number++
}

// Overwrite makes another program write config.data.
func (s *Storage) Overwrite(c *model.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.foreign = c
}

// Batches are the numbers of records of all appends so far, and Flushes is the number of folds that were asked for.
func (s *Storage) Batches() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.batches
}

// Flushes is the number of Flush requests that were carried out so far.
func (s *Storage) Flushes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushes
}

// Fail makes the next append or flush fail.
func (s *Storage) Fail(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, text)
}

// Hold makes the Storage keep requests without carrying them out or answering, until Release.
func (s *Storage) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding = true
}

// Release carries out the requests that Hold has kept, and answers them in order.
func (s *Storage) Release(e *kittest.Env) {
	s.mu.Lock()
	s.holding = false
	of := s.held
	s.held = nil
	s.mu.Unlock()
	for _, h := range of {
		e.System().Root.RequestWithCustomSender(s.PID, h.message, h.sender)
	}
	e.Settle()
}

// Restart drops the requests that are held, as a crash does, and announces the next incarnation to a client.
func (s *Storage) Restart(e *kittest.Env, client *actor.PID) {
	s.mu.Lock()
	s.incarnation++
	s.holding, s.held = false, nil
	s.mu.Unlock()
	e.Send(client, &configstore.Started{Incarnation: s.incarnation})
	e.Settle()
}

// Receive answers the messages of package configstore as the actor does, from memory.
func (s *Storage) Receive(ctx actor.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m := ctx.Message().(type) {
	case *configstore.Announce:
		ctx.Respond(&configstore.Started{Incarnation: s.incarnation})
	case *configstore.Load:
		if !s.keep(ctx) {
			ctx.Respond(&configstore.Loaded{Request: m.Request, State: s.state, Number: s.number, Missing: s.state.Config == nil})
		}
	case *configstore.AddRecords:
		if !s.keep(ctx) {
			ctx.Respond(s.append(m))
		}
	case *configstore.Adopt:
		foreign := s.foreign != nil
		if foreign {
			s.state.Config, s.foreign = s.foreign, nil
			s.number++
		}
		ctx.Respond(&configstore.ForeignResolved{Request: m.Request, Foreign: foreign, Failure: s.failure()})
	case *configstore.Discard:
		foreign := s.foreign != nil
		s.foreign = nil
		ctx.Respond(&configstore.ForeignResolved{Request: m.Request, Foreign: foreign, Failure: s.failure()})
	case *configstore.Check:
		answer := &configstore.Checked{Request: m.Request}
		if s.foreign != nil {
			answer.Foreign = errForeign
		}
		ctx.Respond(answer)
	case *configstore.Flush:
		if !s.keep(ctx) {
			s.flushes++
			ctx.Respond(&configstore.Flushed{Request: m.Request, Failure: s.failure()})
		}
	}
}

var errForeign = messages.ConfigurationFailure("another program has changed config.data")

func (s *Storage) keep(ctx actor.Context) bool {
	if s.holding {
		s.held = append(s.held, held{ctx.Message(), ctx.Sender()})
	}
	return s.holding
}

func (s *Storage) failure() *messages.Failure {
	if len(s.failures) == 0 {
		return nil
	}
	text := s.failures[0]
	s.failures = s.failures[1:]
	return messages.GenericFailure(text)
}

func (s *Storage) append(m *configstore.AddRecords) *configstore.AddRecordsResult {
	answer := &configstore.AddRecordsResult{Request: m.Request, Failure: s.failure()}
	if s.foreign != nil {
		answer.Failure = errForeign
	}
	if answer.Failure != nil {
		return answer
	}
	state, number := s.state, s.number
	for _, r := range m.Records {
		switch {
		case s.applied[r.Number] == r:
			continue
		case r.Number != number+1 || r.From != journal.At(state.Config):
			answer.Refused = true
			return answer
		}
		state, number = s.after(state, r), r.Number
	}
	s.state, s.number = state, number
	for _, r := range m.Records {
		s.applied[r.Number] = r
	}
	s.batches = append(s.batches, len(m.Records))
	return answer
}

// after is the state after a record. A record that does not lead to the configuration that it names fails the test.
func (s *Storage) after(state journal.State, r *journal.Record) journal.State {
	var err error
	if r.Delta != nil {
		state.Config, _, err = state.Config.ApplyDelta(r.Delta)
		require.NoError(s.t, err)
	}
	if r.Reserved != nil {
		state.Reserved, err = reserve.Decode(r.Reserved.File)
		require.NoError(s.t, err)
		state.Reserved, err = state.Reserved.WithExtra(r.Reserved.Extra)
		require.NoError(s.t, err)
	}
	if r.ConcurrentChanged {
		state.Concurrent = r.Concurrent
	}
	state.Rules, err = state.Rules.Apply(r.Rules)
	require.NoError(s.t, err)
	if r.To != journal.At(state.Config) || !bytes.Equal(r.After.JSON(), state.Config.JSON()) {
		require.FailNow(s.t, "the record does not lead to the configuration that it names", fmt.Sprint(r.Number))
	}
	return state
}
