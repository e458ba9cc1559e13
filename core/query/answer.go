package query

import (
	"bytes"
	"encoding/json"
	"fmt"

	"lockstep/core/wire"
)

// AnswerMax bounds an answer in bytes. It has room for about 300,000 queued jobs of usual size. A field that the query
// names twice is in the answer twice.
const AnswerMax = 256 << 20

// ErrTooLarge is the error of an answer that exceeds AnswerMax.
var ErrTooLarge = fmt.Errorf("The answer would be larger than %d bytes: ask for fewer things, or for fewer fields", AnswerMax)

// Answer builds the answer to a query. Items are added in any order, each under its index; rows are in
// the order of indexes. An item is encoded when it is added, so that the answer keeps nothing else of the item.
type Answer[T any] struct {
	Query   *Query[T]
	classic bool         // rows have values without their statuses, and the answer has no definitions of fields
	result  *wire.Result // up to the row before index next
	rows    int          // in result
	next    int          // the lowest index that was neither added nor skipped
	// early are the rows of indexes above next; nil means that the item was skipped. Invariant: next is not in early.
	early      map[int][]byte
	scratch    []byte // for the next one of them
	earlyBytes int    // of all rows in early
}

// NewAnswer begins an answer. A classic answer is a list of rows; any other one is an object with the definitions
// of the fields, too.
func NewAnswer[T any](q *Query[T], classic bool) *Answer[T] {
	t := &Answer[T]{Query: q, classic: classic, result: wire.NewResult(), early: map[int][]byte{}}
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

// Add adds the item with index i. Its row has about this size in bytes; 0: it is short.
func (t *Answer[T]) Add(i int, item *T, size int) {
	if i > t.next {
		t.scratch = t.encode(t.scratch[:0], item, AnswerMax-t.Size())
		t.early[i] = bytes.Clone(t.scratch)
		t.earlyBytes += len(t.scratch)
		return
	}
	t.separate(size)
	t.result.Tail = t.encode(t.result.Tail, item, AnswerMax-t.result.Before())
	t.advance()
}

// Skip leaves the item with index i out of the answer.
func (t *Answer[T]) Skip(i int) {
	if i > t.next {
		t.early[i] = nil
		return
	}
	t.advance()
}

// advance completes index next, and appends the early rows that follow it without a gap.
func (t *Answer[T]) advance() {
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
func (t *Answer[T]) encode(dst []byte, item *T, limit int) []byte {
	if t.classic {
		return t.Query.AppendClassicRow(dst, item, limit)
	}
	return t.Query.AppendRow(dst, item, limit)
}

// separate prepares the answer for the next row, of about this size.
func (t *Answer[T]) separate(size int) {
	if t.rows > 0 {
		t.result.Tail = append(t.result.Tail, ',')
	}
	t.result.Next(size)
	t.rows++
}

// Size is how much memory the answer takes so far, in bytes.
func (t *Answer[T]) Size() int { return t.result.Len() + t.earlyBytes }

// Close ends the answer and returns it, in parts.
func (t *Answer[T]) Close() [][]byte {
	t.result.Tail = append(t.result.Tail, ']')
	if !t.classic {
		t.result.Tail = append(t.result.Tail, '}')
	}
	return t.result.Close()
}
