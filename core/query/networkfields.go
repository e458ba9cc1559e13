package query

import (
	"net/netip"
	"strings"
)

// networkFields are those of networks.
var networkFields = append(stamped("network", "Network", Plain), []Field[Thing]{
	field("network", "Subnet", Text, "Its IPv4 addresses", as("network")),
	field("network6", "IPv6Subnet", Other, "Its IPv6 addresses", as("network6")),
	field("gateway", "Gateway", Other, "IPv4 address of its gateway", as("gateway")),
	field("gateway6", "IPv6Gateway", Other, "IPv6 address of its gateway", as("gateway6")),
	field("mac_prefix", "MacPrefix", Other, "How the MAC addresses in it begin", as("mac_prefix")),
	field("external_reservations", "ExternalReservations", Text, "Addresses that others use", inPool(func(p *pool) any { return p.external() })),
	field("free_count", "FreeCount", Number, "How many addresses are free", inPool(func(p *pool) any { return strings.Count(p.used, ".") })),
	field("reserved_count", "ReservedCount", Number, "How many addresses are taken", inPool(func(p *pool) any { return strings.Count(p.used, "X") })),
	field("map", "Map", Text, "Its addresses, X for one that is taken", inPool(func(p *pool) any { return p.used })),
	field("group_cnt", "NodeGroups", Number, "How many groups it is connected to", count(networkGroups)),
	field("group_list", "GroupList", Other, "Groups that it is connected to, with mode, link and VLAN", networkConnections),
	field("inst_cnt", "Instances", Number, "How many instances are in it", count(networkInstances)),
	field("inst_list", "InstanceList", Other, "Which instances are in it", list(networkInstances)),
}...)

func networkGroups(t *Thing) []string { return t.In.ConnectedGroups(t.UUID) }

func networkInstances(t *Thing) []string { return t.In.InstancesIn(t.UUID) }

func networkConnections(t *Thing) Value {
	connections := []any{}
	for _, uuid := range networkGroups(t) {
		group := t.In.Groups[uuid]
		how := group.Object("networks").Object(t.UUID)
		connections = append(connections, []string{group.Text("name"), how.Text("mode"), how.Text("link"), how.Text("vlan")})
	}
	return normal(connections)
}

// pool is the addresses of a network. external is those that others use, as the configuration has it: 1 for each.
type pool struct {
	first   netip.Addr
	used    string
	foreign string
}

// inPool is a field of a network that has addresses, and says which are taken.
func inPool(value func(*pool) any) func(*Thing) Value {
	return func(t *Thing) Value {
		p := &pool{foreign: t.Object.Text("ext_reservations")}
		subnet, err := netip.ParsePrefix(t.Object.Text("network"))
		own := t.Object.Text("reservations")
		if err != nil || len(own) == 0 || len(own) != len(p.foreign) {
			return unavailable()
		}
		p.first = subnet.Masked().Addr()
		used := []byte(strings.Repeat(".", len(own)))
		for i := range used {
			if own[i] == '1' || p.foreign[i] == '1' {
				used[i] = 'X'
			}
		}
		p.used = string(used)
		return normal(value(p))
	}
}

func (p *pool) external() string {
	var addresses []string
	at := p.first
	for _, taken := range p.foreign {
		if taken == '1' {
			addresses = append(addresses, at.String())
		}
		at = at.Next()
	}
	return strings.Join(addresses, ", ")
}
