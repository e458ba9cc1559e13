package model

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Network is a network with its address pools (config.md 2.3 and 5.5).
type Network struct {
	Name            string
	MACPrefix       Opt[string]
	Network         string // address, slash, prefix length
	Network6        Opt[string]
	Gateway         Opt[string]
	Gateway6        Opt[string]
	Reservations    Opt[string] // a 0 or 1 for each address
	ExtReservations Opt[string]
	Stamp
	Tags []string
}

var networkTable = newTable([]field[Network]{
	required("name", nonEmpty, func(n *Network) *string { return &n.Name }),
	optional("mac_prefix", text, func(n *Network) *Opt[string] { return &n.MACPrefix }),
	required("network", cidr, func(n *Network) *string { return &n.Network }),
	optional("network6", text, func(n *Network) *Opt[string] { return &n.Network6 }),
	optional("gateway", ipv4, func(n *Network) *Opt[string] { return &n.Gateway }),
	optional("gateway6", text, func(n *Network) *Opt[string] { return &n.Gateway6 }),
	optional("reservations", bits, func(n *Network) *Opt[string] { return &n.Reservations }),
	optional("ext_reservations", bits, func(n *Network) *Opt[string] { return &n.ExtReservations }),
	required("uuid", text, func(n *Network) *string { return &n.UUID }),
	withDefault("ctime", moment, 0, func(n *Network) *Time { return &n.CTime }),
	withDefault("mtime", moment, 0, func(n *Network) *Time { return &n.MTime }),
	required("serial_no", integer, func(n *Network) *int64 { return &n.Serial }),
}, tags(func(n *Network) *[]string { return &n.Tags }))

// checked returns the codec of strings that must pass a check.
func checked(check func(s string) error) codec[string] {
	return codec[string]{
		decode: func(raw []byte) (string, error) {
			s, err := DecodeText(raw)
			if err == nil {
				err = check(s)
			}
			return s, err
		},
		append: AppendText,
	}
}

var (
	nonEmpty = checked(func(s string) error {
		if s == "" {
			return errors.New("Received empty value for non-empty list")
		}
		return nil
	})
	ipv4 = checked(func(s string) error { _, err := ParseIPv4(s); return err })
	cidr = checked(func(s string) error { _, _, err := ParseCIDR(s); return err })
	bits = checked(func(s string) error {
		if bad := strings.Trim(s, "01"); bad != "" {
			return fmt.Errorf("Neither '0' nor '1': '%c'", []rune(bad)[0])
		}
		return nil
	})
)

// ParseIPv4 parses an address. It rejects octets above 255 and leading zeros (config.md 12.9).
func ParseIPv4(s string) (uint32, error) {
	var v uint32
	octets := strings.Split(s, ".")
	for _, o := range octets {
		n, err := strconv.ParseUint(o, 10, 8)
		if err != nil || len(o) > 1 && o[0] == '0' || len(octets) != 4 {
			return 0, fmt.Errorf("Can't parse IPv4 address from string %s", s)
		}
		v = v<<8 | uint32(n)
	}
	return v, nil
}

// FormatIPv4 formats an address.
func FormatIPv4(v uint32) string {
	return fmt.Sprintf("%d.%d.%d.%d", v>>24, v>>16&255, v>>8&255, v&255)
}

// ParseCIDR returns the first address of a network and the prefix length.
func ParseCIDR(s string) (base uint32, prefix int, err error) {
	address, length, found := strings.Cut(s, "/")
	base, err = ParseIPv4(address)
	if !found || err != nil || length == "" || strings.Trim(length, "0123456789") != "" || len(length) > 1 && length[0] == '0' {
		return 0, 0, fmt.Errorf("Can't parse IPv4 network from string %s", s)
	}
	prefix, err = strconv.Atoi(length)
	if err != nil || prefix > 32 {
		return 0, 0, fmt.Errorf("Invalid netmask %s from string %s", length, s)
	}
	return base &^ uint32(uint64(1)<<(32-prefix)-1), prefix, nil
}
