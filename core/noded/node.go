package noded

// Node is a node as the target of calls.
type Node struct {
	Name    string
	Address string // primary IP
	Offline bool   // marked offline in the configuration; it gets no call (config.md 8.1)
}
