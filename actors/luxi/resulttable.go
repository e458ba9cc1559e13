package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/query"
	"lockstep/core/wire"
	"lockstep/messages"
)

// answerMax bounds an answer in bytes: all about 300,000 queued jobs of usual size. What is repeated in a question, as a
// field, is repeated in the answer.
const answerMax = 256 << 20

var errTooLarge = fmt.Errorf("The answer would be larger than %d bytes: ask for fewer things, or for fewer fields", answerMax)

// resultTable is the answer to a query in the making: the frame as far as it goes.
// Rows are encoded as they come, so that nothing else of an item has to be kept.
type resultTable[T any] struct {
	question *query.Query[T]
	plain    bool // a classic call's: values without their status
	frame    []byte
	rows     int
	kept     int // bytes of rows that are encoded, and not in the frame yet
}

// newResultTable begins an answer. A plain one is a list of rows, any other tells of
// its fields, too.
func newResultTable[T any](q *query.Query[T], plain bool) *resultTable[T] {
	s := &resultTable[T]{question: q, plain: plain, frame: wire.AppendResult(nil)}
	if !plain {
		fields, err := json.Marshal(q.Definitions())
		if err != nil {
			panic(fmt.Errorf("the definitions of fields cannot be encoded: %w", err)) // they are strings
		}
		s.frame = append(append(append(s.frame, `{"fields":`...), fields...), `,"data":`...)
	}
	s.frame = append(s.frame, '[')
	return s
}

// encode appends an item's row to dst.
func (s *resultTable[T]) encode(dst []byte, item *T) []byte {
	limit := answerMax
	if dst == nil {
		limit -= len(s.frame) + s.kept
	}
	if s.plain {
		return s.question.AppendClassicRow(dst, item, limit)
	}
	return s.question.AppendRow(dst, item, limit)
}

// full: there is more than an answer may have.
func (s *resultTable[T]) full() bool { return len(s.frame)+s.kept > answerMax }

// keep is the row of an item that comes later in the frame.
func (s *resultTable[T]) keep(item *T) []byte {
	row := s.encode(nil, item)
	s.kept += len(row)
	return row
}

// separate is for a row that is appended next.
func (s *resultTable[T]) separate() {
	if s.rows > 0 {
		s.frame = append(s.frame, ',')
	}
	s.rows++
}

// add adds an item's row.
func (s *resultTable[T]) add(item *T) {
	s.separate()
	s.frame = s.encode(s.frame, item)
}

// addKept adds a row that was kept.
func (s *resultTable[T]) addKept(row []byte) {
	s.kept -= len(row)
	s.separate()
	s.frame = append(s.frame, row...)
}

// close ends the frame.
func (s *resultTable[T]) close() []byte {
	s.frame = append(s.frame, ']')
	if !s.plain {
		s.frame = append(s.frame, '}')
	}
	return wire.CloseResult(s.frame)
}

// answerItems answers with those of the items that are asked for, all of which
// are at hand.
func answerItems[T any](c *connection, ctx actor.Context, q *query.Query[T], plain bool, items []*T) {
	s := newResultTable(q, plain)
	for _, item := range items {
		matches, _, err := q.Match(item, query.LevelFile)
		if err != nil {
			c.fail(ctx, queryFailure(err))
			return
		}
		if matches {
			s.add(item)
		}
		if s.full() {
			c.fail(ctx, messages.Generic(errTooLarge))
			return
		}
	}
	c.answer(ctx, s.close())
}
