package answer

// Nodes answers LockstepNodes: the nodes of the cluster. A node outside of a cluster has no name.
type Nodes struct {
	Self          string `json:"self"`
	Master        string `json:"master"` // empty: unknown
	MasterAddress string `json:"master_address"`
	// Console is the address of the console of the node that answers; empty: it has none.
	Console string `json:"console,omitempty"`
	// Monitor is the address of the MonD of the node that answers, like "http://127.0.0.1:1815"; empty: it has none.
	Monitor string `json:"monitor,omitempty"`
	Nodes   []Node `json:"nodes"`
	// Files is what the master knows of the files of all nodes; absent: no comparison has ended, or another node answers.
	Files *FilesCompared `json:"files,omitempty"`
}

// FilesCompared is the result of the comparisons of the nodes' files that the master makes in the background.
type FilesCompared struct {
	At        Time            `json:"at_ts"`     // the end of the last comparison
	Compared  int64           `json:"compared"`  // files of the master, in that comparison
	Repaired  int64           `json:"repaired"`  // files that were replaced on other nodes since the node is master
	Contested []ContestedFile `json:"contested"` // the master agrees with no majority about them; nothing was changed
}

// ContestedFile is a file on which the nodes do not agree.
type ContestedFile struct {
	Path  string   `json:"path"`
	Nodes []string `json:"nodes"` // their file differs from the master's
}

// Node is the state of one node of the cluster.
type Node struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Voter   bool   `json:"voter"`
	Master  bool   `json:"master"`
	Answers bool   `json:"answers"`
	Applied uint64 `json:"applied"` // index of the last entry on its disk
	Behind  uint64 `json:"behind"`  // how many entries the node has less than the node with most entries
	Error   string `json:"error"`   // why the node does not answer, or what is wrong with it
	// Joining: the node will have a vote and has none yet, or its disk says that it belongs to the cluster and the
	// master has not confirmed this yet.
	Joining bool `json:"joining"`
	// Console is the address of the node's console; empty: it has none, or does not answer.
	Console string `json:"console,omitempty"`
}

// NodesCheck answers LockstepNodeCheck: the files of each node compared with the master's.
type NodesCheck struct {
	Files int64       `json:"files,omitempty"` // number of compared files
	Nodes []NodeCheck `json:"nodes"`
}

// NodeCheck is the result of comparing one node with the master.
type NodeCheck struct {
	Name     string           `json:"name"`
	Answers  bool             `json:"answers"`
	Error    string           `json:"error"`
	Differs  []FileDifference `json:"differs"`
	Repaired int64            `json:"repaired"` // how many of Differs were repaired
}

// FileDifference is a file that differs from the master's.
type FileDifference struct {
	Path string `json:"path"` // below the data directory
	What string `json:"what"`
}
