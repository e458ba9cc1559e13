package reserve

import (
	"encoding/json"
	"fmt"

	"lockstep/core/lock"
)

// extra is the part of the state that tempres.data has no fields for (config.md 12.5 and 12.6).
type extra struct {
	Minors    []extraMinor `json:"minors"`
	Committed []IP         `json:"committed"`
	Freed     []extraFreed `json:"freed"`
}

type extraMinor struct {
	Node   string `json:"node"`
	Minor  int64  `json:"minor"`
	Disk   string `json:"disk"`
	Caller Caller `json:"caller"`
}

type extraFreed struct {
	Key    []byte `json:"key"` // not UTF-8
	Caller Caller `json:"caller"`
}

type extraCaller struct {
	Owner   *lock.Owner `json:"owner,omitempty"`
	PID     int         `json:"pid,omitempty"`
	UID     int         `json:"uid,omitempty"`
	Program string      `json:"program,omitempty"`
}

// MarshalJSON writes {"owner":…} for a known client, else {"pid":…,"uid":…,"program":…} without zero values.
func (c Caller) MarshalJSON() ([]byte, error) {
	if c.Known {
		return json.Marshal(extraCaller{Owner: &c.Owner})
	}
	return json.Marshal(extraCaller{PID: c.PID, UID: c.UID, Program: c.Program})
}

// UnmarshalJSON reads a known client or the process that the socket reports, as MarshalJSON writes them.
func (c *Caller) UnmarshalJSON(raw []byte) error {
	var o extraCaller
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	if *c = (Caller{PID: o.PID, UID: o.UID, Program: o.Program}); o.Owner != nil {
		*c = Caller{Known: true, Owner: *o.Owner}
	}
	return nil
}

// EncodeExtra returns the part of the state that Encode omits: callers of DRBD minors, actions on addresses that are committed, and
// addresses that callers have freed without a reservation. WithExtra reads it.
func (s State) EncodeExtra() []byte {
	o := extra{Minors: []extraMinor{}, Committed: []IP{}, Freed: []extraFreed{}}
	for key, held := range s.minors.All() {
		if held.Caller != (Caller{}) {
			node, minor := splitMinor(key)
			o.Minors = append(o.Minors, extraMinor{node, minor, held.Disk, held.Caller})
		}
	}
	for key, held := range s.ips.All() {
		if held.Committed {
			o.Committed = append(o.Committed, ipOf(key))
		}
	}
	for key, by := range s.freed.All() {
		o.Freed = append(o.Freed, extraFreed{[]byte(key), by})
	}
	raw, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Errorf("reservations cannot be encoded: %w", err))
	}
	return raw
}

// WithExtra adds what EncodeExtra returned to a state from Decode. It ignores entries without a matching reservation, because
// another daemon can have written tempres.data since.
func (s State) WithExtra(raw []byte) (State, error) {
	var o extra
	if err := json.Unmarshal(raw, &o); err != nil {
		return s, fmt.Errorf("decode the owners of the reservations: %w", err)
	}
	for _, m := range o.Minors {
		key := minorKey(m.Node, m.Minor)
		if held, found := s.minors.Get(key); found && held.Disk == m.Disk {
			s.minors = s.minors.Put(key, minorReservation{m.Disk, m.Caller})
		}
	}
	for _, ip := range o.Committed {
		s = s.Committed(ip)
	}
	for _, f := range o.Freed {
		s.freed = s.freed.Put(string(f.Key), f.Caller)
	}
	return s, nil
}
