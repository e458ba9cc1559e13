package reserve

import (
	"encoding/json"
	"fmt"

	"lockstep/core/lock"
)

// extra is the part of the state that tempres.data has no fields for (config.md 12.5 and 12.6).
type extra struct {
	Minors    []extraMinor `json:"minors"`
	Committed []extraIP    `json:"committed"`
	Freed     []extraFreed `json:"freed"`
}

type extraMinor struct {
	Node   string      `json:"node"`
	Minor  int64       `json:"minor"`
	Disk   string      `json:"disk"`
	Caller extraCaller `json:"caller"`
}

type extraIP struct {
	Release bool   `json:"release"`
	Network string `json:"network"`
	Address uint32 `json:"address"`
}

type extraFreed struct {
	Key    []byte      `json:"key"` // not UTF-8
	Caller extraCaller `json:"caller"`
}

type extraCaller struct {
	Owner   *lock.Owner `json:"owner,omitempty"`
	PID     int         `json:"pid,omitempty"`
	UID     int         `json:"uid,omitempty"`
	Program string      `json:"program,omitempty"`
}

func (c Caller) extra() extraCaller {
	if c.Known {
		return extraCaller{Owner: &c.Owner}
	}
	return extraCaller{PID: c.PID, UID: c.UID, Program: c.Program}
}

func (o extraCaller) caller() Caller {
	if o.Owner != nil {
		return Caller{Known: true, Owner: *o.Owner}
	}
	return Caller{PID: o.PID, UID: o.UID, Program: o.Program}
}

// EncodeExtra returns the part of the state that Encode omits: callers of DRBD minors, and committed actions.
func (s State) EncodeExtra() []byte {
	o := extra{Minors: []extraMinor{}, Committed: []extraIP{}, Freed: []extraFreed{}}
	for key, held := range s.minors.All() {
		if held.Caller != (Caller{}) {
			node, minor := splitMinor(key)
			o.Minors = append(o.Minors, extraMinor{node, minor, held.Disk, held.Caller.extra()})
		}
	}
	for key, held := range s.ips.All() {
		if held.Committed {
			o.Committed = append(o.Committed, extraIP(ipOf(key)))
		}
	}
	for key, by := range s.freed.All() {
		o.Freed = append(o.Freed, extraFreed{[]byte(key), by.extra()})
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
		return s, fmt.Errorf("the owners of the reservations: %w", err)
	}
	for _, m := range o.Minors {
		key := minorKey(m.Node, m.Minor)
		if held, found := s.minors.Get(key); found && held.Disk == m.Disk {
			s.minors = s.minors.Put(key, minorReservation{m.Disk, m.Caller.caller()})
		}
	}
	for _, ip := range o.Committed {
		s = s.Committed(IP(ip))
	}
	for _, f := range o.Freed {
		s.freed = s.freed.Put(string(f.Key), f.Caller.caller())
	}
	return s, nil
}
