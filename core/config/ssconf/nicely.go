package ssconf

import (
	"cmp"
	"strings"
)

// keys are all keys, sorted. Nodes reject files with other keys.
var keys = []string{
	"cluster_name", "cluster_tags", "enabled_user_shutdown", "file_storage_dir", "gluster_storage_dir",
	"hvparams_chroot", "hvparams_fake", "hvparams_kvm", "hvparams_lxc", "hvparams_xen-hvm", "hvparams_xen-pvm",
	"hypervisor_list", "instance_list", "maintain_node_health", "master_candidates", "master_candidates_certs",
	"master_candidates_ips", "master_ip", "master_netdev", "master_netmask", "master_node", "networks", "node_list",
	"node_primary_ips", "node_secondary_ips", "node_vm_capable", "nodegroups", "offline_nodes", "online_nodes",
	"primary_ip_family", "release_version", "shared_file_storage_dir", "ssh_ports", "uid_pool",
}

// ofHypervisors are the keys about hypervisors and the disks of their instances. A node in lockstep's own mode has no files of them.
var ofHypervisors = []string{
	"enabled_user_shutdown", "file_storage_dir", "gluster_storage_dir", "hvparams_chroot", "hvparams_fake", "hvparams_kvm", "hvparams_lxc",
	"hvparams_xen-hvm", "hvparams_xen-pvm", "hypervisor_list", "node_vm_capable", "shared_file_storage_dir",
}

// Keys returns all keys, sorted.
func Keys() []string { return append([]string{}, keys...) }

// Nicely compares names with runs of digits as numbers, which precede text: node3 < node10.
func Nicely(a, b string) int {
	for a != "" && b != "" {
		var x, y string
		x, a = run(a)
		y, b = run(b)
		if c := compareRuns(x, y); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// run returns the first run of digits or of other characters of a non-empty name.
func run(s string) (first, rest string) {
	end := strings.IndexFunc(s, func(r rune) bool { return (r >= '0' && r <= '9') != isDigit(s[0]) })
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:]
}

func compareRuns(x, y string) int {
	if isDigit(x[0]) != isDigit(y[0]) {
		if isDigit(x[0]) {
			return -1
		}
		return 1
	}
	if isDigit(x[0]) {
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y))
	}
	return strings.Compare(x, y)
}
