package study

import (
	"fmt"
	"math"
	"slices"

	"lockstep/sim"
)

// The jobs of the mixes. They lock what Ganeti's logical units lock, as in core/opcode's table of
// declarations. Ganeti releases some of the locks before the end; these jobs hold them all the
// time.

// power starts, stops or reboots an instance, or a few: OP_INSTANCE_STARTUP.
func (p *planner) power() {
	for range 1 + p.rng.IntN(3) {
		p.add("power", p.op(p.drawSeconds(3, 60), "instance/"+p.anyInstance().name))
	}
}

// query adds a job that reads an instance: OP_INSTANCE_QUERY_DATA.
func (p *planner) query() {
	i := p.anyInstance()
	locks := append([]string{"instance/" + i.name + ":shared"}, nodeLocks("node", ":shared", i.primary, i.secondary)...)
	p.add("query", p.op(p.drawSeconds(1, 5), locks...))
}

// create creates instances, on nodes that the operator has chosen: OP_INSTANCE_CREATE, in bulk.
// If there are many, it removes some.
func (p *planner) create() {
	n := 4 + p.rng.IntN(28)
	if len(p.instances) > p.nodes*instancesPerNode*5/4 {
		p.remove(min(n, len(p.instances)/2))
		return
	}
	for range n {
		i := p.newInstance()
		p.add("create", p.op(p.drawSeconds(60, 600), exclusiveLocks(i, i.primary, i.secondary)...))
	}
}

// remove adds jobs that remove n instances: OP_INSTANCE_REMOVE.
func (p *planner) remove(n int) {
	for range n {
		at := p.rng.IntN(len(p.instances))
		i := p.instances[at]
		p.instances = slices.Delete(p.instances, at, at+1)
		p.add("remove", p.op(p.drawSeconds(10, 60), exclusiveLocks(i, i.primary, i.secondary)...))
	}
}

// replaceDisks repairs the mirrors of some instances of one node: OP_INSTANCE_REPLACE_DISKS.
func (p *planner) replaceDisks() {
	node := p.rng.IntN(p.nodes)
	for _, i := range p.on(node)[:min(len(p.on(node)), 1+p.rng.IntN(6))] {
		p.add("replace-disks", p.op(p.drawSeconds(120, 1200), exclusiveLocks(i, i.primary, i.secondary)...))
	}
}

// verify reads everything: OP_CLUSTER_VERIFY_GROUP, with a single group.
func (p *planner) verify() {
	p.add("verify", p.op(p.drawSeconds(30, 240), "instance/[lockset]:shared", "nodegroup/default:shared", "node/[lockset]:shared"))
}

// clusterLock changes the whole cluster: OP_NODE_ADD and the like.
func (p *planner) clusterLock() {
	p.add("big-lock", p.op(p.drawSeconds(2, 20), "cluster/BGL"))
}

// maintain takes a node exclusively for a long time.
func (p *planner) maintain() { p.maintainNode(p.rng.IntN(p.nodes)) }

func (p *planner) maintainNode(node int) {
	locks := slices.Concat(nodeLocks("node", "", node), nodeLocks("node-res", "", node))
	p.add("maintenance", p.op(p.drawSeconds(1800, 5400), locks...))
}

// evacuate empties a node: first a plan (OP_NODE_EVACUATE), then a job for each instance, of two
// opcodes if the instance must fail over first.
func (p *planner) evacuate() { p.evacuateNode(p.rng.IntN(p.nodes)) }

// evacuateAndMaintain adds the jobs that empty a node, and one that then takes it exclusively.
func (p *planner) evacuateAndMaintain() {
	node := p.rng.IntN(p.nodes)
	p.evacuateNode(node)
	p.maintainNode(node)
}

func (p *planner) evacuateNode(node int) {
	there := p.on(node)
	locks := []string{"nodegroup/default:shared", "node/[lockset]:shared"}
	for _, i := range there {
		locks = append(locks, "instance/"+i.name+":shared")
	}
	p.add("evacuation-plan", p.op(p.drawSeconds(5, 20), locks...))
	for _, i := range there {
		var ops []sim.OpSpec
		if i.primary == node {
			ops = append(ops, p.op(p.drawSeconds(20, 120), exclusiveLocks(i, i.primary, i.secondary)...))
			i.primary, i.secondary = i.secondary, i.primary
		}
		fresh := p.otherNode(i.primary, i.secondary)
		ops = append(ops, p.op(p.drawSeconds(60, 600), exclusiveLocks(i, i.primary, i.secondary, fresh)...))
		i.secondary = fresh
		p.add("evacuation", ops...)
	}
}

// burstOfDisks adds jobs that repair the mirrors of all instances of two nodes.
func (p *planner) burstOfDisks() {
	for range 2 {
		for _, i := range p.on(p.rng.IntN(p.nodes)) {
			p.add("replace-disks", p.op(p.drawSeconds(120, 1200), exclusiveLocks(i, i.primary, i.secondary)...))
		}
	}
}

// burstOfCreations adds jobs that create 60 instances or, if there are many, remove 60.
func (p *planner) burstOfCreations() {
	if len(p.instances) > p.nodes*instancesPerNode*5/4 {
		p.remove(60)
		return
	}
	for range 60 {
		i := p.newInstance()
		p.add("create", p.op(p.drawSeconds(60, 600), exclusiveLocks(i, i.primary, i.secondary)...))
	}
}

// nodesPerStorage is how many nodes share a storage, which has a free lock.
const nodesPerStorage = 4

func storageLock(node int, mode string) string {
	return fmt.Sprintf("lock/storage%d%s", node/nodesPerStorage, mode)
}

// storageCopy copies an instance's disk from one node of a storage to another, with the storage to itself in one case of
// three.
func (p *planner) storageCopy() {
	node, mode := p.rng.IntN(p.nodes), ":shared"
	if p.rng.IntN(3) == 0 {
		mode = ""
	}
	p.add("storage-copy",
		p.op(p.drawSeconds(60, 900), "instance/"+p.anyInstance().name, fmt.Sprintf("node/n%d", node+1), storageLock(node, mode)))
}

// storageSnapshot reads a storage for a moment, some of them at once.
func (p *planner) storageSnapshot() {
	for range 1 + p.rng.IntN(8) {
		p.add("storage-snapshot", p.op(p.drawSeconds(2, 20), "instance/"+p.anyInstance().name, storageLock(p.rng.IntN(p.nodes), ":shared")))
	}
}

// storageCheck adds a job that takes a storage and all of its nodes.
func (p *planner) storageCheck() {
	first := p.rng.IntN(p.nodes) / nodesPerStorage * nodesPerStorage
	locks := []string{storageLock(first, "")}
	for node := first; node < min(first+nodesPerStorage, p.nodes); node++ {
		locks = append(locks, fmt.Sprintf("node/n%d", node+1))
	}
	p.add("storage-check", p.op(p.drawSeconds(300, 3600), locks...))
}

// longTail works on a node for a time with a Pareto distribution: from 10 s to a day, with a mean of about three
// minutes. All have one kind, so their durations cannot be known.
func (p *planner) longTail() {
	seconds := min(math.Round(100/math.Pow(1-p.rng.Float64(), 1/1.1))/10, 86_400)
	p.workSeconds += seconds
	node := p.rng.IntN(p.nodes)
	p.add("long-tail", p.op(seconds, "instance/"+p.anyInstance().name, fmt.Sprintf("node/n%d", node+1)))
}

// on are the instances on a node, as primary or secondary.
func (p *planner) on(node int) []*instance {
	var there []*instance
	for _, i := range p.instances {
		if i.primary == node || i.secondary == node {
			there = append(there, i)
		}
	}
	return there
}

// exclusiveLocks are the locks of an instance and of nodes with their resources.
func exclusiveLocks(i *instance, nodes ...int) []string {
	return slices.Concat([]string{"instance/" + i.name}, nodeLocks("node", "", nodes...), nodeLocks("node-res", "", nodes...))
}

func nodeLocks(level, mode string, nodes ...int) []string {
	locks := make([]string, len(nodes))
	for i, n := range nodes {
		locks[i] = fmt.Sprintf("%s/n%d%s", level, n+1, mode)
	}
	return locks
}
