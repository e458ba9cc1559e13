package lock

// Hierarchy names the locks that imply a lock: an owner of any of these owns the lock, too, as the owner of a group
// owns its members. What it returns is never changed.
//
// Required (locks.md 1.2): every lock in the list is smaller than the given one, every lock strictly between the two
// has the smaller one in its list as well, and the list has the lists of its locks.
type Hierarchy func(Lock) []Lock

// Implied is the hierarchy of a cluster: the list of a member is the group of its level. The lists of groups, ConfigLock
// and free locks are empty.
func Implied(l Lock) []Lock {
	if l.group || l.level >= Config {
		return nil
	}
	return groups[l.level : l.level+1 : l.level+1]
}

var groups = [Config]Lock{
	{level: Cluster, group: true}, {level: Instance, group: true}, {level: NodeGroup, group: true},
	{level: Node, group: true}, {level: NodeRes, group: true}, {level: Network, group: true},
}
