package settings

import (
	"flag"
	"fmt"
	"net"
	"strconv"
)

// ConfdConfig are the settings of the server of queries about the configuration.
type ConfdConfig struct {
	Address string // "": off; confdAuto: of this node

	AddressGiven bool // the address was set, even if to the default
}

const (
	ConfdAddressFlag = "confd-address"
	// confdAuto is the address at which other nodes reach this one, or loopback without a cluster, and confdPort.
	confdAuto = "auto"
	confdPort = "1814"
)

func (c *ConfdConfig) flags(flags *flag.FlagSet) {
	flags.StringVar(&c.Address, ConfdAddressFlag, confdAuto,
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
		return fmt.Errorf("%s: %q is not an address and a port, such as 192.0.2.11:%s", ConfdAddressFlag, c.Address, confdPort)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s: %q is not a port", ConfdAddressFlag, port)
	}
	return nil
}

// ConfdAddress returns the address of the server; "": there is none. node is the address of this node in its cluster, "" without one.
func (c *Config) ConfdAddress(node string) (string, error) {
	if c.Confd.Address != confdAuto {
		return c.Confd.Address, nil
	}
	if node == "" {
		return net.JoinHostPort("127.0.0.1", confdPort), nil
	}
	if c.NodeListen != "" {
		node = c.NodeListen
	}
	host, _, err := net.SplitHostPort(node)
	if err != nil {
		return "", fmt.Errorf("split the address of this node: %w", err)
	}
	return net.JoinHostPort(host, confdPort), nil
}
