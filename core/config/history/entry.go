// Package history describes the changes of the configuration for people: who changed what and when. It makes an entry of a
// change, decides how entries are kept in files of bounded size, and selects entries.
//
// Entries are redacted before they are encoded: no file has a secret. The size of an entry is bounded for any change. Pure.
package history

import (
	"bytes"
	"encoding/json"
	"slices"

	"lockstep/core/config/model"
	"lockstep/core/config/redact"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
)

// Bounds of one entry. What exceeds them is counted.
const (
	maxObjects = 200 // objects with a difference of their own
	maxPaths   = 100 // paths of all objects together
	maxText    = 300 // bytes of a value, a path or a name
)

// Entry describes one change of the configuration.
type Entry struct {
	Serial      int64        `json:"serial_no"` // of the configuration after the change
	Before      int64        `json:"before"`    // its serial number before
	Time        float64      `json:"time"`      // mtime of the configuration after the change
	Client      Client       `json:"client"`
	Method      string       `json:"method"`
	Objects     []Difference `json:"objects"`
	MoreObjects int          `json:"more_objects,omitempty"` // changed objects that Objects lacks
	MorePaths   int          `json:"more_paths,omitempty"`   // changed paths that Objects lack
}

// IsUnlocked reports whether an object was changed without its lock.
func (e *Entry) IsUnlocked() bool {
	return slices.ContainsFunc(e.Objects, func(d Difference) bool { return d.Unlocked })
}

// Client is the origin of a change: a job, another named owner, or the process at the other end of the socket.
type Client struct {
	Job     int64  `json:"job,omitempty"`    // 0: no job
	Opcode  string `json:"opcode,omitempty"` // of the job; "" if unknown
	Name    string `json:"name,omitempty"`   // of an owner that is no job, or of the program
	PID     int    `json:"pid,omitempty"`    // 0: unknown
	UID     *int   `json:"uid,omitempty"`    // as the socket reports it; nil: the client has named itself
	Unknown bool   `json:"unknown,omitempty"`
}

// ClientOf returns the client of a call: the owner that the call names, else the process at the other end of the socket.
func ClientOf(named lock.Owner, peer reserve.Caller) Client {
	switch {
	case named != (lock.Owner{}):
		return clientOfOwner(named)
	case peer.Known:
		return clientOfOwner(peer.Owner)
	case peer == (reserve.Caller{}):
		return Client{Unknown: true}
	}
	if peer.PID == 0 { // lockstep's own change
		return Client{Name: shorten(peer.Program)}
	}
	return Client{Name: shorten(peer.Program), PID: peer.PID, UID: &peer.UID}
}

func clientOfOwner(o lock.Owner) Client {
	if o.Named {
		return Client{Name: shorten(o.Name), PID: o.PID}
	}
	return Client{Job: int64(o.Job), PID: o.PID}
}

// Operation is what happened to an object.
type Operation string

// The operations.
const (
	Added   Operation = "added"
	Removed Operation = "removed"
	Changed Operation = "changed"
)

// Difference is the change of one object. Name is "" for an object without name.
type Difference struct {
	Kind      string       `json:"kind"` // model.Kind.Name
	UUID      string       `json:"uuid,omitempty"`
	Name      string       `json:"name,omitempty"`
	Operation Operation    `json:"operation"`
	Paths     []PathChange `json:"paths,omitempty"` // of a changed object
	// Unlocked: the client did not hold the lock of the object exclusively (config.md 3.1).
	Unlocked bool `json:"unlocked,omitempty"`
}

// PathChange is a changed value of an object. A list of scalars is one value.
type PathChange struct {
	Path string `json:"path"` // keys and indexes, separated by slashes
	// Old and New are the values before and after; absent if the object had or has no such value. A long value is cut: then it
	// is a string with the start of the JSON text, and OldLength or NewLength is the length of the complete text in bytes.
	Old       json.RawMessage `json:"old,omitempty"`
	New       json.RawMessage `json:"new,omitempty"`
	OldLength int             `json:"old_length,omitempty"`
	NewLength int             `json:"new_length,omitempty"`
}

// Origin is what an entry says about a change besides its content.
type Origin struct {
	Client   Client
	Method   string
	Unlocked []model.Touched // objects that were changed without their lock
}

// NewEntry describes the change from old to new. touched are the changed objects. Secrets are redacted by rules. The entry has at most
// maxObjects objects and maxPaths values; MoreObjects and MorePaths count the rest.
func NewEntry(old, new *model.Config, touched []model.Touched, origin Origin, rules redact.Rules) Entry {
	e := Entry{Serial: new.Serial, Before: old.Serial, Time: float64(new.MTime), Client: origin.Client, Method: shorten(origin.Method),
		Objects: []Difference{}}
	left := maxPaths
	for i, t := range touched {
		if len(e.Objects) == maxObjects {
			e.MoreObjects = len(touched) - i
			break
		}
		of, known := kinds[t.Kind]
		if !known {
			continue
		}
		d, paths := of.difference(old, new, t, rules)
		if excess := len(paths) - left; excess > 0 {
			e.MorePaths += excess
			paths = paths[:left]
		}
		d.Unlocked = slices.Contains(origin.Unlocked, t)
		left -= len(paths)
		for _, p := range paths {
			d.Paths = append(d.Paths, p.bounded())
		}
		e.Objects = append(e.Objects, d)
	}
	return e
}

// Line encodes an entry as one line of JSON.
func (e Entry) Line() []byte {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		panic("history: " + err.Error()) // values are valid JSON
	}
	return line.Bytes()
}
