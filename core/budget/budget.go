// Package budget decides who gives way when something that clients share is used up: connections and streams (Slots), work (Turns)
// and memory (Bytes). It is pure: no I/O, clock or mutex. The listeners ask it through package edge/admission.
//
// There is one rule. Everything is free for all while there is some. When it is used up, the client that has most gives way, also to its
// own newcomer: first what has sent nothing, then what is idle or still sends its request, then an answer whose client does not take
// it. A request at work never gives way. Requests that wait for work take turns by client. So a client can use what the others leave,
// and cannot keep a client that has less from anything.
package budget

// Class separates clients that do not compete with each other: each class has all bounds for itself.
type Class uint8

// The classes.
const (
	People Class = iota // users and their programs
	Jobs                // job processes
	Nodes               // other nodes of the cluster
	classes
)

// Client identifies whose connections, memory and turns are counted together. The zero Client is an unknown one of class People.
type Client struct {
	Class Class
	Name  string // "user=ada", "uid=1000" or an address
	// Process is the program of that client that gives way first if it has most; 0: unknown. It is known on unix sockets only.
	Process int
}

// Key is the client without its process. Clients are compared by it.
func (c Client) Key() Client {
	c.Process = 0
	return c
}
