package service

import (
	"context"
	"errors"
	"fmt"

	"lockstep/cmd/internal/opcodefiles"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/answer"
	"lockstep/core/opcode"
)

// loadCatalogue returns all opcodes. An invalid declaration is an error, and the daemon does not
// start: it must not run queued jobs whose opcodes it does not know.
func loadCatalogue(c settings.Config) (*opcode.Catalogue, error) {
	definitions, err := opcodefiles.Load(c.OpcodesDir)
	if err != nil {
		return nil, fmt.Errorf("opcodes-dir: mistakes in what is declared:\n%w", err)
	}
	return opcode.Builtin().With(definitions)
}

// reloadRequests are requests to reload the opcodes of this daemon: what to call with the number of declared opcodes. It is
// call.OpcodeFiles of a daemon without a cluster.
type reloadRequests chan func(declared int, err error)

// reloadsWaiting bounds the requests that wait for a reload.
const reloadsWaiting = 16

// Reload is part of call.OpcodeFiles. It calls done when the declared opcodes of this single node were read again, with their number or
// the mistakes.
func (r reloadRequests) Reload(done func(answer.OpcodesReloaded, error)) {
	r.request(func(declared int, err error) { done(answer.OpcodesReloaded{Declared: declared}, err) })
}

// RequestReload reloads the opcodes of this daemon, and calls done with the number of declared opcodes.
func (d *Service) RequestReload(done func(declared int, err error)) { d.reloadRequests.request(done) }

func (r reloadRequests) request(done func(declared int, err error)) {
	select {
	case r <- done:
	default:
		done(0, errors.New("too many reloads are requested at once; try again"))
	}
}

// ReloadOpcodes reads the declared opcodes again on each SIGHUP and each request of a client. If a declaration is
// invalid, the previous opcodes stay in force.
func (d *Service) ReloadOpcodes(ctx context.Context, publish func(*opcode.Catalogue)) {
	for {
		done := func(int, error) {}
		select {
		case <-ctx.Done():
			return
		case <-d.reload:
		case done = <-d.reloadRequests:
		}
		definitions, err := opcodefiles.Load(d.Config.OpcodesDir)
		var catalogue *opcode.Catalogue
		if err == nil {
			catalogue, err = opcode.Builtin().With(definitions)
		}
		if err != nil {
			d.Log.WithField("err", err).Error("reload of opcodes failed; the previous opcodes stay in force")
			done(0, err)
			continue
		}
		d.catalogue.Store(catalogue)
		publish(catalogue)
		d.Log.WithField("opcodes", len(definitions)).Info("opcodes reloaded")
		done(len(definitions), nil)
	}
}
