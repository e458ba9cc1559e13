package calls

import (
	"slices"

	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
)

// Calls about addresses (config.md 4.6 and 5.5).

func quotedJSON(s string) []byte { return model.AppendText(nil, s) }

func reserveIP(a *arguments) step {
	a.count(4)
	owner := a.owner(0)
	ip := reserve.IP{Network: a.text(1), Address: a.address(2)}
	checkExt := a.flag(3)
	return func(t *tx) ([]byte, error) {
		p, err := openPool(t.config(), ip.Network)
		if err != nil {
			return nil, err
		}
		i, err := p.index(ip.Address)
		switch {
		case err != nil:
			return nil, err
		case t.Reserved.IsIPReservedBy(ip, owner):
			return void, nil // repetition
		case isSet(p.used, i):
			return nil, reservation("IP address already in use")
		case checkExt && isSet(p.ext, i):
			return nil, reservation("IP is externally reserved")
		}
		return void, t.reserveIP(ip, owner)
	}
}

func (t *tx) reserveIP(ip reserve.IP, owner lock.Owner) (err error) {
	t.Reserved, err = t.Reserved.ReserveIP(ip, owner)
	return err
}

// releaseIP reserves the release of an address of a network for the client. Whether the release is possible is checked when it is
// committed.
func releaseIP(a *arguments) step {
	a.count(3)
	owner := a.owner(0)
	ip := reserve.IP{Release: true, Network: a.text(1), Address: a.address(2)}
	return func(t *tx) ([]byte, error) { return void, t.reserveIP(ip, owner) }
}

func generateIP(a *arguments) step {
	a.count(2)
	owner := a.owner(0)
	network := a.text(1)
	return func(t *tx) ([]byte, error) {
		p, err := openPool(t.config(), network)
		if err != nil {
			return nil, err
		}
		address, found := p.free(t.Reserved)
		if !found {
			return nil, reservation("Cannot generate IP. Network is full")
		}
		return quotedJSON(model.FormatIPv4(address)), t.reserveIP(reserve.IP{Network: network, Address: address}, owner)
	}
}

func commitTemporaryIPs(a *arguments) step {
	a.count(1)
	owner := a.owner(0)
	return func(t *tx) ([]byte, error) { return void, t.commitIPs(owner) }
}

// commitIPs applies the actions of a client, releases first. The reservations stay. An action that the client committed before
// and that is still in effect is skipped: the call is a repetition (config.md 12.5).
func (t *tx) commitIPs(owner lock.Owner) error {
	type action struct {
		ip        reserve.IP
		committed bool
	}
	var actions []action
	for ip, committed := range t.Reserved.IPs(owner) {
		actions = append(actions, action{ip, committed})
	}
	p := pools{config: t.config()}
	for _, a := range slices.Backward(actions) {
		if a.committed && p.isDone(a.ip) {
			continue
		}
		if err := p.apply(a.ip); err != nil {
			return err
		}
		t.Reserved = t.Reserved.Committed(a.ip)
		t.recordConcurrent(a.ip)
	}
	p.put(t.edit)
	return nil
}

// recordConcurrent records a change that is made while another client holds the configuration lock. A change without a holder ends
// the record of the former holder, who writes nothing more.
func (t *tx) recordConcurrent(change PoolChange) {
	if !t.env.Locks.Held {
		t.ConcurrentChanges = nil
	}
	if t.env.Locks.Held && t.env.Locks.Mode != lock.Exclusive {
		t.ConcurrentChanges = append(slices.Clip(t.ConcurrentChanges), change)
	}
}

// commitReleaseTemporaryIP frees an address of a network immediately. While a client holds the configuration lock it also records that as
// a concurrent change. A repetition by the same caller succeeds.
func commitReleaseTemporaryIP(a *arguments) step {
	a.count(2)
	ip := reserve.IP{Release: true, Network: a.text(0), Address: a.address(1)}
	return func(t *tx) ([]byte, error) {
		address := model.FormatIPv4(ip.Address)
		p := pools{config: t.config()}
		if p.isDone(ip) && t.Reserved.HasFreed(ip.Network, address, t.env.Caller) {
			return void, nil
		}
		if err := p.apply(ip); err != nil {
			return nil, err
		}
		p.put(t.edit)
		t.Reserved = t.Reserved.Freed(ip.Network, address, t.env.Caller)
		t.recordConcurrent(ip)
		return void, nil
	}
}

func listReservedIPs(a *arguments) step {
	a.count(1)
	owner := a.owner(0)
	return func(t *tx) ([]byte, error) {
		dst := []byte{'['}
		for ip := range t.Reserved.IPs(owner) {
			if len(dst) > 1 {
				dst = append(dst, ',')
			}
			dst = ip.Append(dst)
		}
		return append(dst, ']'), nil
	}
}
