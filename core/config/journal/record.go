// Package journal decides what the files of the configuration say together: config.data, tempres.data, config.extra and
// config.journal.
//
// A change of the configuration, of the reservations or of lockstep's own filter rules is one Record, one line of
// config.journal. A fold writes the state to config.data, tempres.data and config.extra, and removes its records from the
// journal. Read splits the journal into records and Recover applies those that config.data does not have. After a crash at
// any step the files together have every record of a complete append. Pure.
package journal

import (
	"slices"

	"lockstep/core/config/model"
	"lockstep/core/config/ownrules"
	"lockstep/core/config/reserve"
)

// State is what the journal's records change. It is immutable. Config is not nil.
type State struct {
	Config   *model.Config
	Reserved reserve.State
	// Concurrent are changes of address pools that were made while a client held the configuration lock (config.md 12.12).
	Concurrent []reserve.IP
	Rules      ownrules.Rules // that config.data cannot have
}

// Point identifies a configuration by its content. Serial is its serial_no, for people; Hash decides.
type Point struct {
	Serial int64      `json:"serial"`
	Hash   model.Hash `json:"hash"`
}

// At returns the point of a configuration.
func At(c *model.Config) Point { return Point{c.Serial, c.Hash()} }

// Reservations are all reservations of a state, in the two forms of package reserve.
type Reservations struct {
	File  []byte // Encode: the content of tempres.data
	Extra []byte // EncodeExtra
}

// Author is who made a change and how.
type Author struct {
	Caller reserve.Caller
	Method string // of WConfD, or of lockstep's own call
	Job    int64  // 0: no job
	// Unlocked are the objects that were changed without their lock.
	Unlocked []model.Touched
}

// Record is one change of the configuration or the reservations: one line of config.journal, and the content of an entry of the log. It
// is immutable once sent.
type Record struct {
	// Number is one above the number of the previous record, from 1. A record with a lower or equal number was applied before.
	Number uint64
	From   Point // of the configuration that the record applies to
	To     Point // of the result; equal to From if the configuration does not change

	Delta []byte // model.Config.Delta; nil if the configuration does not change

	Reserved *Reservations // nil if the reservations do not change
	// Concurrent replaces State.Concurrent if ConcurrentChanged.
	Concurrent        []reserve.IP
	ConcurrentChanged bool
	Rules             ownrules.Patch // nil if the rules do not change

	Time model.Time // of the change
	Author

	// After is the configuration after the change, if the sender has it. It is not encoded: it saves the receiver in the same
	// process the decoding of Delta, and both share its objects.
	After *model.Config
}

// NewRecord returns the record of the change from before to after, which is number. touched are the objects that the change
// touched. It returns nil if nothing changes.
func NewRecord(number uint64, before, after State, touched []model.Touched, at model.Time, by Author) *Record {
	r := &Record{Number: number, From: At(before.Config), Time: at, Author: by, After: after.Config}
	r.To = r.From
	if after.Config != before.Config {
		r.To, r.Delta = At(after.Config), after.Config.Delta(touched)
	}
	if after.Reserved != before.Reserved {
		r.Reserved = &Reservations{after.Reserved.Encode(), after.Reserved.EncodeExtra()}
	}
	if !slices.Equal(after.Concurrent, before.Concurrent) {
		r.Concurrent, r.ConcurrentChanged = after.Concurrent, true
	}
	r.Rules = after.Rules.Changes(before.Rules)
	if r.Delta == nil && r.Reserved == nil && !r.ConcurrentChanged && r.Rules == nil {
		return nil
	}
	return r
}
