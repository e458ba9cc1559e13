package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/sirupsen/logrus"

	"lockstep/actors/core/opcode"
	"lockstep/cmd/internal/opcodefiles"
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
func reloadOpcodes(ctx context.Context, log *logrus.Logger, c Config, set func(definitions []byte)) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
		}
		definitions, err := opcodefiles.Load(c.OpcodesDir)
		var encoded []byte
		if err == nil {
			encoded, err = opcode.EncodeDefinitions(definitions)
		}
		if err != nil {
			log.WithField("err", err).Error("the opcodes were not read again: there are mistakes in them, and the former ones stay")
			continue
		}
		set(encoded)
		log.WithField("opcodes", len(definitions)).Info("the declared opcodes were read again")
	}
}
