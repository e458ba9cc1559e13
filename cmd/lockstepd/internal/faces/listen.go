package faces

import (
	"flag"
	"fmt"
	"net"
	"strconv"
)

// facePort is where a daemon of Ganeti listens that serves the network.
type facePort struct {
	network string // "tcp" or "udp"
	service string // in the services database, whose port wins; "": there is none
	port    uint
}

// listenOptions are the address and port on which a daemon of Ganeti's name listens, as its flags say.
type listenOptions struct {
	port uint
	bind string
}

// given is the port of the services database, or the default.
func (p facePort) given() uint {
	if port, err := net.LookupPort(p.network, p.service); p.service != "" && err == nil {
		return uint(port) //nolint:gosec // a port
	}
	return p.port
}

func (o *listenOptions) flags(flags *flag.FlagSet, p facePort) {
	for _, name := range []string{"p", "port"} {
		flags.UintVar(&o.port, name, p.given(), "port, of "+p.network)
	}
	for _, name := range []string{"b", "bind"} {
		flags.StringVar(&o.bind, name, "0.0.0.0", "address to listen at")
	}
}

func (o *listenOptions) check() error {
	const portMax = 65535
	if o.port == 0 || o.port > portMax {
		return fmt.Errorf("--port: %d is not a port", o.port)
	}
	return nil
}

func (o *listenOptions) address() string {
	return net.JoinHostPort(o.bind, strconv.FormatUint(uint64(o.port), 10))
}
