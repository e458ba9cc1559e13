package noded

// Node says where the node daemon of a node is called: its name and address.
type Node struct {
	Name    string
	Address string // primary IP
	Offline bool   // marked offline in the configuration; it gets no call (config.md 8.1)
}
