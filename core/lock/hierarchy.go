package lock

// Hierarchy names the locks that are held along with one: owning any of these is owning it, too, as the owner of a group
// owns its members. What it returns is never changed.
//
// Required (locks.md 1.2): every implied lock is smaller than the one that implies it, every lock strictly between the
// two implies it as well, and what an implied lock implies is in the list.
type Hierarchy func(Lock) []Lock

// Implied is the lattice of a cluster: a member implies the group of its level, groups and ConfigLock imply nothing.
func Implied(l Lock) []Lock {
	if l.group || l.level == Config {
		return nil
	}
	return groups[l.level : l.level+1 : l.level+1]
}

var groups = [Config]Lock{
	{level: Cluster, group: true}, {level: Instance, group: true}, {level: NodeGroup, group: true},
	{level: Node, group: true}, {level: NodeRes, group: true}, {level: Network, group: true},
}
