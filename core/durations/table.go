// Package durations owns what is known of how long opcodes of each kind execute. It may be asked which kind an opcode
// has, and how long the opcodes of a kind, or all opcodes of a job, are expected to take. It is pure: the caller
// reports each opcode that has ended.
//
// Only time counts in which an opcode executed, not the wait for a slot or for locks. The table keeps the newest
// windowSize durations of each kind, so old ones are forgotten by count and not by time, and quantiles are those of the
// window. One outlier moves a quantile by one place. Opcodes that failed or were killed have a window of their own,
// which counts only for a kind of which none has succeeded.
//
// The encoded table is a JSON file. A table that is lost costs only order: jobs of unknown kinds are expected to take
// the median of all.
package durations

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	windowSize = 32
	// rowsMax is the maximum number of kinds. The kind whose last duration is oldest makes room.
	rowsMax = 1_000
	// ownMin is how many durations an own kind needs before it counts in place of its program.
	ownMin = 3
	// kindMax is the maximum length of a kind, in bytes; it is cut there.
	kindMax = 100
	// durationMaxMs is the longest duration that counts: a year.
	durationMaxMs = 365 * 24 * 3600 * 1000
	// Unknown is how long an opcode is expected to take if nothing is known of any.
	Unknown = time.Minute
)

// Table remembers how long opcodes have taken, by kind, and says how long further ones are expected to take. Without any it is ready for
// use.
type Table struct {
	rows  map[string]*row
	all   window // of successes of all kinds
	count int64  // durations recorded so far
}

// row is one kind.
//
// Invariant: last increases with each duration, and is different for each row.
type row struct {
	succeeded, failed window
	last              int64 // Table.count at the newest duration
}

// window is the newest durations in milliseconds, the oldest first. median is that of ms.
type window struct{ ms []int64 }

func (w *window) add(ms int64) {
	if len(w.ms) == windowSize {
		w.ms = append(w.ms[:0], w.ms[1:]...)
	}
	w.ms = append(w.ms, ms)
}

// quantile is the duration that percent of the window do not exceed. The window has one at least.
func (w *window) quantile(percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(w.ms))
	return time.Duration(sorted[max((len(sorted)*percent+99)/100, 1)-1]) * time.Millisecond
}

// Record adds the duration of an opcode that has ended, to both of its kinds. Only a success counts in the durations of all kinds. If a new
// kind exceeds rowsMax, the kind that has had no duration for longest is evicted; a program has had its duration after its own kinds.
func (t *Table) Record(kind Kind, took time.Duration, succeeded bool) {
	ms := min(max(took.Milliseconds(), 0), durationMaxMs)
	t.rowFor(kind.Own).add(ms, succeeded)
	if kind.Program != kind.Own {
		t.rowFor(kind.Program).add(ms, succeeded)
	}
	if succeeded {
		t.all.add(ms)
	}
}

// rowFor is the row of a kind that has a duration now.
func (t *Table) rowFor(kind string) *row {
	if t.rows == nil {
		t.rows = map[string]*row{}
	}
	r := t.rows[kind]
	if r == nil {
		if len(t.rows) >= rowsMax {
			t.evict()
		}
		r = &row{}
		t.rows[kind] = r
	}
	t.count++
	r.last = t.count
	return r
}

func (r *row) add(ms int64, succeeded bool) {
	if succeeded {
		r.succeeded.add(ms)
	} else {
		r.failed.add(ms)
	}
}

func (r *row) len() int { return len(r.succeeded.ms) + len(r.failed.ms) }

// evict removes the kind that has had no duration for longest.
func (t *Table) evict() {
	oldest := ""
	for kind, r := range t.rows { // the order does not matter: each last is different
		if oldest == "" || r.last < t.rows[oldest].last {
			oldest = kind
		}
	}
	delete(t.rows, oldest)
}

// Range is how long an opcode is expected to take: as long as half, a tenth and nine tenths of the durations that
// count. Known is false if none of its kind does; the others are then guesses.
type Range struct {
	Median, Low, High time.Duration
	Known             bool
}

// Expect is the range of a kind: from its successes, or its failures if it has no success. Its program counts while the own kind has fewer
// than ownMin durations. For a kind without durations it is the range of all kinds; without any duration it is Unknown.
func (t *Table) Expect(kind Kind) Range {
	r := t.rows[kind.Own]
	if program := t.rows[kind.Program]; program != nil && (r == nil || r.len() < ownMin) {
		r = program
	}
	if r != nil {
		w := &r.succeeded
		if len(w.ms) == 0 {
			w = &r.failed
		}
		return rangeOf(w, true)
	}
	if len(t.all.ms) > 0 {
		return rangeOf(&t.all, false)
	}
	return Range{Median: Unknown, Low: 0, High: Unknown}
}

func rangeOf(w *window, known bool) Range {
	return Range{Median: w.quantile(50), Low: w.quantile(10), High: w.quantile(90), Known: known}
}

// Plus is the range of two opcodes, one after the other.
func (r Range) Plus(s Range) Range {
	return Range{Median: r.Median + s.Median, Low: r.Low + s.Low, High: r.High + s.High, Known: r.Known && s.Known}
}

// Clone is a copy that later durations do not change.
func (t *Table) Clone() *Table {
	c := &Table{rows: make(map[string]*row, len(t.rows)), all: t.all.clone(), count: t.count}
	for kind, r := range t.rows {
		c.rows[kind] = &row{r.succeeded.clone(), r.failed.clone(), r.last}
	}
	return c
}

func (w *window) clone() window { return window{slices.Clone(w.ms)} }

// Len is the number of kinds that have durations.
func (t *Table) Len() int { return len(t.rows) }

// file is the encoded table. The kinds are those with the oldest newest duration first, which is all that counts of
// row.last.
type file struct {
	All   []int64   `json:"all"`
	Kinds []fileRow `json:"kinds"`
}

type fileRow struct {
	Kind      string  `json:"kind"`
	Succeeded []int64 `json:"succeeded_ms,omitempty"`
	Failed    []int64 `json:"failed_ms,omitempty"`
}

// Encode is the table as JSON. Equal tables give equal bytes.
func (t *Table) Encode() []byte {
	f := file{All: t.all.ms, Kinds: []fileRow{}}
	kinds := slices.SortedFunc(maps.Keys(t.rows), func(a, b string) int { return cmp.Compare(t.rows[a].last, t.rows[b].last) })
	for _, kind := range kinds {
		f.Kinds = append(f.Kinds, fileRow{kind, t.rows[kind].succeeded.ms, t.rows[kind].failed.ms})
	}
	encoded, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		panic(fmt.Errorf("durations cannot be encoded: %w", err)) // numbers and texts
	}
	return append(encoded, '\n')
}

// Decode reads a table. No content is the empty table. Values out of range are errors: another program has written
// them.
func Decode(content []byte) (*Table, error) {
	t := &Table{rows: map[string]*row{}}
	if len(content) == 0 {
		return t, nil
	}
	var f file
	if err := json.Unmarshal(content, &f); err != nil {
		return nil, fmt.Errorf("decode the durations: %w", err)
	}
	if len(f.Kinds) > rowsMax {
		return nil, fmt.Errorf("durations: the file has %d kinds, and at most %d are kept", len(f.Kinds), rowsMax)
	}
	if err := validWindow(f.All); err != nil {
		return nil, err
	}
	t.all.ms = f.All
	for _, k := range f.Kinds {
		for _, ms := range [][]int64{k.Succeeded, k.Failed} {
			if err := validWindow(ms); err != nil {
				return nil, err
			}
		}
		if len(k.Kind) > kindMax || t.rows[k.Kind] != nil || len(k.Succeeded)+len(k.Failed) == 0 {
			return nil, fmt.Errorf("durations: kind %.100q is too long, repeated or without a duration", k.Kind)
		}
		t.count++
		t.rows[k.Kind] = &row{window{k.Succeeded}, window{k.Failed}, t.count}
	}
	return t, nil
}

func validWindow(ms []int64) error {
	if len(ms) > windowSize {
		return fmt.Errorf("durations: a kind has %d values, and at most %d are kept", len(ms), windowSize)
	}
	for _, v := range ms {
		if v < 0 || v > durationMaxMs {
			return fmt.Errorf("durations: %d ms is not between 0 and %d", v, int64(durationMaxMs))
		}
	}
	return nil
}
