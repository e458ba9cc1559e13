package luxi

import (
	"bytes"
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

// resultTable builds the answer to a query. Items are added in any order, each under its index; rows are in
// the order of indexes. An item is encoded when it is added, so that the table keeps nothing else of the item.
type resultTable[T any] struct {
	question *query.Query[T]
	classic  bool         // rows have values without their statuses, and the answer has no definitions of fields
	result   *wire.Result // up to the row before index next
	rows     int          // in result
	next     int          // the lowest index that was neither added nor skipped
	// early are the rows of indexes above next; nil means that the item was skipped. Invariant: next is not in early.
	early      map[int][]byte
	scratch    []byte // for the next one of them
	earlyBytes int    // of all rows in early
}

// newResultTable begins an answer. A classic answer is a list of rows; any other one is an object with the definitions
// of the fields, too.
func newResultTable[T any](q *query.Query[T], classic bool) *resultTable[T] {
	t := &resultTable[T]{question: q, classic: classic, result: wire.NewResult(), early: map[int][]byte{}}
	if !classic {
		fields, err := json.Marshal(q.Definitions())
		if err != nil {
			panic(fmt.Errorf("the definitions of fields cannot be encoded: %w", err)) // they are strings
		}
		t.result.Tail = append(append(append(t.result.Tail, `{"fields":`...), fields...), `,"data":`...)
	}
	t.result.Tail = append(t.result.Tail, '[')
	return t
}

// add adds the item with index i. Its row has about this size in bytes; 0: it is short.
func (t *resultTable[T]) add(i int, item *T, size int) {
	if i > t.next {
		t.scratch = t.encode(t.scratch[:0], item, answerMax-t.size())
		t.early[i] = bytes.Clone(t.scratch)
		t.earlyBytes += len(t.scratch)
		return
	}
	t.separate(size)
	t.result.Tail = t.encode(t.result.Tail, item, answerMax-t.result.Before())
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
			t.separate(len(row))
			t.result.Tail = append(t.result.Tail, row...)
		}
	}
}

// encode appends an item's row to dst, until dst is longer than limit.
func (t *resultTable[T]) encode(dst []byte, item *T, limit int) []byte {
	if t.classic {
		return t.question.AppendClassicRow(dst, item, limit)
	}
	return t.question.AppendRow(dst, item, limit)
}

// separate prepares the answer for the next row, of about this size.
func (t *resultTable[T]) separate(size int) {
	if t.rows > 0 {
		t.result.Tail = append(t.result.Tail, ',')
	}
	t.result.Next(size)
	t.rows++
}

// size is how much memory the answer takes so far, in bytes.
func (t *resultTable[T]) size() int { return t.result.Len() + t.earlyBytes }

// close ends the answer and returns it, in parts.
func (t *resultTable[T]) close() [][]byte {
	t.result.Tail = append(t.result.Tail, ']')
	if !t.classic {
		t.result.Tail = append(t.result.Tail, '}')
	}
	return t.result.Close()
}

// admit takes memory for an answer of this size so far. If the answer is too large, the client gets an error.
func (c *call) admit(ctx actor.Context, size int) bool {
	if size > answerMax {
		c.fail(ctx, messages.Generic(errTooLarge))
		return false
	}
	return c.reserve(ctx, size)
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
			t.add(i, item, 0)
		} else {
			t.skip(i)
		}
		if !c.admit(ctx, t.size()) {
			return
		}
	}
	c.answer(ctx, t.close()...)
}
