package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"lockstep/edge/confd"
	"lockstep/edge/peer"
)

// ConfdConfig are the settings of the server of queries about the configuration.
type ConfdConfig struct {
	Address string // "": off; confdAuto: of this node

	addressGiven bool
}

const (
	confdAddressFlag = "confd-address"
	// confdAuto is the address at which other nodes reach this one, or loopback without a cluster, and confdPort.
	confdAuto = "auto"
	confdPort = "1814"
)

func (c *ConfdConfig) flags(flags *flag.FlagSet) {
	flags.StringVar(&c.Address, confdAddressFlag, confdAuto,
		"UDP `address` and port at which signed queries about the configuration are answered, in the protocol of ganeti-confd; "+
			"auto: port "+confdPort+" of this node's own address in its cluster, of loopback without a cluster, "+
			"and nowhere with --ganeti; empty: nowhere")
}

func (c *ConfdConfig) validate() error {
	if c.Address == "" || c.Address == confdAuto {
		return nil
	}
	_, port, err := net.SplitHostPort(c.Address)
	if err != nil {
		return fmt.Errorf("%s: %q is not an address and a port, such as 192.0.2.11:%s", confdAddressFlag, c.Address, confdPort)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s: %q is not a port", confdAddressFlag, port)
	}
	return nil
}

// confdAddress returns the address of the server; "": there is none. identity is that of the node, nil without a cluster.
func (c *Config) confdAddress(identity *peer.Identity) (string, error) {
	if c.Confd.Address != confdAuto {
		return c.Confd.Address, nil
	}
	if identity == nil {
		return net.JoinHostPort("127.0.0.1", confdPort), nil
	}
	listen := identity.Address
	if c.NodeListen != "" {
		listen = c.NodeListen
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("address of this node: %w", err)
	}
	return net.JoinHostPort(host, confdPort), nil
}

// configQueries is the server of queries about the configuration. Without a server its methods do nothing.
type configQueries struct{ server *confd.Server }

// openConfd starts the server before the tree of actors, so that it is there in each role. If the default address cannot be used, the
// daemon runs without the server.
func (d *service) openConfd(identity *peer.Identity) (configQueries, error) {
	address, err := d.config.confdAddress(identity)
	if err != nil || address == "" {
		return configQueries{}, err
	}
	server, err := confd.Listen(confd.Config{Log: d.log, Address: address, DataDir: d.config.DataDir})
	isUnusable := errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL)
	if isUnusable && !d.config.Confd.addressGiven {
		d.log.WithFields(logrus.Fields{"address": address, "err": err}).Warn(
			"queries about the configuration are not answered: their default address cannot be used; choose another with --confd-address, or none")
		return configQueries{}, nil
	}
	if err != nil {
		return configQueries{}, fmt.Errorf("%s: %w", confdAddressFlag, err)
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
