package model

import (
	"fmt"
	"slices"
	"strconv"
)

// Stamp has the fields that all objects except filter rules share (config.md 2.7).
type Stamp struct {
	CTime, MTime Time
	UUID         string
	Serial       int64
}

// Stamps gives generic code access to the embedded Stamp.
func (s *Stamp) Stamps() *Stamp { return s }

// stamps returns the fields of the Stamp in the order that most types use.
func stamps[T any](at func(*T) *Stamp) []field[T] {
	return []field[T]{
		withDefault("ctime", moment, 0, func(v *T) *Time { return &at(v).CTime }),
		withDefault("mtime", moment, 0, func(v *T) *Time { return &at(v).MTime }),
		required("uuid", text, func(v *T) *string { return &at(v).UUID }),
		required("serial_no", integer, func(v *T) *int64 { return &at(v).Serial }),
	}
}

func tags[T any](at func(*T) *[]string) []field[T] {
	return []field[T]{withDefault("tags", set, nil, at)}
}

// Cluster is the cluster object (config.md 2.2).
type Cluster struct {
	RSAHostKeyPub                                    string
	DSAHostKeyPub                                    Opt[string]
	HighestUsedPort                                  int64
	PortPool                                         []int64 // its order counts
	MACPrefix                                        string
	VolumeGroup                                      Opt[string]
	ReservedLVs                                      []string
	DRBDUsermodeHelper                               Opt[string]
	MasterNode                                       string
	MasterIP, MasterNetdev                           string
	MasterNetmask                                    int64
	UseExternalMIPScript                             bool
	Name                                             string
	FileDir, SharedFileDir, GlusterDir               string
	EnabledHypervisors                               []string
	HVParams                                         Dict[Params]
	OSHVP                                            Dict[Dict[Params]]
	BeParams                                         Dict[BeParams]
	OSParams, OSParamsPrivate                        Dict[Dict[string]]
	NicParams                                        Dict[NicParams]
	NDParams                                         NDParams
	DiskParams                                       Dict[Params]
	CandidatePoolSize                                int64
	ModifyEtcHosts, ModifySSHSetup, MaintainNodes    bool
	UIDPool                                          [][]int64
	IAllocator                                       string
	IAllocatorParams                                 Params
	HiddenOS, BlacklistedOS                          []string
	IPFamily                                         int64
	PreallocWipeDisks                                bool
	IPolicy                                          IPolicy
	HVState, DiskState                               Params
	EnabledDiskTemplates                             []string
	CandidateCerts                                   Dict[string]
	MaxRunningJobs, MaxTrackedJobs                   int64
	InstallImage, CommunicationNetwork, ZeroingImage string
	CompressionTools                                 []string
	EnabledUserShutdown                              bool
	DataCollectors                                   Dict[Collector]
	SSHKeyType                                       string
	SSHKeyBits                                       int64
	Stamp
	Tags []string
}

// Collector is the configuration of a data collector. Interval is in microseconds.
type Collector struct {
	Active   bool
	Interval int64
}

var collector = newTable([]field[Collector]{
	required("active", boolean, func(c *Collector) *bool { return &c.Active }),
	required("interval", integer, func(c *Collector) *int64 { return &c.Interval }),
})

var clusterTable = newTable([]field[Cluster]{
	required("rsahostkeypub", text, func(c *Cluster) *string { return &c.RSAHostKeyPub }),
	optional("dsahostkeypub", text, func(c *Cluster) *Opt[string] { return &c.DSAHostKeyPub }),
	required("highest_used_port", integer, func(c *Cluster) *int64 { return &c.HighestUsedPort }),
	required("tcpudp_port_pool", list(integer), func(c *Cluster) *[]int64 { return &c.PortPool }),
	required("mac_prefix", text, func(c *Cluster) *string { return &c.MACPrefix }),
	optional("volume_group_name", text, func(c *Cluster) *Opt[string] { return &c.VolumeGroup }),
	required("reserved_lvs", list(text), func(c *Cluster) *[]string { return &c.ReservedLVs }),
	optional("drbd_usermode_helper", text, func(c *Cluster) *Opt[string] { return &c.DRBDUsermodeHelper }),
	required("master_node", text, func(c *Cluster) *string { return &c.MasterNode }),
	required("master_ip", text, func(c *Cluster) *string { return &c.MasterIP }),
	required("master_netdev", text, func(c *Cluster) *string { return &c.MasterNetdev }),
	required("master_netmask", integer, func(c *Cluster) *int64 { return &c.MasterNetmask }),
	required("use_external_mip_script", boolean, func(c *Cluster) *bool { return &c.UseExternalMIPScript }),
	required("cluster_name", text, func(c *Cluster) *string { return &c.Name }),
	required("file_storage_dir", text, func(c *Cluster) *string { return &c.FileDir }),
	required("shared_file_storage_dir", text, func(c *Cluster) *string { return &c.SharedFileDir }),
	required("gluster_storage_dir", text, func(c *Cluster) *string { return &c.GlusterDir }),
	required("enabled_hypervisors", list(hypervisor), func(c *Cluster) *[]string { return &c.EnabledHypervisors }),
	required("hvparams", byHypervisor(params), func(c *Cluster) *Dict[Params] { return &c.HVParams }),
	required("os_hvp", dict(byHypervisor(params)), func(c *Cluster) *Dict[Dict[Params]] { return &c.OSHVP }),
	required("beparams", dict(beParams.codec(false)), func(c *Cluster) *Dict[BeParams] { return &c.BeParams }),
	required("osparams", dict(dict(text)), func(c *Cluster) *Dict[Dict[string]] { return &c.OSParams }),
	required("osparams_private_cluster", dict(dict(text)), func(c *Cluster) *Dict[Dict[string]] { return &c.OSParamsPrivate }),
	required("nicparams", dict(nicParams.codec(false)), func(c *Cluster) *Dict[NicParams] { return &c.NicParams }),
	required("ndparams", ndParams.codec(false), func(c *Cluster) *NDParams { return &c.NDParams }),
	required("diskparams", dict(params), func(c *Cluster) *Dict[Params] { return &c.DiskParams }),
	required("candidate_pool_size", integer, func(c *Cluster) *int64 { return &c.CandidatePoolSize }),
	required("modify_etc_hosts", boolean, func(c *Cluster) *bool { return &c.ModifyEtcHosts }),
	required("modify_ssh_setup", boolean, func(c *Cluster) *bool { return &c.ModifySSHSetup }),
	required("maintain_node_health", boolean, func(c *Cluster) *bool { return &c.MaintainNodes }),
	required("uid_pool", list(idRange), func(c *Cluster) *[][]int64 { return &c.UIDPool }),
	required("default_iallocator", text, func(c *Cluster) *string { return &c.IAllocator }),
	required("default_iallocator_params", params, func(c *Cluster) *Params { return &c.IAllocatorParams }),
	required("hidden_os", list(text), func(c *Cluster) *[]string { return &c.HiddenOS }),
	required("blacklisted_os", list(text), func(c *Cluster) *[]string { return &c.BlacklistedOS }),
	required("primary_ip_family", ipFamily, func(c *Cluster) *int64 { return &c.IPFamily }),
	required("prealloc_wipe_disks", boolean, func(c *Cluster) *bool { return &c.PreallocWipeDisks }),
	required("ipolicy", filledIPolicy, func(c *Cluster) *IPolicy { return &c.IPolicy }),
	withDefault("hv_state_static", params, nil, func(c *Cluster) *Params { return &c.HVState }),
	withDefault("disk_state_static", params, nil, func(c *Cluster) *Params { return &c.DiskState }),
	required("enabled_disk_templates", list(diskTemplate), func(c *Cluster) *[]string { return &c.EnabledDiskTemplates }),
	required("candidate_certs", dict(text), func(c *Cluster) *Dict[string] { return &c.CandidateCerts }),
	required("max_running_jobs", integer, func(c *Cluster) *int64 { return &c.MaxRunningJobs }),
	required("max_tracked_jobs", integer, func(c *Cluster) *int64 { return &c.MaxTrackedJobs }),
	required("install_image", text, func(c *Cluster) *string { return &c.InstallImage }),
	required("instance_communication_network", text, func(c *Cluster) *string { return &c.CommunicationNetwork }),
	required("zeroing_image", text, func(c *Cluster) *string { return &c.ZeroingImage }),
	required("compression_tools", list(text), func(c *Cluster) *[]string { return &c.CompressionTools }),
	required("enabled_user_shutdown", boolean, func(c *Cluster) *bool { return &c.EnabledUserShutdown }),
	required("data_collectors", dict(collector.codec(false)), func(c *Cluster) *Dict[Collector] { return &c.DataCollectors }),
	required("ssh_key_type", enum("SshKeyType", "rsa", "dsa", "ecdsa"), func(c *Cluster) *string { return &c.SSHKeyType }),
	required("ssh_key_bits", integer, func(c *Cluster) *int64 { return &c.SSHKeyBits }),
}, stamps(func(c *Cluster) *Stamp { return &c.Stamp }), tags(func(c *Cluster) *[]string { return &c.Tags }))

// idRange is the codec of a pair of user ids: the first and the last of a range.
var idRange = codec[[]int64]{
	decode: func(raw []byte) ([]int64, error) {
		if _, err := tuple(raw, 2, fmt.Errorf("Unable to read Pair")); err != nil {
			return nil, err
		}
		return list(integer).decode(raw)
	},
	append: list(integer).append,
}

// ipFamily is the codec of AF_INET (2) and AF_INET6 (10).
var ipFamily = codec[int64]{
	decode: func(raw []byte) (int64, error) {
		v, err := DecodeInt(raw)
		if err == nil && !slices.Contains([]int64{2, 10}, v) {
			err = fmt.Errorf("Invalid string value for type IpFamily: %s", strconv.FormatInt(v, 10))
		}
		return v, err
	},
	append: integer.append,
}
