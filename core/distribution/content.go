package distribution

import (
	"sync"

	"lockstep/core/config/model"
	"lockstep/core/noded"
)

// Kind is what nodes are sent.
type Kind int

// The kinds, each with a procedure of the node daemon (config.md 8.1).
const (
	ConfigFile Kind = iota // config.data, for master candidates
	Ssconf                 // the ssconf files, for all nodes
	kinds      int  = iota
)

func (k Kind) String() string { return [kinds]string{"config.data", "ssconf"}[k] }

// Procedure returns the procedure that sends a kind.
func (k Kind) Procedure() noded.Procedure {
	return [kinds]noded.Procedure{noded.UploadFile, noded.WriteSsconf}[k]
}

// Content is what nodes get of one configuration. It is immutable.
type Content struct {
	Kind     Kind
	Revision uint64 // identifies the bytes within the kind; a newer content with other bytes has a higher one
	Version  uint64 // number of the newest configuration that it belongs to
	Serial   int64  // serial number of that configuration
	request  func() noded.Request
}

// Request returns the call that sends the content. The first use encodes and compresses the configuration, which takes half a
// second for 20 MB. It may be called from any goroutine.
func (c *Content) Request() noded.Request { return c.request() }

// configContent is the content of config.data. The encoding is made once for all nodes, at the first use.
func configContent(c *model.Config, revision, version uint64) *Content {
	return &Content{ConfigFile, revision, version, c.Serial,
		sync.OnceValue(func() noded.Request { return noded.ConfigFile(c.JSON()).Request() })}
}
