// Package reserve implements the temporary reservations of a cluster: values that clients use before they are in the
// configuration (config.md 5). A State is immutable. Pure.
package reserve

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"lockstep/core/config/model"
	"lockstep/core/config/tree"
	"lockstep/core/lock"
)

// Kind is a kind of values that are reserved by their text.
type Kind int

// The kinds of values.
const (
	MAC Kind = iota
	Secret
	LV
	kinds
)

// IP is an intended change of the address pool of a network, which a client reserves before it changes the configuration.
type IP struct {
	Release bool   `json:"release"` // free the address; else take it
	Network string `json:"network"`
	Address uint32 `json:"address"`
}

// ipReservation is a reserved action. Committed actions have been applied to the pool.
type ipReservation struct {
	Owner     lock.Owner
	Committed bool
}

// minorReservation is a DRBD minor that is reserved for a disk.
type minorReservation struct {
	Disk   string
	Caller Caller
}

// Caller identifies the sender of a call without client identity: its Owner if the process belongs to one, else the process as
// the socket reports it (config.md 12.6).
type Caller struct {
	Known    bool
	Owner    lock.Owner // if Known
	PID, UID int        // if not
	Program  string
}

// State is the set of all temporary reservations: values and addresses that a client may use before the configuration has them (config.md
// 5). The zero State is empty.
type State struct {
	values [kinds]tree.Map[lock.Owner]
	ips    tree.Map[ipReservation]
	minors tree.Map[minorReservation]
	freed  tree.Map[Caller] // addresses that commitReleaseTemporaryIp has freed, for a caller that asks again
}

// separator separates the parts of a key. It does not occur in UTF-8 text.
const separator = "\xff"

// DuplicateError reports a value that is already reserved.
type DuplicateError struct{ Resource string }

func (e *DuplicateError) Error() string {
	return "Duplicate reservation for resource '" + e.Resource + "'"
}

// Has reports whether a value is reserved.
func (s State) Has(kind Kind, value string) bool { return s.values[kind].Has(value) }

// IsReservedBy reports whether a client has reserved a value.
func (s State) IsReservedBy(kind Kind, value string, o lock.Owner) bool {
	of, found := s.values[kind].Get(value)
	return found && of == o
}

// Reserve reserves a value for a client. A repetition by the same client succeeds (config.md 12.5). The error is a
// *DuplicateError.
func (s State) Reserve(kind Kind, value string, o lock.Owner) (State, error) {
	if s.IsReservedBy(kind, value, o) {
		return s, nil
	}
	if s.Has(kind, value) {
		shown := value
		if kind != LV {
			shown = string(model.AppendText(nil, value))
		}
		return s, &DuplicateError{shown}
	}
	s.values[kind] = s.values[kind].Put(value, o)
	return s, nil
}

// key returns a key that sorts reserves before releases, then by network and address.
func (ip IP) key() string {
	action := "0"
	if ip.Release {
		action = "1"
	}
	return fmt.Sprintf("%s%s%s%010d", action, ip.Network, separator, ip.Address)
}

func ipOf(key string) IP {
	network, digits, _ := strings.Cut(key[1:], separator)
	ip := IP{Release: key[0] == '1', Network: network}
	for _, d := range digits {
		ip.Address = ip.Address*10 + uint32(d-'0')
	}
	return ip
}

// String formats the action for errors, as clients know it.
func (ip IP) String() string {
	action := "Reserve"
	if ip.Release {
		action = "Release"
	}
	return fmt.Sprintf("IPv4Res {ipv4ResAction = IPv4%s, ipv4ResNetwork = %s, ipv4ResAddr = %s}",
		action, model.AppendText(nil, ip.Network), model.FormatIPv4(ip.Address))
}

// IsIPReservedBy reports whether a client has reserved an action.
func (s State) IsIPReservedBy(ip IP, o lock.Owner) bool {
	held, found := s.ips.Get(ip.key())
	return found && held.Owner == o
}

// ReserveIP reserves an action for a client, like Reserve. The error is a *DuplicateError if another client has reserved the action.
func (s State) ReserveIP(ip IP, o lock.Owner) (State, error) {
	held, found := s.ips.Get(ip.key())
	switch {
	case found && held.Owner == o:
		return s, nil
	case found:
		return s, &DuplicateError{ip.String()}
	}
	s.ips = s.ips.Put(ip.key(), ipReservation{Owner: o})
	return s, nil
}

// IPs iterates over the actions of a client and whether they are committed, in the order of listReservedIps.
func (s State) IPs(o lock.Owner) iter.Seq2[IP, bool] {
	return func(yield func(IP, bool) bool) {
		for key, held := range s.ips.All() {
			if held.Owner == o && !yield(ipOf(key), held.Committed) {
				return
			}
		}
	}
}

// IPReserved reports whether an action for an address is reserved.
func (s State) IPReserved(network string, address uint32) bool {
	return s.ips.Has(IP{false, network, address}.key()) || s.ips.Has(IP{true, network, address}.key())
}

// Committed returns the state in which a reserved action is marked as applied. Without a reservation the state stays as it is.
func (s State) Committed(ip IP) State {
	if held, found := s.ips.Get(ip.key()); found {
		held.Committed = true
		s.ips = s.ips.Put(ip.key(), held)
	}
	return s
}

// Freed records that a caller freed an address without a reservation.
func (s State) Freed(network, address string, by Caller) State {
	s.freed = s.freed.Put(network+separator+address, by)
	return s
}

// HasFreed reports whether a caller has freed an address.
func (s State) HasFreed(network, address string, by Caller) bool {
	caller, found := s.freed.Get(network + separator + address)
	return found && caller == by
}

// Drop releases the reservations of a client, except DRBD minors.
func (s State) Drop(o lock.Owner) State {
	return s.dropClients(func(of lock.Owner) bool { return of == o })
}

func (s State) dropClients(of func(lock.Owner) bool) State {
	for kind := range s.values {
		s.values[kind] = without(s.values[kind], of)
	}
	s.ips = without(s.ips, func(held ipReservation) bool { return of(held.Owner) })
	s.freed = without(s.freed, func(c Caller) bool { return c.Known && of(c.Owner) })
	return s
}

// DropDead releases the reservations of dead callers. Their DRBD minors are released if the disk is not in the configuration.
func (s State) DropDead(isDead func(Caller) bool, inConfig func(disk string) bool) State {
	s = s.dropClients(func(o lock.Owner) bool { return isDead(Caller{Known: true, Owner: o}) })
	s.freed = without(s.freed, isDead)
	s.minors = without(s.minors, func(held minorReservation) bool { return !inConfig(held.Disk) && isDead(held.Caller) })
	return s
}

func without[V any](m tree.Map[V], drop func(V) bool) tree.Map[V] {
	for key, v := range m.All() {
		if drop(v) {
			m = m.Delete(key)
		}
	}
	return m
}

// Callers returns the owners of all reservations and the callers that have freed addresses, each once. Minors from another daemon's file
// have a zero Caller.
func (s State) Callers() []Caller {
	var all []Caller
	add := func(c Caller) {
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	for _, values := range s.values {
		for _, o := range values.All() {
			add(Caller{Known: true, Owner: o})
		}
	}
	for _, held := range s.ips.All() {
		add(Caller{Known: true, Owner: held.Owner})
	}
	for _, held := range s.minors.All() {
		add(held.Caller)
	}
	for _, c := range s.freed.All() {
		add(c)
	}
	return all
}
