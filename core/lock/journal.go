package lock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"lockstep/core/rawjson"
)

// Record is the complete state of one owner after a change. In the journal it is a line of JSON:
//
//	{"owner":[12,"/livelock",34],"locks":[["node/a","shared"]],"pending":[0,[["node/b","exclusive"]]]}
//
// with pending null if the owner does not wait. The last record of an owner counts. A record with neither locks nor a
// pending request removes the owner. So a journal may be replayed on a snapshot that already contains part of it.
type Record struct {
	Owner   Owner
	Locks   []Item   // in lock order
	Pending *Pending // nil, or a request of Owner
}

// Record is the current record of an owner: its locks and the request that waits, if there is one.
func (s *State) Record(o Owner) Record {
	r := Record{Owner: o, Locks: s.table.Held(o)}
	if h := s.table.holders[o]; h != nil && h.pending != nil {
		p := h.pending.Pending
		r.Pending = &p
	}
	return r
}

// AppendRecord adds a record's line, with its end of line.
func AppendRecord(dst []byte, r Record) []byte {
	dst = appendOwner(append(dst, `{"owner":`...), r.Owner)
	dst = appendItems(append(dst, `,"locks":`...), r.Locks)
	dst = append(dst, `,"pending":`...)
	if r.Pending == nil {
		return append(dst, "null}\n"...)
	}
	dst = strconv.AppendInt(append(dst, '['), int64(r.Pending.Priority), 10)
	dst = appendItems(append(dst, ','), r.Pending.Request)
	return append(dst, "]}\n"...)
}

// JournalHeader is the journal's first line. A journal of another boot, and the snapshot that belongs to it, are about
// processes that no longer exist.
func JournalHeader(boot string) []byte { return fmt.Appendf(nil, "{\"boot\":%q}\n", boot) }

// CutJournalHeader removes the first line. No answer was given on the basis of a journal without a complete first line.
func CutJournalHeader(journal []byte) (boot string, rest []byte, err error) {
	line, rest, complete := bytes.Cut(journal, []byte("\n"))
	if !complete {
		return "", nil, nil
	}
	var first struct{ Boot *string }
	if err := json.Unmarshal(line, &first); err != nil {
		return "", nil, &DecodeError{"line 1", err}
	}
	if first.Boot == nil {
		return "", nil, &DecodeError{"line 1", errors.New("the header of the journal has no boot id")}
	}
	return *first.Boot, rest, nil
}

// ReplayResult is a snapshot brought up to date by a journal.
type ReplayResult struct {
	Snapshot Snapshot
	// CompleteBytes is how many bytes of the journal are complete lines. An unfinished line follows, on the basis of
	// which no answer was given. It is cut off before the next line is written.
	CompleteBytes int
}

// DecodeRecords reads lines as AppendRecord writes them.
func DecodeRecords(lines []byte) ([]Record, error) {
	var records []Record
	for line := range bytes.Lines(lines) {
		r, err := decodeRecord(line, "record "+strconv.Itoa(len(records)+1))
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}

// Replay brings a snapshot up to date. It ignores an unfinished last line. Any other line that is not a record is a
// *DecodeError, which names the line.
func Replay(base Snapshot, journal []byte) (ReplayResult, error) {
	latest := base.records()
	complete := bytes.LastIndexByte(journal, '\n') + 1
	number := 0
	for line := range bytes.Lines(journal[:complete]) {
		number++
		r, err := decodeRecord(line, "line "+strconv.Itoa(number))
		if err != nil {
			return ReplayResult{}, err
		}
		// The last record of an owner counts, so that a journal may be replayed over a snapshot that has a part of it.
		latest[r.Owner] = r
	}
	return ReplayResult{snapshotOf(latest), complete}, nil
}

// snapshotOf is the snapshot of records, sorted.
func snapshotOf(latest map[Owner]Record) Snapshot {
	var snap Snapshot
	for o, r := range latest {
		if len(r.Locks) > 0 {
			snap.Holdings = append(snap.Holdings, Holding{o, r.Locks})
		}
		if r.Pending != nil {
			snap.Pending = append(snap.Pending, *r.Pending)
		}
	}
	slices.SortFunc(snap.Holdings, func(a, b Holding) int { return a.Owner.Compare(b.Owner) })
	slices.SortFunc(snap.Pending, func(a, b Pending) int { return a.Compare(&b) })
	return snap
}

func decodeRecord(line []byte, path string) (Record, error) {
	var fields struct{ Owner, Locks, Pending json.RawMessage }
	var unknown error
	if err := rawjson.ReadObject(line, func(key, value []byte) {
		switch string(key) {
		case "owner":
			fields.Owner = value
		case "locks":
			fields.Locks = value
		case "pending":
			fields.Pending = value
		default:
			unknown = fmt.Errorf("unknown field %q", key)
		}
	}); err != nil {
		return Record{}, &DecodeError{path, err}
	}
	if unknown != nil {
		return Record{}, &DecodeError{path, unknown}
	}
	if fields.Owner == nil || fields.Locks == nil || fields.Pending == nil {
		return Record{}, &DecodeError{path, errors.New("want owner, locks and pending")}
	}
	owner, err := decodeOwner(fields.Owner, path+": owner")
	if err != nil {
		return Record{}, err
	}
	locks, err := decodeHeld(fields.Locks, path+": locks")
	if err != nil || string(fields.Pending) == "null" {
		return Record{Owner: owner, Locks: locks}, err
	}
	parts, err := decodeList(fields.Pending, path+": pending", 2)
	if err != nil {
		return Record{}, err
	}
	priority, err := decodePriority(parts[0], path+": pending[0]")
	if err != nil {
		return Record{}, err
	}
	req, err := decodeItems(parts[1], path+": pending[1]")
	return Record{owner, locks, &Pending{priority, owner, req}}, err
}
