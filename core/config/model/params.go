package model

import (
	"fmt"
	"strconv"
	"strings"
)

// The enumerations of config.md 2.4.
var (
	hypervisors   = []string{"kvm", "xen-pvm", "chroot", "xen-hvm", "lxc", "fake"}
	diskTemplates = []string{"diskless", "file", "sharedfile", "plain", "blockdev", "drbd", "rbd", "ext", "gluster"}

	hypervisor   = enum("Hypervisor", hypervisors...)
	diskTemplate = enum("DiskTemplate", diskTemplates...)
	nicMode      = enum("NICMode", "bridged", "routed", "openvswitch", "pool")
)

// Hypervisors returns the known hypervisors in the order of encoding and reports.
func Hypervisors() []string { return append([]string{}, hypervisors...) }

// Params are parameters of any type, by name.
type Params = Dict[JSON]

var params = dict(anyJSON)

// byHypervisor returns the codec of containers with hypervisors as keys, in the order of Hypervisors.
func byHypervisor[V any](c codec[V]) codec[Dict[V]] {
	rank := func(name string) int {
		for i, h := range hypervisors {
			if h == name {
				return i
			}
		}
		return len(hypervisors)
	}
	return orderedDict(c, func(a, b string) int { return rank(a) - rank(b) }, func(key string) error {
		_, err := hypervisor.decode(AppendText(nil, key))
		return err
	})
}

// BeParams are the backend parameters. In a filled block all fields are set, in a partial block any; this holds for the other
// parameter blocks too (config.md 2.4).
type BeParams struct {
	MinMem, MaxMem              Opt[int64]
	VCPUs                       Opt[int64]
	AutoBalance, AlwaysFailover Opt[bool]
	SpindleUse                  Opt[int64]
}

var beParams = newTable([]field[BeParams]{
	strict("minmem", mebibytes, func(p *BeParams) *Opt[int64] { return &p.MinMem }),
	strict("maxmem", mebibytes, func(p *BeParams) *Opt[int64] { return &p.MaxMem }),
	strict("vcpus", integer, func(p *BeParams) *Opt[int64] { return &p.VCPUs }),
	strict("auto_balance", boolean, func(p *BeParams) *Opt[bool] { return &p.AutoBalance }),
	strict("always_failover", boolean, func(p *BeParams) *Opt[bool] { return &p.AlwaysFailover }),
	strict("spindle_use", integer, func(p *BeParams) *Opt[int64] { return &p.SpindleUse }),
})

// mebibytes is the codec of a number or a string with a unit. It encodes numbers.
var mebibytes = codec[int64]{decodeMebibytes, integer.append}

func decodeMebibytes(raw []byte) (int64, error) {
	if raw[0] != '"' {
		return DecodeInt(raw)
	}
	s, err := DecodeText(raw)
	if err != nil {
		return 0, err
	}
	s = strings.TrimSpace(s)
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(s)
	}
	factor, unit := int64(1), strings.TrimSpace(s[end:])
	switch strings.ToLower(unit) {
	case "", "m", "mib":
	case "g", "gib":
		factor = 1 << 10
	case "t", "tib":
		factor = 1 << 20
	default:
		return 0, fmt.Errorf("Unknown unit '%s'", unit)
	}
	v, err := strconv.ParseInt(s[:end], 10, 64)
	if err != nil || v*factor/factor != v {
		return 0, errInt
	}
	return v * factor, nil
}

// NDParams are the parameters of a node.
type NDParams struct {
	OOBProgram       Opt[string]
	SpindleCount     Opt[int64]
	ExclusiveStorage Opt[bool]
	OVS              Opt[bool]
	OVSName, OVSLink Opt[string]
	SSHPort          Opt[int64]
	CPUSpeed         Opt[float64]
}

var ndParams = newTable([]field[NDParams]{
	strict("oob_program", text, func(p *NDParams) *Opt[string] { return &p.OOBProgram }),
	strict("spindle_count", integer, func(p *NDParams) *Opt[int64] { return &p.SpindleCount }),
	strict("exclusive_storage", boolean, func(p *NDParams) *Opt[bool] { return &p.ExclusiveStorage }),
	strict("ovs", boolean, func(p *NDParams) *Opt[bool] { return &p.OVS }),
	strict("ovs_name", text, func(p *NDParams) *Opt[string] { return &p.OVSName }),
	strict("ovs_link", text, func(p *NDParams) *Opt[string] { return &p.OVSLink }),
	strict("ssh_port", integer, func(p *NDParams) *Opt[int64] { return &p.SSHPort }),
	strict("cpu_speed", double, func(p *NDParams) *Opt[float64] { return &p.CPUSpeed }),
})

// NicParams are the parameters of a network interface.
type NicParams struct{ Mode, Link, VLAN Opt[string] }

var nicParams = newTable([]field[NicParams]{
	strict("mode", nicMode, func(p *NicParams) *Opt[string] { return &p.Mode }),
	strict("link", text, func(p *NicParams) *Opt[string] { return &p.Link }),
	strict("vlan", text, func(p *NicParams) *Opt[string] { return &p.VLAN }),
})

// ISpec is an instance specification of a policy.
type ISpec struct{ MemorySize, DiskSize, DiskCount, CPUCount, NICCount, SpindleUse Opt[int64] }

var iSpec = newTable([]field[ISpec]{
	strict("memory-size", integer, func(p *ISpec) *Opt[int64] { return &p.MemorySize }),
	strict("disk-size", integer, func(p *ISpec) *Opt[int64] { return &p.DiskSize }),
	strict("disk-count", integer, func(p *ISpec) *Opt[int64] { return &p.DiskCount }),
	strict("cpu-count", integer, func(p *ISpec) *Opt[int64] { return &p.CPUCount }),
	strict("nic-count", integer, func(p *ISpec) *Opt[int64] { return &p.NICCount }),
	strict("spindle-use", integer, func(p *ISpec) *Opt[int64] { return &p.SpindleUse }),
})

// MinMax is a pair of bounds of a policy.
type MinMax struct{ Min, Max ISpec }

var minMax = newTable([]field[MinMax]{
	required("min", iSpec.codec(false), func(p *MinMax) *ISpec { return &p.Min }),
	required("max", iSpec.codec(false), func(p *MinMax) *ISpec { return &p.Max }),
})

// IPolicy is an instance policy.
type IPolicy struct {
	MinMax        Opt[[]MinMax]
	Std           Opt[ISpec]
	SpindleRatio  Opt[float64]
	VCPURatio     Opt[float64]
	DiskTemplates Opt[[]string]
}

// A partial policy can lack fields, and its std can lack fields. The specifications in minmax are always filled.
var (
	filledIPolicy  = iPolicy(iSpec.codec(false)).codec(false)
	partialIPolicy = iPolicy(iSpec.codec(true)).codec(true)
)

func iPolicy(std codec[ISpec]) *table[IPolicy] {
	return newTable([]field[IPolicy]{
		strict("minmax", list(minMax.codec(false)), func(p *IPolicy) *Opt[[]MinMax] { return &p.MinMax }),
		strict("std", std, func(p *IPolicy) *Opt[ISpec] { return &p.Std }),
		strict("spindle-ratio", double, func(p *IPolicy) *Opt[float64] { return &p.SpindleRatio }),
		strict("vcpu-ratio", double, func(p *IPolicy) *Opt[float64] { return &p.VCPURatio }),
		strict("disk-templates", list(diskTemplate), func(p *IPolicy) *Opt[[]string] { return &p.DiskTemplates }),
	})
}
