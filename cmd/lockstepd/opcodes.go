package main

import (
	"context"
	"fmt"

	"lockstep/cmd/internal/opcodefiles"
	"lockstep/core/opcode"
)

// loadCatalogue is all opcodes. A daemon that does not know what its queued jobs
// are must not begin to run them: mistakes keep it from starting.
func loadCatalogue(c Config) (*opcode.Catalogue, error) {
	definitions, err := opcodefiles.Load(c.OpcodesDir)
	if err != nil {
		return nil, fmt.Errorf("opcodes-dir: mistakes in what is declared:\n%w", err)
	}
	return opcode.Builtin().With(definitions)
}

// reloadOpcodes reads the opcodes that are declared again on each SIGHUP. If there
// is a mistake in them, those of before stay.
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
			d.log.WithField("err", err).Error("the opcodes were not read again: there are mistakes in them, and the former ones stay")
			continue
		}
		publish(catalogue)
		d.log.WithField("opcodes", len(definitions)).Info("the declared opcodes were read again")
	}
}
