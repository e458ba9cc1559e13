package main

import (
	"context"
	"fmt"

	"lockstep/cmd/internal/opcodefiles"
	"lockstep/core/opcode"
)

// loadCatalogue returns all opcodes. An invalid declaration is an error, and the daemon does not
// start: it must not run queued jobs whose opcodes it does not know.
func loadCatalogue(c Config) (*opcode.Catalogue, error) {
	definitions, err := opcodefiles.Load(c.OpcodesDir)
	if err != nil {
		return nil, fmt.Errorf("opcodes-dir: mistakes in what is declared:\n%w", err)
	}
	return opcode.Builtin().With(definitions)
}

// reloadOpcodes reads the declared opcodes again on each SIGHUP. If a declaration is invalid, the
// previous opcodes stay in force.
func (d *service) reloadOpcodes(ctx context.Context, publish func(*opcode.Catalogue)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.reload:
		}
		definitions, err := opcodefiles.Load(d.config.OpcodesDir)
		var catalogue *opcode.Catalogue
		if err == nil {
			catalogue, err = opcode.Builtin().With(definitions)
		}
		if err != nil {
			d.log.WithField("err", err).Error("reload of opcodes failed; the previous opcodes stay in force")
			continue
		}
		publish(catalogue)
		d.log.WithField("opcodes", len(definitions)).Info("opcodes reloaded")
	}
}
