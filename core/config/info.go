package config

import (
	"encoding/json"

	"lockstep/core/config/model"
)

// The version of Ganeti that clients are told: the one whose protocols lockstep speaks.
const (
	SoftwareVersion = "3.0.2"
	VCSVersion      = "(ganeti) version 3.0.2-3"
	ProtocolVersion = 3000000
	OSAPIVersion    = 20
	ExportVersion   = 0
)

// infoParameters are the cluster parameters in the answer to clients, in their stored form (queue.md 1.8).
var infoParameters = []string{
	"beparams", "blacklisted_os", "candidate_pool_size", "compression_tools", "ctime", "default_iallocator",
	"default_iallocator_params", "diskparams", "drbd_usermode_helper", "enabled_disk_templates", "enabled_hypervisors",
	"enabled_user_shutdown", "file_storage_dir", "gluster_storage_dir", "hidden_os", "hvparams", "install_image",
	"instance_communication_network", "ipolicy", "mac_prefix", "maintain_node_health", "master_netdev", "master_netmask",
	"max_running_jobs", "max_tracked_jobs", "modify_ssh_setup", "mtime", "ndparams", "nicparams", "os_hvp", "osparams",
	"prealloc_wipe_disks", "reserved_lvs", "shared_file_storage_dir", "ssh_key_bits", "ssh_key_type", "tags", "uid_pool",
	"use_external_mip_script", "uuid", "volume_group_name", "zeroing_image",
}

// Info returns the description of the cluster that QueryClusterInfo answers with (queue.md 1.8). They read all of its keys, so values
// that the configuration lacks are null.
func Info(c *model.Config) (map[string]any, error) {
	cluster, err := ClusterOf(c)
	if err != nil {
		return nil, err
	}
	stored := decoded(c.Cluster.JSON())
	info := map[string]any{
		"software_version": SoftwareVersion, "vcs_version": VCSVersion, "protocol_version": ProtocolVersion,
		"config_version": Version, "os_api_version": OSAPIVersion, "export_version": ExportVersion,
		"architecture": [2]string{"64bits", "x86_64"},
		"name":         cluster.Name, "master": cluster.MasterName,
		"default_hypervisor": nil, "primary_ip_version": ipVersion(stored["primary_ip_family"]),
	}
	for _, name := range infoParameters {
		info[name] = stored[name] // an empty value is null
	}
	if hypervisors := stored.List("enabled_hypervisors"); len(hypervisors) > 0 {
		info["default_hypervisor"] = hypervisors[0]
	}
	enabled, interval := map[string]bool{}, map[string]json.RawMessage{}
	collectors := stored.Object("data_collectors")
	for name := range collectors {
		collector := collectors.Object(name)
		enabled[name], interval[name] = collector.Flag("active"), collector["interval"]
	}
	info["enabled_data_collectors"], info["data_collector_interval"] = enabled, interval
	return info, nil
}

// ipVersion is the number of the IP version of a socket's address family.
func ipVersion(family json.RawMessage) int {
	if string(family) == "10" {
		return 6
	}
	return 4
}
