package calls

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
)

// Calls about instances (config.md 4.3).

func noInstance(uuid string) *Error {
	return configuration("Could not find instance with UUID " + uuid)
}

// named formats an optional name for errors as Ganeti does: Just "NAME", or Nothing.
func named(name model.Opt[string]) string {
	if !name.Set {
		return "Nothing"
	}
	return "Just " + string(model.AppendText(nil, name.Value))
}

// inUse checks the uuid of an object that is added, or that replaces an object of its kind (config.md 12.10).
func inUse(c *model.Config, uuid string, name model.Opt[string], replace, isThere bool) error {
	if replace && !isThere {
		return configuration(fmt.Sprintf("Cannot replace %s: UUID %s not present", named(name), uuid))
	}
	if !replace && c.InUse(uuid) {
		return configuration(fmt.Sprintf("Cannot add %s: UUID %s already in use", named(name), uuid))
	}
	return nil
}

// addInstance adds an instance, with the present as its times, and commits the address actions of the client. A repetition with an equal
// instance does nothing.
func addInstance(a *arguments) step {
	a.count(3)
	sent := read(a, 0, model.Instances.Decode)
	owner := a.owner(1)
	replace := a.flag(2)
	return func(t *tx) ([]byte, error) {
		instance := sent.Value
		stored, found := t.config().Instances.Get(instance.UUID)
		if found && sameInstance(stored, instance) {
			return yes, nil // repetition
		}
		if macs := macsInUse(t.config(), &instance); len(macs) > 0 {
			return nil, configuration(fmt.Sprintf("Cannot add instance %s; MAC addresses fromList [%s] already in use",
				named(instance.Name), strings.Join(macs, ",")))
		}
		if err := inUse(t.config(), instance.UUID, instance.Name, replace, found); err != nil {
			return nil, err
		}
		if err := t.commitIPs(owner); err != nil {
			return nil, err
		}
		instance.CTime, instance.MTime = t.env.Now, t.env.Now
		model.Instances.Put(t.edit, instance.UUID, instance)
		return yes, nil
	}
}

// sameInstance reports whether i equals the stored instance, except for times.
func sameInstance(stored *model.Object[model.Instance], i model.Instance) bool {
	i.CTime, i.MTime = stored.Value.CTime, stored.Value.MTime
	return bytes.Equal(model.Instances.NewObject(i).JSON(), stored.JSON())
}

// macsInUse returns the MAC addresses of an instance that other instances have, sorted and quoted.
func macsInUse(c *model.Config, i *model.Instance) []string {
	found := map[string]bool{}
	for _, nic := range i.NICs {
		for user := range c.MACUsers(nic.MAC) {
			if user != i.UUID {
				found[string(model.AppendText(nil, nic.MAC))] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// removeInstance removes an instance and releases its port and addresses. Its disks stay.
func removeInstance(a *arguments) step {
	a.count(1)
	uuid := a.text(0)
	return func(t *tx) ([]byte, error) {
		stored, found := t.config().Instances.Get(uuid)
		if !found {
			return yes, nil // repetition
		}
		instance := &stored.Value
		p := pools{config: t.config()}
		for n, nic := range instance.NICs {
			if !nic.IP.Set || !nic.Network.Set {
				continue
			}
			if err := p.release(nic.Network.Value, nic.IP.Value); err != nil {
				e := asError(err)
				return nil, failure(e.Class, fmt.Sprintf("instance %s, NIC %d: %s", instance.Name.Value, n, e.Text))
			}
		}
		p.put(t.edit)
		model.Instances.Delete(t.edit, uuid)
		t.changeCluster(func(c *model.Cluster) {
			if instance.NetworkPort.Set {
				c.PortPool = withPort(c.PortPool, instance.NetworkPort.Value)
			}
		})
		return yes, nil
	}
}

func (p *pools) release(network, address string) error {
	v, err := model.ParseIPv4(address)
	if err != nil {
		return err
	}
	return p.apply(reserve.IP{Release: true, Network: network, Address: v})
}

// setInstanceStatus sets the values that are not null, and answers with the instance. The serial number changes only if a value changes.
func setInstanceStatus(a *arguments) step {
	a.count(4)
	uuid := a.text(0)
	state := readOpt(a, 1, word("AdminState", "offline", "down", "up"))
	active := readOpt(a, 2, decodeFlag)
	source := readOpt(a, 3, word("AdminStateSource", "admin", "user"))
	return func(t *tx) ([]byte, error) {
		stored, found := t.config().Instances.Get(uuid)
		if !found {
			return nil, noInstance(uuid)
		}
		instance := stored.Value
		changed := set(&instance.AdminState, state)
		changed = set(&instance.DisksActive, active) || changed
		changed = set(&instance.AdminStateSource, source) || changed
		if changed {
			t.changeInstance(uuid, instance)
			stored, _ = t.config().Instances.Get(uuid)
		}
		return stored.JSON(), nil
	}
}

// set assigns v if it is set. It reports whether the value changed.
func set[V comparable](at *model.Opt[V], v model.Opt[V]) bool {
	if !v.Set || *at == v {
		return false
	}
	*at = v
	return true
}

// setInstancePrimaryNode does not change the serial number of the instance, because clients keep using the object that they
// read (config.md 12.18).
func setInstancePrimaryNode(a *arguments) step {
	a.count(2)
	uuid, node := a.text(0), a.text(1)
	return func(t *tx) ([]byte, error) {
		stored, found := t.config().Instances.Get(uuid)
		if !found {
			return nil, noInstance(uuid)
		}
		instance := stored.Value
		instance.PrimaryNode = model.Some(node)
		model.Instances.Put(t.edit, uuid, instance)
		return yes, nil
	}
}
