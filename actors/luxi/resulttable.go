package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/query"
	"lockstep/core/wire"
	"lockstep/messages"
)

// answerMax bounds an answer in bytes. It has room for about 300,000 queued jobs of usual size. A field that the query
// names twice is in the answer twice.
const answerMax = 256 << 20

var errTooLarge = fmt.Errorf("The answer would be larger than %d bytes: ask for fewer things, or for fewer fields", answerMax)

// resultTable builds the frame that answers a query. Items are added in any order, each under its index; rows are in
// the order of indexes. An item is encoded when it is added, so that the table keeps nothing else of the item.
type resultTable[T any] struct {
	question *query.Query[T]
	classic  bool   // rows have values without their statuses, and the answer has no definitions of fields
	frame    []byte // the answer up to the row before index next
	rows     int    // in frame
	next     int    // the lowest index that was neither added nor skipped
	// early are the rows of indexes above next; nil means that the item was skipped. Invariant: next is not in early.
	early      map[int][]byte
	earlyBytes int // of all rows in early
}

// newResultTable begins an answer. A classic answer is a list of rows; any other one is an object with the definitions
// of the fields, too.
func newResultTable[T any](q *query.Query[T], classic bool) *resultTable[T] {
	t := &resultTable[T]{question: q, classic: classic, frame: wire.AppendResult(nil), early: map[int][]byte{}}
	if !classic {
		fields, err := json.Marshal(q.Definitions())
		if err != nil {
			panic(fmt.Errorf("the definitions of fields cannot be encoded: %w", err)) // they are strings
		}
		t.frame = append(append(append(t.frame, `{"fields":`...), fields...), `,"data":`...)
	}
	t.frame = append(t.frame, '[')
	return t
}

// add adds the item with index i.
func (t *resultTable[T]) add(i int, item *T) {
	if i > t.next {
		row := t.encode(nil, item)
		t.early[i] = row
		t.earlyBytes += len(row)
		return
	}
	t.separate()
	t.frame = t.encode(t.frame, item)
	t.advance()
}

// skip leaves the item with index i out of the answer.
func (t *resultTable[T]) skip(i int) {
	if i > t.next {
		t.early[i] = nil
		return
	}
	t.advance()
}

// advance completes index next, and appends the early rows that follow it without a gap.
func (t *resultTable[T]) advance() {
	for t.next++; len(t.early) > 0; t.next++ {
		row, done := t.early[t.next]
		if !done {
			return
		}
		delete(t.early, t.next)
		if row != nil {
			t.earlyBytes -= len(row)
			t.separate()
			t.frame = append(t.frame, row...)
		}
	}
}

// encode appends an item's row to dst.
func (t *resultTable[T]) encode(dst []byte, item *T) []byte {
	limit := answerMax
	if dst == nil {
		limit -= len(t.frame) + t.earlyBytes
	}
	if t.classic {
		return t.question.AppendClassicRow(dst, item, limit)
	}
	return t.question.AppendRow(dst, item, limit)
}

// separate prepares the frame for the next row.
func (t *resultTable[T]) separate() {
	if t.rows > 0 {
		t.frame = append(t.frame, ',')
	}
	t.rows++
}

// full reports whether the answer exceeds answerMax.
func (t *resultTable[T]) full() bool { return len(t.frame)+t.earlyBytes > answerMax }

// close ends the frame and returns it.
func (t *resultTable[T]) close() []byte {
	t.frame = append(t.frame, ']')
	if !t.classic {
		t.frame = append(t.frame, '}')
	}
	return wire.CloseResult(t.frame)
}

// answerItems answers a query about items of which all is known.
func answerItems[T any](c *call, ctx actor.Context, q *query.Query[T], classic bool, items []*T) {
	t := newResultTable(q, classic)
	for i, item := range items {
		matches, _, err := q.Match(item, query.LevelLive)
		if err != nil {
			c.fail(ctx, queryFailure(err))
			return
		}
		if matches {
			t.add(i, item)
		} else {
			t.skip(i)
		}
		if t.full() {
			c.fail(ctx, messages.Generic(errTooLarge))
			return
		}
	}
	c.answer(ctx, t.close())
}
