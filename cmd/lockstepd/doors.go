package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/luxi"
	"lockstep/actors/wconfd"
	"lockstep/edge/socket"
	"lockstep/persistence"
)

// heldFrames is how many requests of the largest size each socket has room for at a
// time.
const heldFrames = 4

// gateways are who takes connections at the time.
type gateways struct {
	luxi, wconf func() *actor.PID
}

// who is always the same.
func who(pid *actor.PID) func() *actor.PID { return func() *actor.PID { return pid } }

// doors are the daemon's sockets.
type doors struct {
	listeners []*socket.Listener
	accepting chan error // one from each
	admin     *admin
	api       *remoteAPI
}

// openDoors listens on all sockets, or on none.
func openDoors(c Config, env *kit.Env, to gateways, api *remoteAPI) (*doors, error) {
	d := &doors{accepting: make(chan error, 2), api: api}
	group, err := c.socketGroup()
	if err == nil && group != nil {
		err = persistence.OpenToGroup(c.RunDir, *group)
	}
	if err != nil {
		return nil, fmt.Errorf("socket-group: %w", err)
	}
	for _, door := range []struct {
		name    string
		gateway func() *actor.PID
		options socket.Options
	}{
		{persistence.WconfSocket, to.wconf, socket.Options{Idle: wconfd.Idle, Mode: wconfd.SocketMode}},
		{persistence.LuxiSocket, to.luxi, socket.Options{Idle: luxi.Idle, Mode: luxi.SocketMode}},
	} {
		door.options.MaxFrame, door.options.MaxConns, door.options.MaxHeld = c.MaxFrame, c.MaxConns, heldFrames*c.MaxFrame
		door.options.Group = group
		l, err := socket.Listen(persistence.SocketPath(c.RunDir, door.name), door.options)
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		d.listeners = append(d.listeners, l)
		go func() { d.accepting <- l.Serve(env.System(), door.gateway) }()
	}
	if d.admin, err = openAdmin(c.RunDir, env.Log()); err != nil {
		return nil, errors.Join(err, d.close())
	}
	if err := api.open(env, to.luxi); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// close takes no more connections.
func (d *doors) close() error {
	d.api.stop()
	errs := []error{d.admin.close()}
	for _, l := range d.listeners {
		errs = append(errs, l.Close(), <-d.accepting)
	}
	return errors.Join(errs...)
}

// wait returns when clients have taken the answers they were given, or after so
// long.
func (d *doors) wait(most time.Duration) {
	end := time.Now().Add(most)
	for _, l := range d.listeners {
		l.Wait(max(time.Until(end), 0))
	}
	d.api.wait(end)
}
