package main

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
	"lockstep/edge/socket"
	"lockstep/persistence"
)

// gateways return the actors that currently serve connections.
type gateways struct {
	luxi, wconfd func() *actor.PID
}

// luxiTurn is the class of a request to the queue. Only what examines much takes turns: submissions are committed together. What waits
// for a change may give way.
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

// fixedPID returns a gateway that never changes.
func fixedPID(pid *actor.PID) func() *actor.PID { return func() *actor.PID { return pid } }

// listeners are the daemon's sockets.
type listeners struct {
	sockets     []*socket.Listener
	serveErrors chan error // one error from each socket
	admin       *admin
	remoteAPI   *remoteAPI
	mond        *mondServer
}

// openListeners listens on all sockets, or on none.
func openListeners(c settings.Config, p *phase, env *kit.Env, gateways gateways, api *remoteAPI, mond *mondServer) (*listeners, error) {
	d := &listeners{serveErrors: make(chan error, 2), remoteAPI: api, mond: mond}
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
		return nil, fmt.Errorf("sockets of systemd: %w", err)
	}
	for _, spec := range []struct {
		name    string
		gateway func() *actor.PID
		class   ownership.Class
		options socket.Options
	}{
		{persistence.WconfSocket, gateways.wconfd, ownership.WconfSocket, socket.Options{Idle: wconfd.Idle}},
		{persistence.LuxiSocket, gateways.luxi, ownership.LuxiSocket, socket.Options{Idle: luxi.Idle, Turn: luxiTurn, OfJobs: luxi.DependsOnJob}},
	} {
		spec.options.MaxFrame, spec.options.MaxConns, spec.options.Table = c.MaxFrame, c.MaxConns, api.table
		spec.options.Owner = c.Owners.Of(spec.class)
		if group != nil {
			spec.options.Owner.GID = *group
		}
		if spec.name == persistence.LuxiSocket && !p.hasQueue() {
			continue
		}
		opened, err := listenOrBorrow(c, p, activation, spec.name, spec.options.Owner)
		if err != nil {
			return nil, errors.Join(err, activation.Close(), d.close())
		}
		listener := socket.NewListener(opened, spec.options)
		d.sockets = append(d.sockets, listener)
		go func() { d.serveErrors <- listener.Serve(env.System(), spec.gateway) }()
	}
	if d.admin, err = openAdmin(c.RunDir, c.Owners.Of(ownership.AdminSocket), env.Log()); err != nil {
		return nil, errors.Join(err, d.close())
	}
	if !p.hasQueue() {
		return d, nil
	}
	if err := api.open(env, gateways.luxi); err != nil {
		return nil, errors.Join(err, d.close())
	}
	if err := mond.open(api); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// listenOrBorrow listens at a socket of the daemon. ganeti-wconfd has its sockets for longer than its actors.
func listenOrBorrow(c settings.Config, p *phase, activation *socket.Activation, name string, owner ownership.Attributes) (net.Listener, error) {
	switch {
	case p == nil:
		return activation.Listen(persistence.SocketPath(c.RunDir, name), name, owner)
	case name == persistence.LuxiSocket:
		return socket.Borrow(p.queue.Listener), nil
	default:
		return socket.Borrow(p.wconfd), nil
	}
}

// close accepts no more connections.
func (d *listeners) close() error {
	d.remoteAPI.stop()
	d.mond.stop()
	errs := []error{d.admin.close()}
	for _, l := range d.sockets {
		errs = append(errs, l.Close(), <-d.serveErrors)
	}
	return errors.Join(errs...)
}

// wait returns when clients have received their answers, or after limit.
func (d *listeners) wait(limit time.Duration) {
	end := time.Now().Add(limit)
	for _, l := range d.sockets {
		l.Wait(max(time.Until(end), 0))
	}
	d.remoteAPI.wait(end)
	d.mond.wait(end)
}
