package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/edge/confd"
	"lockstep/edge/peer"
)

// configQueries is the server of queries about the configuration. Without a server its methods do nothing.
type configQueries struct{ server *confd.Server }

// openConfd starts the server before the tree of actors, so that it is there in each role. If the default address cannot be used, the
// daemon runs without the server.
func (d *service) openConfd(identity *peer.Identity) (configQueries, error) {
	node := ""
	if identity != nil {
		node = identity.Address
	}
	address, err := d.config.ConfdAddress(node)
	if err != nil || address == "" {
		return configQueries{}, err
	}
	server, err := confd.Listen(confd.Config{Log: d.log, Address: address, DataDir: d.config.DataDir})
	isUnusable := errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL)
	if isUnusable && !d.config.Confd.AddressGiven {
		d.log.WithFields(logrus.Fields{"address": address, "err": err}).Warn(
			"queries about the configuration are not answered: their default address cannot be used; choose another with --confd-address, or none")
		return configQueries{}, nil
	}
	if err != nil {
		return configQueries{}, fmt.Errorf("%s: %w", settings.ConfdAddressFlag, err)
	}
	d.ports.Confd = server
	d.remoteAPI.collectors = append(d.remoteAPI.collectors, server)
	d.log.WithField("address", server.Address().String()).Info("queries about the configuration are answered")
	return configQueries{server}, nil
}

// collectors are the metrics of the server.
func (q configQueries) collectors() []prometheus.Collector {
	if q.server == nil {
		return nil
	}
	return []prometheus.Collector{q.server}
}

func (q configQueries) close() {
	if q.server != nil {
		_ = q.server.Close() // nothing is lost with it
	}
}
