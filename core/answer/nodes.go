package answer

// Nodes answers LockstepNodes: the nodes of the cluster. A node that belongs to no
// cluster has no name.
type Nodes struct {
	Self          string `json:"self"`
	Master        string `json:"master"` // empty: none is known
	MasterAddress string `json:"master_address"`
	Nodes         []Node `json:"nodes"`
}

// Node is how one node of the cluster stands.
type Node struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Voter   bool   `json:"voter"`
	Master  bool   `json:"master"`
	Answers bool   `json:"answers"`
	Applied uint64 `json:"applied"` // index of the last entry on its disk
	Behind  uint64 `json:"behind"`  // the node that has most, in entries
	Error   string `json:"error"`   // why it does not answer, or what is wrong with it
	// Joining: it is to have a vote, and has none yet; or it belongs to the cluster by
	// what it has on its disk, and has not heard from the master yet.
	Joining bool `json:"joining"`
}

// NodesCheck answers LockstepNodeCheck: the files of each node compared with the master's.
type NodesCheck struct {
	Files int64       `json:"files"` // that were compared
	Nodes []NodeCheck `json:"nodes"`
}

// NodeCheck is what came of comparing one node with the master.
type NodeCheck struct {
	Name     string           `json:"name"`
	Answers  bool             `json:"answers"`
	Error    string           `json:"error"`
	Differs  []FileDifference `json:"differs"`
	Repaired int64            `json:"repaired"` // of Differs
}

// FileDifference is a file that is not as the master's.
type FileDifference struct {
	Path string `json:"path"` // below the data directory
	What string `json:"what"`
}
