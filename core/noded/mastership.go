package noded

import (
	"encoding/json"
	"fmt"
	"time"
)

// ActivateMasterIP is the procedure that puts the cluster's address on the master's network interface.
const ActivateMasterIP Procedure = "node_activate_master_ip"

// MasterIP is the address of the cluster, which the master's node daemon configures on an interface (noded.md 5).
type MasterIP struct {
	Node     string // UUID of the master
	Address  string
	Netmask  int64 // bits
	Device   string
	Family   int64 // 2: IPv4, 10: IPv6
	External bool  // the operator's script activates the address
}

// Request encodes the call of node_activate_master_ip.
func (m MasterIP) Request() Request {
	params := struct {
		UUID    string `json:"uuid"`
		IP      string `json:"ip"`
		Netmask int64  `json:"netmask"`
		Device  string `json:"netdev"`
		Family  int64  `json:"ip_family"`
	}{m.Node, m.Address, m.Netmask, m.Device, m.Family}
	body, err := json.Marshal([]any{params, m.External})
	if err != nil {
		panic(err) // strings and numbers can always be encoded
	}
	return Request{ActivateMasterIP, body}
}

// Voting asks all nodes which node is the master, before a daemon of the master starts. After an undecided round the nodes are
// asked again after VoteInterval, VoteRetries times.
const (
	VoteInterval = 10 * time.Second
	VoteRetries  = 6
)

// Votes counts which node the nodes of a cluster take for the master, in one round of questions.
type Votes struct {
	Nodes   int // all nodes of the configuration, offline ones too
	Favor   int // name this node
	Unknown int // have not answered
}

// Won reports whether more than half of the nodes name this node.
func (v Votes) Won() bool { return 2*v.Favor > v.Nodes }

// Lost returns why this node cannot win even with all missing answers; nil if it can.
func (v Votes) Lost(self string) error {
	if 2*(v.Favor+v.Unknown) > v.Nodes {
		return nil
	}
	return fmt.Errorf("Voting cannot be won by %s: %d of %d nodes name it as the master, and %d do not answer",
		self, v.Favor, v.Nodes, v.Unknown)
}

// Count adds the answer of a node: the name of the master that it knows, or an error.
func (v *Votes) Count(self, master string, err error) {
	v.Nodes++
	switch {
	case err != nil:
		v.Unknown++
	case master == self:
		v.Favor++
	}
}
