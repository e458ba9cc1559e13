package distributor

import (
	"lockstep/core/config/model"
	"lockstep/core/distribution"
)

// Announce asks for the incarnation of the distributor. The answer is Started.
type Announce struct{}

// Started says that an incarnation of the distributor works. It knows nothing of what earlier ones were told. Clients get it at
// each start.
type Started struct{ Incarnation uint64 } // 1 and more

// Distribute tells of a configuration that is durable on this node. It has no answer. A configuration replaces the ones of
// earlier messages, whatever its serial number is. The configuration is not encoded by the sender.
type Distribute struct{ Config *model.Config }

// Await asks for AwaitResult when the required nodes have acknowledged the newest configuration so far, or were given up
// (distribution.Tracker.Await), at the latest after distribution.AwaitMax. A repeated Await has the same number and sender.
type Await struct {
	Request uint64 // unique per sender
	Group   string // uuid of a node group whose nodes are required; "": all nodes
	Force   bool   // send to nodes that have acknowledged the content, too (flushConfig, flushConfigGroup)
}

// AwaitResult answers Await. It does not say which nodes have the configuration.
type AwaitResult struct{ Request uint64 }

// GetNodes asks which configuration each node has acknowledged.
type GetNodes struct{ Request uint64 }

// GetNodesResult answers GetNodes with the state of each node.
type GetNodesResult struct {
	Request uint64
	Serial  int64                    // of the newest configuration; 0: none yet
	Nodes   []distribution.NodeState // by uuid
}

// GetRequest is the number of the request.
func (r *GetNodesResult) GetRequest() uint64 { return r.Request }

// callEnded is the result of a call of a node daemon.
type callEnded struct {
	incarnation uint64
	send        distribution.Send
	result      distribution.Result
}

// wake is the timer message at the time of Decision.Wake, at which core/distribution decides again.
type wake struct{ incarnation uint64 }
