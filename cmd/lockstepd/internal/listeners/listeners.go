// Package listeners has what others connect to: the sockets of LUXI and WConfD, the remote API, MonD, queries about the configuration, and
// the socket of profiles.
//
// Each server can be off. Together they share one budget (admission.Table), and they stop in two steps: Close accepts no more requests, and
// Wait returns when the accepted ones are answered.
package listeners

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/luxi"
	"lockstep/actors/wconfd"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/ownership"
	"lockstep/edge/admission"
	"lockstep/edge/getent"
	"lockstep/edge/outputs"
	"lockstep/edge/socket"
	"lockstep/persistence"
)

// Gateways return the actors that currently serve connections, the accounts of clients, and other nodes.
type Gateways struct {
	Luxi, Wconfd func() *actor.PID
	Accounts     *getent.Users
	Nodes        outputs.Nodes // nil: there is no cluster
}

// luxiTurn is the class of a request to the queue; false: it needs no turn. Only what examines much takes turns: submissions are
// committed together. What waits for a change may give way.
func luxiTurn(frame []byte) (admission.Class, bool) {
	switch luxi.ExtentOf(frame) {
	case luxi.Whole:
		return admission.Large, true
	case luxi.Paged:
		return admission.Page, true
	case luxi.Preview:
		return admission.Preview, true
	case luxi.Waits:
		return admission.Wait, true
	case luxi.Part:
	}
	return 0, false
}

// QueueOptions are the options of a listener of the queue.
func QueueOptions(c settings.Config, table *admission.Table) socket.Options {
	return socket.Options{Idle: luxi.Idle, Turn: luxiTurn, MaxFrame: c.MaxFrame, MaxConns: c.MaxConns, Table: table}
}

// Listeners are the daemon's sockets.
type Listeners struct {
	sockets     []*socket.Listener
	serveErrors chan error // one error from each socket
	admin       *admin
	outputs     *outputs.Server // nil: there is no queue
	remoteAPI   *RemoteAPI
	mond        *Mond
}

// Open listens on all sockets, or on none. borrowed are sockets that are open for longer than the actors, by name; without that of the
// queue there is no queue. nil: lockstepd opens its own.
func Open(
	c settings.Config, borrowed map[string]net.Listener, env *kit.Env, gateways Gateways, api *RemoteAPI, mond *Mond,
) (*Listeners, error) {
	hasQueue := borrowed == nil || borrowed[persistence.LuxiSocket] != nil
	d := &Listeners{serveErrors: make(chan error, 2), remoteAPI: api, mond: mond}
	group, err := c.SocketGroupID()
	if err == nil && group != nil {
		err = persistence.OpenToGroup(c.RunDir, *group)
	}
	if err != nil {
		return nil, fmt.Errorf("socket-group: %w", err)
	}
	activation, err := socket.Activate(map[string]string{
		persistence.SocketPath(c.RunDir, persistence.WconfSocket): persistence.WconfSocket,
		persistence.SocketPath(c.RunDir, persistence.LuxiSocket):  persistence.LuxiSocket,
	})
	if err != nil {
		return nil, fmt.Errorf("take the sockets of systemd: %w", err)
	}
	queue := QueueOptions(c, api.Table)
	queue.OfJobs, queue.Livelocks = luxi.DependsOnJob, persistence.LivelockDir(c.RunDir)
	wconf := socket.Options{Idle: wconfd.Idle, MaxFrame: c.MaxFrame, MaxConns: c.MaxConns, Table: api.Table}
	queue.Names, wconf.Names, api.accounts = gateways.Accounts, gateways.Accounts, gateways.Accounts
	for _, spec := range []struct {
		name    string
		gateway func() *actor.PID
		class   ownership.Class
		options socket.Options
	}{
		{persistence.WconfSocket, gateways.Wconfd, ownership.WconfSocket, wconf},
		{persistence.LuxiSocket, gateways.Luxi, ownership.LuxiSocket, queue},
	} {
		if spec.name == persistence.LuxiSocket && !hasQueue {
			continue
		}
		owner := c.Owners.Of(spec.class)
		if group != nil {
			owner.GID = *group
		}
		var opened net.Listener
		if borrowed != nil {
			opened = socket.Borrow(borrowed[spec.name])
		} else {
			opened, err = activation.Listen(persistence.SocketPath(c.RunDir, spec.name), spec.name, owner)
		}
		if err != nil {
			return nil, errors.Join(err, activation.Close(), d.Close())
		}
		listener := socket.NewListener(opened, spec.options)
		d.sockets = append(d.sockets, listener)
		go func() { d.serveErrors <- listener.Serve(env.System(), spec.gateway) }()
	}
	if d.admin, err = openAdmin(c.RunDir, c.Owners.Of(ownership.AdminSocket), env.Log()); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if !hasQueue {
		return d, nil
	}
	if err := d.openOutputs(c, group, env, gateways.Nodes); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := api.open(env, gateways.Luxi, d.outputs.Open); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := mond.open(api); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// openOutputs opens the socket where readers of a job's output meet its process.
func (d *Listeners) openOutputs(c settings.Config, group *int, env *kit.Env, nodes outputs.Nodes) (err error) {
	owner := c.Owners.Of(ownership.OutputSocket)
	if group != nil {
		owner.GID = *group
	}
	config := outputs.Config{Log: env.Log(), Kept: keptFiles(c.DataDir), Nodes: nodes}
	if d.outputs, err = outputs.Listen(persistence.SocketPath(c.RunDir, persistence.OutputSocket), owner, config); err != nil {
		return fmt.Errorf("open the socket for output: %w", err)
	}
	go func() { _ = d.outputs.Serve() }() // it ends with Close
	return nil
}

// Outputs is the socket for output; nil: there is no queue.
func (d *Listeners) Outputs() *outputs.Server { return d.outputs }

// Close accepts no more connections. Requests that have begun continue, see Wait.
func (d *Listeners) Close() error {
	d.remoteAPI.stop()
	d.mond.server.stop()
	errs := []error{d.admin.close()}
	if d.outputs != nil {
		errs = append(errs, d.outputs.Close())
	}
	for _, l := range d.sockets {
		errs = append(errs, l.Close(), <-d.serveErrors)
	}
	return errors.Join(errs...)
}

// Wait returns when clients have received the answers to requests that have begun, or after limit.
func (d *Listeners) Wait(limit time.Duration) {
	end := time.Now().Add(limit)
	for _, l := range d.sockets {
		l.Wait(max(time.Until(end), 0))
	}
	d.remoteAPI.server.wait(end)
	d.mond.server.wait(end)
}
