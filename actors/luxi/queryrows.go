package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/core/query"
	"lockstep/actors/luxi/wire"
)

// sheet is the answer to a query in the making: the frame as far as it goes.
// Rows are encoded as they come, so that nothing else of an item has to be kept.
type sheet[T any] struct {
	question *query.Question[T]
	plain    bool // a classic call's: values without their status
	frame    []byte
	rows     int
}

// newSheet begins an answer. A plain one is a list of rows, any other tells of
// its fields, too.
func newSheet[T any](q *query.Question[T], plain bool) *sheet[T] {
	s := &sheet[T]{question: q, plain: plain, frame: wire.AppendResult(nil)}
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
func (s *sheet[T]) encode(dst []byte, item *T) []byte {
	if s.plain {
		return s.question.AppendBare(dst, item)
	}
	return s.question.AppendCells(dst, item)
}

// separate is for a row that is appended next.
func (s *sheet[T]) separate() {
	if s.rows > 0 {
		s.frame = append(s.frame, ',')
	}
	s.rows++
}

// add adds an item's row.
func (s *sheet[T]) add(item *T) {
	s.separate()
	s.frame = s.encode(s.frame, item)
}

// addEncoded adds a row that was encoded before.
func (s *sheet[T]) addEncoded(row []byte) {
	s.separate()
	s.frame = append(s.frame, row...)
}

// close ends the frame.
func (s *sheet[T]) close() []byte {
	s.frame = append(s.frame, ']')
	if !s.plain {
		s.frame = append(s.frame, '}')
	}
	return wire.CloseResult(s.frame)
}

// answerItems answers with those of the items that are asked for, all of which
// are at hand.
func answerItems[T any](c *connection, ctx actor.Context, q *query.Question[T], plain bool, items []*T) {
	s := newSheet(q, plain)
	for _, item := range items {
		matches, _, err := q.Match(item, query.NeedsFile)
		if err != nil {
			c.fail(ctx, queryFailure(err))
			return
		}
		if matches {
			s.add(item)
		}
	}
	c.answer(ctx, s.close())
}
