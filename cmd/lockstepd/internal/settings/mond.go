package settings

import (
	"flag"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// MondConfig are the settings of MonD.
type MondConfig struct {
	Address string // "": off
	Allow   string // networks, separated by commas; "": no list
	TLS     string

	AddressGiven bool           // the address was set, even if to the default
	Allowed      []netip.Prefix // of Allow
}

const MondAddressFlag = "mond-address"

func (m *MondConfig) flags(flags *flag.FlagSet) {
	flags.StringVar(&m.Address, MondAddressFlag, "127.0.0.1:1815",
		"`address` and port at which this node reports its state in the formats of ganeti-mond; "+
			"beyond loopback it needs TLS or --mond-allow; off with --ganeti unless given; empty: off")
	flags.StringVar(&m.Allow, "mond-allow", "",
		"`networks` whose clients --mond-address serves, such as 192.0.2.0/24,2001:db8::7; others are disconnected (default: all clients)")
	flags.StringVar(&m.TLS, "mond-tls", tlsAuto,
		"`when` --mond-address speaks TLS, with the certificate of the remote API: "+
			"on, off, or auto, which is on beyond loopback without --mond-allow. Ganeti's hbal and hail need it off")
}

// loopback reports whether only this machine can connect.
func (m *MondConfig) loopback() bool { return (&RapiConfig{Address: m.Address}).loopback() }

// normalize decodes Allow and decides about TLS where that is left to the daemon.
func (m *MondConfig) normalize() error {
	for text := range strings.SplitSeq(m.Allow, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		network, err := netip.ParsePrefix(text)
		if address, notNetwork := netip.ParseAddr(text); notNetwork == nil {
			network, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil {
			return fmt.Errorf("mond-allow: %q is neither an address nor a network", text)
		}
		m.Allowed = append(m.Allowed, network.Masked())
	}
	if m.TLS == tlsAuto {
		m.TLS = TLSOn
		if m.loopback() || m.Allowed != nil {
			m.TLS = tlsOff
		}
	}
	return nil
}

// validate refuses an address that all machines can reach without TLS.
func (m *MondConfig) validate() error {
	if m.Address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(m.Address)
	if err != nil {
		return fmt.Errorf("%s: %q is not an address and a port, such as 127.0.0.1:1815", MondAddressFlag, m.Address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s: %q is not a port", MondAddressFlag, port)
	}
	switch {
	case m.TLS != TLSOn && m.TLS != tlsOff:
		return fmt.Errorf("mond-tls: %q is not on, off or auto", m.TLS)
	case m.TLS == tlsOff && !m.loopback() && m.Allowed == nil:
		return fmt.Errorf("%s: %s is open to all machines: leave out mond-tls=off, name the machines with mond-allow, or listen on 127.0.0.1",
			MondAddressFlag, m.Address)
	}
	return nil
}
