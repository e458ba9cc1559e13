package sim

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"lockstep/core/wire"
)

// configAnswer is the answer to a call of a session.
type configAnswer struct {
	result json.RawMessage
	err    error
	// outcome of a call that changes something. A refusal counts only if no earlier sending of the call, and no call that a
	// crashed actor has served, can have had an effect.
	outcome outcome
	sent    uint64 // step of the first sending
}

// is reports whether the call has succeeded with a result.
func (a configAnswer) is(result string) bool { return a.err == nil && string(a.result) == result }

// call makes a call. After a lost answer it sends the call again, some times, as Ganeti's clients do. isRefusal judges a result.
func (s *configSession) call(method string, args []any, isRefusal func(result string) bool, done func(configAnswer)) {
	w := s.world
	a := configAnswer{sent: w.stepCount, outcome: unknown}
	panics, lost, tries := w.panics, false, s.rng.IntN(8)
	var send func()
	send = func() {
		s.rpc.call(method, args, answerMax, func(result json.RawMessage, err error) {
			a.result, a.err = result, err
			refusal := err != nil || isRefusal(string(result))
			switch {
			case isAnswer(err) && !refusal, tellsOfChange(err):
				a.outcome = acknowledged
			case isAnswer(err) && !lost && panics == w.panics:
				a.outcome = refused
			case !isAnswer(err):
				lost = lost || !errors.Is(err, errNoDaemon)
				if tries--; tries >= 0 {
					s.later(time.Duration(s.rng.IntN(1000))*time.Millisecond, send)
					return
				}
			}
			s.tracef("%s: %s %v", method, short(result), err)
			done(a)
		})
	}
	send()
}

func isAnswer(err error) bool {
	var failed *wire.Error
	return err == nil || errors.As(err, &failed) && failed.Class != "NotMaster"
}

// tellsOfChange reports whether an error says that the change was made, and that only the lock could not be freed.
func tellsOfChange(err error) bool {
	return err != nil && strings.Contains(err.Error(), "The configuration was changed")
}

func short(result []byte) string { return string(result[:min(len(result), 60)]) }

// Judges of results.
func never(string) bool             { return false }
func isBusyNull(result string) bool { return result == "null" }
func isNoSuccess(result string) bool {
	return result == "false"
}

// read reads the configuration, tells checkers of it, and passes it to then. Without an answer it calls otherwise.
func (s *configSession) read(then func(*configDoc), otherwise func()) {
	s.call("readConfig", nil, never, func(a configAnswer) { s.saw(a, then, otherwise) })
}

// saw tells checkers of a configuration in an answer, and passes it to then. An answer without one calls otherwise.
func (s *configSession) saw(a configAnswer, then func(*configDoc), otherwise func()) {
	if a.outcome != acknowledged {
		otherwise()
		return
	}
	doc, err := readDoc(a.result)
	if err != nil {
		panic(err)
	}
	s.world.notify(configSeen{a.sent, doc})
	then(doc)
}

// configChange is a change of the configuration that a session asks for.
type configChange struct {
	session *configSession
	method  string
	objects []changedObject
	// whole is the serial number in a whole configuration that is written; 0: another change. The result has a higher one.
	whole   int64
	commits []string // addresses that the change takes
	frees   []string // addresses that the change frees, or may free with a later commit
}

// changedObject is an object after a change.
type changedObject struct {
	docKey
	mark    string
	serial  int64
	removed bool
}

// change makes a call that changes the configuration, and tells the checkers when it is sent and answered.
func (s *configSession) change(c *configChange, args []any, isRefusal func(string) bool, done func(configAnswer)) {
	c.session = s
	s.world.notify(configChangeSent{c})
	s.call(c.method, args, isRefusal, func(a configAnswer) {
		s.world.notify(configChangeAnswered{c, a.outcome, a.sent})
		done(a)
	})
}

// reserve makes a call that reserves something; key tells what, from the result.
func (s *configSession) reserve(method, kind string, args []any, key func(result json.RawMessage) string, done func(value string)) {
	s.call(method, args, never, func(a configAnswer) {
		if a.outcome != acknowledged {
			done("")
			return
		}
		value := key(a.result)
		s.world.notify(reservationMade{s, kind, value})
		done(value)
	})
}

// drop drops the reservations of the session, also those that it has remembered for a commit.
func (s *configSession) drop(done func()) {
	s.ips = nil
	s.world.notify(reservationsDropping{s})
	s.call("dropAllReservations", []any{s.identity()}, never, func(configAnswer) { done() })
}

// quoted is the JSON text of a string.
func quoted(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func unquoted(raw json.RawMessage) string { return strings.Trim(string(raw), `"`) }
