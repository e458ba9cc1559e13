package calls

import (
	"fmt"
	"strings"

	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
)

// PoolChange takes an address of a network from its pool, or gives it back.
type PoolChange = reserve.IP

// Prefix lengths of networks without stored pools (config.md 12.7).
const (
	prefixMin = 16
	prefixMax = 30
)

// pool is the address pools of a network. used and ext have a 0 or 1 per address.
type pool struct {
	uuid   string
	object model.Network
	base   uint32
	prefix int
	used   []byte
	ext    string
	edited bool
}

func noNetwork(uuid string) *Error {
	return reservation(fmt.Sprintf("Network '%s' not found", model.AppendText(nil, uuid)))
}

// openPool returns the pools of a network. An absent pool has no used address. The error is about an unknown network, an invalid one, or
// one that is too large for a pool.
func openPool(c *model.Config, uuid string) (*pool, error) {
	stored, found := c.Networks.Get(uuid)
	if !found {
		return nil, noNetwork(uuid)
	}
	n := stored.Value
	base, prefix, err := model.ParseCIDR(n.Network)
	if err != nil {
		return nil, err
	}
	if !n.Reservations.Set || !n.ExtReservations.Set {
		if err := checkSize(prefix); err != nil {
			return nil, err
		}
	}
	p := &pool{uuid: uuid, object: n, base: base, prefix: prefix, used: []byte(n.Reservations.Value), ext: n.ExtReservations.Value}
	if !n.Reservations.Set {
		p.used = []byte(strings.Repeat("0", 1<<(32-prefix)))
	}
	if !n.ExtReservations.Set {
		p.ext = strings.Repeat("0", 1<<(32-prefix))
	}
	return p, nil
}

func checkSize(prefix int) error {
	hosts := uint64(1) << (32 - prefix)
	if prefix < prefixMin {
		return reservation(fmt.Sprintf(
			"A big network with %d host(s) is currently not supported, please specify at most a /%d network", hosts, prefixMin))
	}
	if prefix > prefixMax {
		return reservation(fmt.Sprintf("A network with only %d host(s) is too small, please specify at least a /%d network", hosts, prefixMax))
	}
	return nil
}

// index returns the index of an address in the pool. The error is about an address outside the network.
func (p *pool) index(address uint32) (int, error) {
	i := uint64(address) - uint64(p.base)
	if address < p.base || i >= uint64(1)<<(32-p.prefix) {
		return 0, reservation(fmt.Sprintf("Address '%s' not in the network '%s %s'", model.FormatIPv4(address), p.object.Name, p.object.Network))
	}
	return int(i), nil
}

// isSet reports whether bit i is 1. Bits beyond the end are 0.
func isSet[S string | []byte](bits S, i int) bool { return i < len(bits) && bits[i] == '1' }

// free returns the lowest address that is in neither pool and in no reservation. found is false if all are taken.
func (p *pool) free(r reserve.State) (address uint32, found bool) {
	for i := range min(len(p.used), len(p.ext)) {
		address = p.base + uint32(i)
		if !isSet(p.used, i) && !isSet(p.ext, i) && !r.IPReserved(p.uuid, address) {
			return address, true
		}
	}
	return 0, false
}

// pools collects changes of several pools. They are stored only if all of them succeed.
type pools struct {
	config *model.Config
	opened []*pool
}

func (p *pools) open(uuid string) (*pool, error) {
	for _, o := range p.opened {
		if o.uuid == uuid {
			return o, nil
		}
	}
	o, err := openPool(p.config, uuid)
	if err == nil {
		p.opened = append(p.opened, o)
	}
	return o, err
}

// isDone reports whether a reservation or release of an address is already in effect. It is false for an unknown network and for an
// address outside it.
func (p *pools) isDone(ip reserve.IP) bool {
	o, err := p.open(ip.Network)
	if err != nil {
		return false
	}
	i, err := o.index(ip.Address)
	return err == nil && isSet(o.used, i) != ip.Release
}

// apply takes an address out of a network's pool, or returns it, as a reservation says. It fails if the address is in that state already.
func (p *pools) apply(ip reserve.IP) error {
	o, err := p.open(ip.Network)
	if err != nil {
		return err
	}
	i, err := o.index(ip.Address)
	if err != nil {
		return err
	}
	switch used := isSet(o.used, i); {
	case used && !ip.Release:
		return reservation(fmt.Sprintf("IP %s is already used by an instance", model.FormatIPv4(ip.Address)))
	case !used && ip.Release:
		return reservation(fmt.Sprintf("IP %s is not used by an instance", model.FormatIPv4(ip.Address)))
	case i >= len(o.used):
		return generic(fmt.Sprintf("Index out of bounds: %d", i))
	}
	if o.used[i] = '1'; ip.Release {
		o.used[i] = '0'
	}
	o.edited = true
	return nil
}

// put stores the changed pools. Serial numbers of the networks do not change (config.md 4.6).
func (p *pools) put(e *model.Edit) {
	for _, o := range p.opened {
		if !o.edited {
			continue
		}
		n := o.object
		n.Reservations = model.Some(string(o.used))
		model.Networks.Put(e, o.uuid, n)
	}
}

// reapply returns c with changes applied that are possible in c and not in effect.
func reapply(c *model.Config, changes []PoolChange) *model.Config {
	if len(changes) == 0 {
		return c
	}
	p := pools{config: c}
	for _, change := range changes {
		if !p.isDone(change) {
			_ = p.apply(change) // impossible changes are dropped
		}
	}
	e := c.Edit()
	p.put(e)
	return e.Config()
}
