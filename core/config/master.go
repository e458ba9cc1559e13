package config

import "lockstep/core/config/model"

// Master is the new master. UUID is used if the configuration does not have a node with its name. IP is the address at
// which other nodes reach it.
type Master struct {
	Name string
	UUID string
	IP   string
}

// SetMaster makes a node the master, and a candidate. It adds an unknown node, in the group of the former master. It
// returns the same configuration if the node is already the master, else also the objects that have changed.
func SetMaster(c *model.Config, now model.Time, m Master) (*model.Config, []model.Touched) {
	former := c.Cluster.Value.MasterNode
	e := c.Edit()
	uuid, known := model.Nodes.ByName(c, m.Name)
	switch stored, _ := c.Nodes.Get(uuid); {
	case known && uuid == former:
		return c, nil
	case known && !stored.Value.MasterCandidate:
		node := stored.Value
		node.MasterCandidate = true
		model.Nodes.Put(e, uuid, node)
	case !known:
		uuid = m.UUID
		model.Nodes.Put(e, uuid, newNode(c, now, m))
	}
	cluster := c.Cluster.Value
	cluster.MasterNode = uuid
	cluster.Serial++
	cluster.MTime = now
	e.SetCluster(cluster)
	return e.Commit(now)
}

// newNode is a node in the group of the present master.
func newNode(c *model.Config, now model.Time, m Master) model.Node {
	node := model.Node{Name: m.Name, PrimaryIP: m.IP, SecondaryIP: m.IP, MasterCandidate: true, MasterCapable: true, VMCapable: true,
		Powered: true, Stamp: model.Stamp{CTime: now, MTime: now, UUID: m.UUID, Serial: 1}}
	if former, found := c.Nodes.Get(c.Cluster.Value.MasterNode); found {
		node.Group = former.Value.Group
	}
	return node
}
