package service

import (
	"net"

	"lockstep/persistence"
)

// Phase is a part of the life of ganeti-wconfd: with the queue while a ganeti-luxid runs, without it otherwise. At the end of a
// phase the actors stop in order, and the next phase starts them from the disk, as after a restart of the daemon.
type Phase struct {
	// Sockets are by name. That of WConfD stays open over all phases; clients wait in its backlog between two. That of the queue is
	// ganeti-luxid's; a phase without it is without the queue.
	Sockets map[string]net.Listener
	Ready   func() // called when clients are served
}

// HasQueue reports whether the daemon has the queue: always, but not ganeti-wconfd without ganeti-luxid.
func (p *Phase) HasQueue() bool { return p == nil || p.Sockets[persistence.LuxiSocket] != nil }

// borrowed are the sockets that outlive the actors; nil: there are none.
func (p *Phase) borrowed() map[string]net.Listener {
	if p == nil {
		return nil
	}
	return p.Sockets
}
