package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"lockstep/core/rawjson"
)

// DecodeError says what is wrong in locks.data or in its journal, and where.
type DecodeError struct {
	Path string // as "allocation[3][1][0]" or "line 7: pending[1]"; "" for the file itself
	Err  error
}

func (e *DecodeError) Error() string {
	if e.Path == "" {
		return e.Err.Error()
	}
	return e.Path + ": " + e.Err.Error()
}

func (e *DecodeError) Unwrap() error { return e.Err }

// Encode is the content of locks.data for a snapshot, in Ganeti's form (locks.md 1.8) and in the order of the snapshot.
func Encode(snap Snapshot) []byte {
	dst := []byte("[[")
	for k, h := range snap.Holdings {
		if k > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendOwner(append(dst, '['), h.Owner), ',')
		dst = append(appendItems(dst, h.Locks), ']')
	}
	dst = append(dst, "],["...)
	for k, p := range snap.Pending {
		if k > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, '['), int64(p.Priority), 10)
		dst = appendOwner(append(dst, ','), p.Owner)
		dst = append(appendItems(append(dst, ','), p.Request), ']')
	}
	return append(dst, "]]"...)
}

// Decode reads locks.data. It checks the form. Restore checks whether the holdings conflict. The error is a
// *DecodeError.
func Decode(data []byte) (Snapshot, error) {
	var snap Snapshot
	parts, err := decodeList(data, "", 2)
	if err != nil {
		return Snapshot{}, err
	}
	holdings, err := decodeList(parts[0], "allocation", anyLength)
	if err != nil {
		return Snapshot{}, err
	}
	for k, raw := range holdings {
		h, err := decodeHolding(raw, elementPath("allocation", k))
		if err != nil {
			return Snapshot{}, err
		}
		snap.Holdings = append(snap.Holdings, h)
	}
	pending, err := decodeList(parts[1], "pending", anyLength)
	if err != nil {
		return Snapshot{}, err
	}
	for k, raw := range pending {
		p, err := decodePending(raw, elementPath("pending", k))
		if err != nil {
			return Snapshot{}, err
		}
		snap.Pending = append(snap.Pending, p)
	}
	return snap, nil
}

func decodeHolding(raw json.RawMessage, path string) (Holding, error) {
	parts, err := decodeList(raw, path, 2)
	if err != nil {
		return Holding{}, err
	}
	owner, err := decodeOwner(parts[0], elementPath(path, 0))
	if err != nil {
		return Holding{}, err
	}
	locks, err := decodeHeld(parts[1], elementPath(path, 1))
	if err == nil && len(locks) == 0 {
		err = &DecodeError{elementPath(path, 1), errors.New("no lock")}
	}
	return Holding{owner, locks}, err
}

func decodePending(raw json.RawMessage, path string) (Pending, error) {
	parts, err := decodeList(raw, path, 3)
	if err != nil {
		return Pending{}, err
	}
	priority, err := decodePriority(parts[0], elementPath(path, 0))
	if err != nil {
		return Pending{}, err
	}
	owner, err := decodeOwner(parts[1], elementPath(path, 1))
	if err != nil {
		return Pending{}, err
	}
	req, err := decodeItems(parts[2], elementPath(path, 2))
	return Pending{priority, owner, req}, err
}

func decodePriority(raw json.RawMessage, path string) (int, error) {
	priority, err := strconv.ParseInt(string(raw), 10, 32)
	if err != nil {
		return 0, &DecodeError{path, errors.New("the priority is no number")}
	}
	return int(priority), nil
}

func decodeOwner(raw json.RawMessage, path string) (Owner, error) {
	var owner Owner
	if err := owner.UnmarshalJSON(raw); err != nil {
		return Owner{}, &DecodeError{path, err}
	}
	return owner, nil
}

// decodeHeld is decodeItems for locks that are held: none of them can be a release.
func decodeHeld(raw json.RawMessage, path string) ([]Item, error) {
	items, err := decodeItems(raw, path)
	for k, i := range items {
		if i.Mode == None {
			return nil, &DecodeError{elementPath(path, k), errors.New("a lock is held shared or exclusive")}
		}
	}
	return items, err
}

func decodeItems(raw json.RawMessage, path string) ([]Item, error) {
	parts, err := decodeList(raw, path, anyLength)
	if err != nil {
		return nil, err
	}
	items := make([]Item, len(parts))
	for k := range parts {
		if err := items[k].UnmarshalJSON(parts[k]); err != nil {
			return nil, &DecodeError{elementPath(path, k), err}
		}
	}
	return items, nil
}

// anyLength stands for a list of any length.
const anyLength = -1

// decodeList reads a JSON list of the given length.
func decodeList(raw json.RawMessage, path string, length int) ([]json.RawMessage, error) {
	parts, err := elements(raw)
	switch {
	case err != nil:
		return nil, &DecodeError{path, err}
	case length != anyLength && len(parts) != length:
		return nil, &DecodeError{path, fmt.Errorf("%d elements, want a list of %d", len(parts), length)}
	}
	return parts, nil
}

func elementPath(path string, k int) string { return path + "[" + strconv.Itoa(k) + "]" }

// elements splits a JSON list; the elements lie in raw. Anything else is an error.
func elements(raw []byte) ([]json.RawMessage, error) {
	var few [3]json.RawMessage // most lists are not longer
	parts := few[:0]
	err := rawjson.ReadList(raw, func(value []byte) { parts = append(parts, value) })
	return parts, err
}
