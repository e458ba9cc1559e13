package listeners

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/sirupsen/logrus"

	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/edge/confd"
)

// unaskedLevel is the level of messages about a server of Ganeti's that no flag asks for. Where there is a Ganeti they have this level.
func unaskedLevel(c settings.Config, given bool, level logrus.Level) logrus.Level {
	if c.Ganeti.Enabled || given {
		return level
	}
	return logrus.DebugLevel
}

// OpenConfd starts the server of queries about the configuration before the tree of actors, so that it is there in each role; nil: there is
// none. node is the address of this node in its cluster, "" without one. If the default address cannot be used, the daemon runs without
// the server.
func OpenConfd(c settings.Config, log *logrus.Logger, node string) (*confd.Server, error) {
	address, err := c.ConfdAddress(node)
	if err != nil || address == "" {
		return nil, err
	}
	level := unaskedLevel(c, c.Confd.AddressGiven, logrus.InfoLevel)
	server, err := confd.Listen(confd.Config{Log: log, Address: address, DataDir: c.DataDir, Quiet: level == logrus.DebugLevel})
	isUnusable := errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL)
	if isUnusable && !c.Confd.AddressGiven {
		log.WithFields(logrus.Fields{"address": address, "err": err}).Log(unaskedLevel(c, false, logrus.WarnLevel),
			"ConfD answers no queries: its default address cannot be used; choose another with --confd-address, or none")
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", settings.ConfdAddressFlag, err)
	}
	log.WithField("address", server.Address().String()).Log(level, "ConfD answers queries about the configuration")
	return server, nil
}
