package main

import (
	"context"

	"lockstep/edge/noded"
)

// runGaneti runs the daemon of a node of a Ganeti cluster. The node daemons of Ganeti get the configuration, write the ssconf
// files, are asked for what only they know, and on master candidates get the queue.
func (d *service) runGaneti(stop context.Context) error {
	client := nodeClient(d.config)
	daemons, inquiries, copies := noded.NewDaemons(client), noded.NewInquiries(client), noded.NewCopies(client, d.config.DataDir)
	defer daemons.Close()
	defer inquiries.Close()
	defer copies.Close()
	d.ports.Daemons, d.ports.Inquiries, d.ports.Copies = daemons, inquiries, copies
	return d.runAlone(stop)
}
