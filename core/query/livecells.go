package query

import (
	"lockstep/core/noded"
)

func noData() Value { return Value{Status: NoData} }

// liveOnNode is a value of a node that node_info reports. It has the status Offline for an offline node, is unavailable where no node
// daemons are asked, and has no data if the node has not answered.
func liveOnNode(value func(*noded.NodeFacts) Value) func(*ObjectItem) Value {
	return func(t *ObjectItem) Value {
		switch {
		case t.Object.Flag("offline"):
			return Value{Status: Offline}
		case t.live == nil:
			return unavailable()
		}
		n := t.live.nodes[t.UUID]
		if n == nil || n.facts == nil {
			return noData()
		}
		return value(n.facts)
	}
}

func bootID(f *noded.NodeFacts) Value { return normal(f.BootID) }

// ofStorage is a value of the first storage unit that is one of physical volumes, or of the first one that is not.
func ofStorage(physical bool, value func(*noded.StorageFacts) *int64) func(*ObjectItem) Value {
	return liveOnNode(func(f *noded.NodeFacts) Value {
		for i := range f.Storage {
			if s := &f.Storage[i]; (s.Type == noded.TypePhysicalVolumes) == physical {
				return known(value(s))
			}
		}
		return noData()
	})
}

func storageSize(s *noded.StorageFacts) *int64 { return s.Size }
func storageFree(s *noded.StorageFacts) *int64 { return s.Free }

// hypervisorField is a field whose value is one of the first hypervisor.
func hypervisorField(name, title string, kind FieldType, doc string, value func(*noded.HypervisorFacts) *int64) Field[ObjectItem] {
	return liveField(LiveHypervisor, field(name, title, kind, doc, ofHypervisor(value)))
}

// ofHypervisor is a value of the first hypervisor that a node reports; no data if it reports none.
func ofHypervisor(value func(*noded.HypervisorFacts) *int64) func(*ObjectItem) Value {
	return liveOnNode(func(f *noded.NodeFacts) Value {
		if len(f.Hypervisors) == 0 {
			return noData()
		}
		return known(value(&f.Hypervisors[0]))
	})
}

func known(n *int64) Value {
	if n == nil {
		return noData()
	}
	return normal(*n)
}

// exportName is the name of an export. The row of a node that has not answered has none.
func exportName(t *ObjectItem) Value {
	switch {
	case t.export != "":
		return normal(t.export)
	case t.Object.Flag("offline"):
		return Value{Status: Offline}
	case t.live == nil:
		return unavailable()
	}
	return noData()
}

// sight is where an instance was seen.
type sight uint8

const (
	seenNowhere    sight = iota // its primary node has answered
	seenOnPrimary               // also if another node has it
	seenElsewhere               // on another node
	primaryOffline              // not seen, and the primary node was not asked
	primaryDown                 // not seen, and the primary node has not answered
)

// look returns where nodes have seen an instance, and what the node says of it. It may be called only if nodes were asked.
func (t *ObjectItem) look() (sight, noded.InstanceFacts) {
	name := t.Object.Text("name")
	primary := t.live.nodes[t.Object.Text("primary_node")]
	if primary != nil {
		if facts, found := primary.instances[name]; found {
			return seenOnPrimary, facts
		}
	}
	if facts, found := t.live.found[name]; found {
		return seenElsewhere, facts
	}
	switch {
	case t.primary().Flag("offline"):
		return primaryOffline, noded.InstanceFacts{}
	case primary == nil || primary.instances == nil:
		return primaryDown, noded.InstanceFacts{}
	}
	return seenNowhere, noded.InstanceFacts{}
}

// liveOnPrimary is a value of an instance that nodes know. Where no node daemons are asked it is unavailable, or offline if the primary
// node is marked offline. A planned instance is on no node.
func liveOnPrimary(value func(*ObjectItem, sight, noded.InstanceFacts) Value) func(*ObjectItem) Value {
	return func(t *ObjectItem) Value {
		switch {
		case t.live != nil && !t.Object.Flag("forthcoming"):
			where, facts := t.look()
			return value(t, where, facts)
		case t.primary().Flag("offline"):
			return Value{Status: Offline}
		}
		return unavailable()
	}
}

func (s sight) seen() bool { return s == seenOnPrimary || s == seenElsewhere }

func instanceRuns(_ *ObjectItem, where sight, _ noded.InstanceFacts) Value {
	if where == primaryOffline || where == primaryDown {
		return noData()
	}
	return normal(where.seen())
}

// ifSeen is a value of what a node says of an instance. An instance that no node has seen has no value: offline or no data if its primary
// node did not answer, else unavailable.
func ifSeen(value func(noded.InstanceFacts) int64) func(*ObjectItem) Value {
	return liveOnPrimary(func(_ *ObjectItem, where sight, facts noded.InstanceFacts) Value {
		switch {
		case where.seen():
			return normal(value(facts))
		case where == primaryOffline:
			return Value{Status: Offline}
		case where == primaryDown:
			return noData()
		}
		return unavailable()
	})
}

func instanceMemory(f noded.InstanceFacts) int64 { return f.Memory }
func instanceVCPUs(f noded.InstanceFacts) int64  { return f.VCPUs }

func instanceConsole(t *ObjectItem, where sight, _ noded.InstanceFacts) Value {
	if where == primaryOffline {
		return Value{Status: Offline}
	}
	if console, found := t.live.consoles[t.Object.Text("name")]; found {
		return normal(console)
	}
	return noData()
}

// instanceStatus compares what nodes say with what the operator wants (live.md 3).
func instanceStatus(t *ObjectItem, where sight, facts noded.InstanceFacts) Value {
	if t.primary().Flag("offline") {
		return normal("ERROR_nodeoffline")
	}
	wanted := t.Object.Text("admin_state")
	up := wanted == "up"
	switch {
	case where == seenElsewhere:
		return normal("ERROR_wrongnode")
	case where == primaryDown:
		return normal("ERROR_nodedown")
	case where == seenOnPrimary && facts.State == noded.InstanceRunning:
		return normal(choose(up, "running", "ERROR_up"))
	case where == seenOnPrimary:
		return normal(choose(up, choose(t.mayShutDown(), "USER_down", "ERROR_down"), "ADMIN_down"))
	case up:
		return normal("ERROR_down")
	case wanted == "offline":
		return normal("ADMIN_offline")
	}
	byUser := t.Object.Text("admin_state_source") == "user" && t.Document.Cluster.Flag("enabled_user_shutdown")
	return normal(choose(byUser, "USER_down", "ADMIN_down"))
}

func choose(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// mayShutDown reports whether the user of an instance may shut it down.
func (t *ObjectItem) mayShutDown() bool {
	return t.Document.Cluster.Flag("enabled_user_shutdown") && (t.Object.Text("hypervisor") != "kvm" || hypervisor(t).Flag("user_shutdown"))
}
