package calls

import (
	"slices"

	"lockstep/core/config/model"
	"lockstep/core/lock"
)

// checked are the calls that change objects which have locks. Not among them: the calls that need the configuration's lock;
// updateCluster and the calls about ports, because the cluster has no lock; and commits of addresses, because the lock of a
// network does not protect its pool. addInstance and removeInstance change pools too, so only updateNetwork needs the lock
// of a network.
var checked = map[string]bool{
	"updateNode": true, "updateInstance": true, "updateNodeGroup": true, "updateNetwork": true, "updateDisk": true,
	"addInstance": true, "removeInstance": true, "setInstanceStatus": true, "setInstancePrimaryNode": true,
	"addInstanceDisk": true, "attachInstanceDisk": true, "detachInstanceDisk": true, "removeInstanceDisk": true,
}

// ChecksLocks reports whether the call may change an object that has a lock, so that its client should have that lock.
func (c Call) ChecksLocks() bool { return checked[c.Method] }

// Unlocked returns those of the touched objects that a client has changed or removed without their lock in exclusive mode (config.md 3.1).
// holds reports whether the client has a lock exclusively, also by a lock that covers it. New objects, and objects without a lock, are
// left out.
func (c Call) Unlocked(before, after *model.Config, touched []model.Touched, holds func(lock.Lock) bool) []model.Touched {
	var all []model.Touched
	for _, t := range touched {
		if t.Kind == model.Networks.Name && c.Method != "updateNetwork" {
			continue
		}
		if needed := locksOf(before, after, t); len(needed) > 0 && !slices.ContainsFunc(needed, holds) {
			all = append(all, t)
		}
	}
	return all
}

// locksOf are the locks of which one protects an object: that of the instance for an instance and its disks, else its own.
func locksOf(before, after *model.Config, t model.Touched) []lock.Lock {
	switch t.Kind {
	case model.Nodes.Name:
		return lockIf(before.Nodes.Has(t.UUID), lock.Node, t.UUID)
	case model.Groups.Name:
		return lockIf(before.Groups.Has(t.UUID), lock.NodeGroup, t.UUID)
	case model.Networks.Name:
		return lockIf(before.Networks.Has(t.UUID), lock.Network, t.UUID)
	case model.Instances.Name:
		o, existed := before.Instances.Get(t.UUID)
		return lockIf(existed && o.Value.Name.Set, lock.Instance, nameOf(o))
	case model.Disks.Name:
		if !before.Disks.Has(t.UUID) {
			return nil
		}
		var all []lock.Lock
		for _, c := range []*model.Config{before, after} {
			for instance := range c.DiskUsers(t.UUID) {
				if o, found := c.Instances.Get(instance); found && o.Value.Name.Set {
					all = append(all, lock.Member(lock.Instance, nameOf(o)))
				}
			}
		}
		return all
	}
	return nil
}

func nameOf(o *model.Object[model.Instance]) string {
	if o == nil {
		return ""
	}
	return o.Value.Name.Value
}

func lockIf(exists bool, level lock.Level, name string) []lock.Lock {
	if !exists {
		return nil
	}
	return []lock.Lock{lock.Member(level, name)}
}

// Holds returns the argument of Unlocked for a client with these locks. It reports whether the client holds one exclusively that protects
// a lock: the lock itself, all of its level, the BGL, all of level cluster, or the lock of the configuration.
func Holds(held []lock.Item) func(lock.Lock) bool {
	exclusive := map[lock.Lock]bool{}
	for _, i := range held {
		if i.Mode == lock.Exclusive {
			exclusive[i.Lock] = true
		}
	}
	return func(l lock.Lock) bool {
		inItself := exclusive[l] || exclusive[lock.Group(l.Level())]
		inAll := exclusive[lock.BGL] || exclusive[lock.Group(lock.Cluster)] || exclusive[lock.ConfigLock]
		return inItself || inAll
	}
}
