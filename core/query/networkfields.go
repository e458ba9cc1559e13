package query

import (
	"net/netip"
	"strings"

	"lockstep/core/config"
)

// networkFields are those of networks.
var networkFields = append(commonFields("network", "Network", ComparePlain), []Field[ObjectItem]{
	field("network", "Subnet", Text, "Its IPv4 addresses", stored("network")),
	field("network6", "IPv6Subnet", Other, "Its IPv6 addresses", stored("network6")),
	field("gateway", "Gateway", Other, "IPv4 address of its gateway", stored("gateway")),
	field("gateway6", "IPv6Gateway", Other, "IPv6 address of its gateway", stored("gateway6")),
	field("mac_prefix", "MacPrefix", Other, "How the MAC addresses in it begin", stored("mac_prefix")),
	field("external_reservations", "ExternalReservations", Text, "Addresses that others use",
		poolField(func(p *addressPool) any { return p.external() })),
	field("free_count", "FreeCount", Number, "How many addresses are free",
		poolField(func(p *addressPool) any { return strings.Count(p.used, ".") })),
	field("reserved_count", "ReservedCount", Number, "How many addresses are taken",
		poolField(func(p *addressPool) any { return strings.Count(p.used, "X") })),
	field("map", "Map", Text, "Its addresses, X for one that is taken", poolField(func(p *addressPool) any { return p.used })),
	field("group_cnt", "NodeGroups", Number, "How many groups it is connected to", nameCount(networkGroups)),
	field("group_list", "GroupList", Other, "Groups that it is connected to, with mode, link and VLAN", networkConnections),
	field("inst_cnt", "Instances", Number, "How many instances are in it", nameCount(networkInstances)),
	field("inst_list", "InstanceList", Other, "Which instances are in it", nameList(networkInstances)),
}...)

func networkGroups(t *ObjectItem) []string { return t.Document.ConnectedGroups(t.UUID) }

func networkInstances(t *ObjectItem) []string { return t.Document.InstancesIn(t.UUID) }

func networkConnections(t *ObjectItem) Value {
	connections := []any{}
	for _, uuid := range networkGroups(t) {
		group := t.Document.Group(uuid)
		link := group.Object("networks").Object(t.UUID)
		connections = append(connections, []string{group.Text("name"), orDash(link, "mode"), orDash(link, "link"), orDash(link, "vlan")})
	}
	return normal(connections)
}

// orDash is a parameter, or a dash if it is not set.
func orDash(link config.Object, name string) string {
	if !link.Has(name) {
		return "-"
	}
	return link.Text(name)
}

// addressPool is the addresses of a network. externalMap has a 1 for each address in use outside of the cluster, as the
// configuration has it.
type addressPool struct {
	first       netip.Addr
	used        string
	externalMap string
}

// poolField is a field about the used and free addresses of a network; unavailable if the network has no valid pool.
func poolField(value func(*addressPool) any) func(*ObjectItem) Value {
	return func(t *ObjectItem) Value {
		p := &addressPool{externalMap: t.Object.Text("ext_reservations")}
		subnet, err := netip.ParsePrefix(t.Object.Text("network"))
		own := t.Object.Text("reservations")
		if err != nil || len(own) == 0 || len(own) != len(p.externalMap) {
			return unavailable()
		}
		p.first = subnet.Masked().Addr()
		used := []byte(strings.Repeat(".", len(own)))
		for i := range used {
			if own[i] == '1' || p.externalMap[i] == '1' {
				used[i] = 'X'
			}
		}
		p.used = string(used)
		return normal(value(p))
	}
}

func (p *addressPool) external() string {
	var addresses []string
	at := p.first
	for _, taken := range p.externalMap {
		if taken == '1' {
			addresses = append(addresses, at.String())
		}
		at = at.Next()
	}
	return strings.Join(addresses, ", ")
}
