package peer

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

const (
	nameMax = 63  // bytes
	hostMax = 253 // bytes
)

const (
	letters = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
)

// CheckName returns an error unless the name is a valid name of a node: 1 to 63 lower-case
// letters, digits, dots, hyphens and underscores, of which the first is a letter or a digit.
func CheckName(name string) error {
	if name == "" || len(name) > nameMax || strings.Trim(name, letters+digits+".-_") != "" || strings.Trim(name[:1], letters+digits) != "" {
		return fmt.Errorf("a node's name is 1 to %d lower-case letters, digits, dots, hyphens and underscores, "+
			"and begins with a letter or digit, not %.80q", nameMax, name)
	}
	return nil
}

// CheckAddress returns an error unless the address is host:port, with a name or an IP address as
// host (IPv6 in brackets, not the address of all interfaces) and a port from 1 to 65535.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("a node's address is HOST:PORT, not %.300q", address)
	}
	number, err := strconv.Atoi(port)
	if err != nil || number < 1 || number > 65535 || port != strconv.Itoa(number) {
		return fmt.Errorf("the port of a node's address is 1 to 65535, not %.80q", port)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.IsUnspecified() || ip.IsMulticast() || ip.Zone() != "" {
			return fmt.Errorf("a node's address must be one by which the others reach it, not %q", address)
		}
		return nil
	}
	if host == "" || len(host) > hostMax || strings.Trim(strings.ToLower(host), letters+digits+".-_") != "" {
		return fmt.Errorf("the host of a node's address is a name or an IP address, not %.300q", host)
	}
	return nil
}
