package admission

import (
	"net"
	"net/netip"
	"strconv"

	"lockstep/core/budget"
)

// ipv6Bits is the part of an address of IPv6 that a customer of a provider has for himself.
const ipv6Bits = 64

// User returns the budget.Client of a user who has logged in, by name: all requests of that user count together.
func User(name string) budget.Client { return budget.Client{Name: "user=" + name} }

// Address returns the budget.Client of an address from which strangers connect. The addresses of one network of IPv6 are one client.
// Without a valid address it is unknown.
func Address(text string) budget.Client {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return budget.Client{Name: "address=unknown"}
	}
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return budget.Client{Name: "address=" + address.String()}
	}
	return budget.Client{Name: "address=" + netip.PrefixFrom(address, ipv6Bits).Masked().String()}
}

// Peer returns the budget.Client of a connection of TCP before a login: the user, if the client is on this machine, else the address.
func Peer(c net.Conn) budget.Client {
	remote, isTCP := c.RemoteAddr().(*net.TCPAddr)
	local, _ := c.LocalAddr().(*net.TCPAddr)
	if !isTCP || local == nil {
		return Address(c.RemoteAddr().String())
	}
	from := remote.AddrPort()
	if from.Addr().Unmap().IsLoopback() {
		if uid, err := ownerOf(from, local.AddrPort()); err == nil {
			return UID(uid)
		}
	}
	return Address(remote.String())
}

// UID returns the budget.Client of a user of this machine, by number.
func UID(uid int) budget.Client { return budget.Client{Name: "uid=" + strconv.Itoa(uid)} }
