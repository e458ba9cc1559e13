package query

import (
	"strings"

	"lockstep/core/config"
)

// The number of disks and of interfaces that have single fields.
const (
	disksShown = 16
	nicsShown  = 8
)

// indexedField makes the fields for a part that an instance has several of: one field for each part, and one for the
// list.
type indexedField struct {
	name, title string // of the field of one part, without its number
	list, lists string // name and title of the field of the list; "" for none
	kind        FieldType
	doc         string
	value       func(*ObjectItem, config.Object) Value
}

// elementField is the value of element i of a list of an instance; unavailable if there are fewer.
func elementField(objects func(*ObjectItem) []config.Object, i int, value func(*ObjectItem, config.Object) Value) func(*ObjectItem) Value {
	return func(t *ObjectItem) Value {
		all := objects(t)
		if i >= len(all) {
			return unavailable()
		}
		return value(t, all[i])
	}
}

func (s indexedField) fields(shown int, objects func(*ObjectItem) []config.Object) []Field[ObjectItem] {
	var fields []Field[ObjectItem]
	for i := range shown {
		fields = append(fields, field(numbered(s.name, i), numbered(s.title, i), s.kind, s.doc, elementField(objects, i, s.value)))
	}
	return append(fields, field(s.list, s.lists, Other, s.doc+", of each", func(t *ObjectItem) Value {
		all := []any{}
		for _, o := range objects(t) {
			v := s.value(t, o)
			all = append(all, v.Data) // nil for no value
		}
		return normal(all)
	}))
}

// storedMember is a stored value.
func storedMember(key string) func(*ObjectItem, config.Object) Value {
	return func(_ *ObjectItem, o config.Object) Value { return member(o, key) }
}

func diskFields() []Field[ObjectItem] {
	objects := (*ObjectItem).diskList
	fields := []Field[ObjectItem]{
		field("disk.count", "Disks", Number, "How many disks it has", func(t *ObjectItem) Value { return normal(len(objects(t))) }),
		field("sda_size", "Disk/0", Unit, "Size of the first disk", elementField(objects, 0, storedMember("size"))),
		field("sdb_size", "Disk/1", Unit, "Size of the second disk", elementField(objects, 1, storedMember("size"))),
	}
	for _, s := range []indexedField{
		{"disk.name", "DiskName", "disk.names", "Disk_names", Text, "Name of the disk", storedMember("name")},
		{"disk.size", "Disk", "disk.sizes", "Disk_sizes", Unit, "Size of the disk", storedMember("size")},
		{"disk.spindles", "DiskSpindles", "disk.spindles", "Disk_spindles", Number, "Spindles of the disk", storedMember("spindles")},
		{"disk.uuid", "DiskUUID", "disk.uuids", "Disk_UUIDs", Text, "UUID of the disk", storedMember("uuid")},
	} {
		fields = append(fields, s.fields(disksShown, objects)...)
	}
	return fields
}

func nicFields() []Field[ObjectItem] {
	objects := (*ObjectItem).nicList
	fields := []Field[ObjectItem]{
		field("nic.count", "NICs", Number, "How many interfaces it has", func(t *ObjectItem) Value { return normal(len(objects(t))) }),
		field("bridge", "NicBridge/0", Text, "Bridge of the first interface", elementField(objects, 0, nicBridge)),
		field("ip", "NicIP/0", Text, "Address of the first interface", elementField(objects, 0, storedMember("ip"))),
		field("mac", "NicMAC/0", Text, "MAC address of the first interface", elementField(objects, 0, storedMember("mac"))),
		field("nic_link", "NicLink/0", Text, "Link of the first interface", elementField(objects, 0, storedMember("link"))),
		field("nic_mode", "NicMode/0", Text, "Mode of the first interface", elementField(objects, 0, storedMember("mode"))),
		field("nic_network", "NicNetwork/0", Text, "Network of the first interface", elementField(objects, 0, storedMember("network"))),
		field("custom_nicparams", "CustomNicParameters", Other, "Parameters that are set for each interface", func(t *ObjectItem) Value {
			all := []any{}
			for _, nic := range objects(t) {
				all = append(all, nic["nicparams"])
			}
			return normal(all)
		}),
	}
	for _, s := range []indexedField{
		{"nic.bridge", "NicBridge", "nic.bridges", "NIC_bridges", Text, "Bridge of the interface", nicBridge},
		{"nic.ip", "NicIP", "nic.ips", "NIC_IPs", Text, "Address of the interface", storedMember("ip")},
		{"nic.link", "NicLink", "nic.links", "NIC_links", Text, "Link of the interface", storedMember("link")},
		{"nic.mac", "NicMAC", "nic.macs", "NIC_MACs", Text, "MAC address of the interface", storedMember("mac")},
		{"nic.mode", "NicMode", "nic.modes", "NIC_modes", Text, "Mode of the interface", storedMember("mode")},
		{"nic.name", "NicName", "nic.names", "NIC_Names", Text, "Name of the interface", storedMember("name")},
		{"nic.network", "NicNetwork", "nic.networks", "NIC_networks", Text, "UUID of the interface's network", storedMember("network")},
		{"nic.network.name", "NicNetworkName", "nic.networks.names", "NIC_networks_names",
			Text, "Name of the interface's network", nicNetworkName},
		{"nic.uuid", "NicUUID", "nic.uuids", "NIC_UUIDs", Text, "UUID of the interface", storedMember("uuid")},
		{"nic.vlan", "NicVLAN", "nic.vlans", "NIC_VLANs", Text, "VLAN of the interface", nicVLAN},
	} {
		fields = append(fields, s.fields(nicsShown, objects)...)
	}
	return fields
}

// nicBridge is the link of a bridged interface; unavailable for another mode.
func nicBridge(_ *ObjectItem, nic config.Object) Value {
	if nic.Text("mode") != "bridged" {
		return unavailable()
	}
	return member(nic, "link")
}

// nicVLAN is the VLAN of an interface of Open vSwitch; unavailable for another mode.
func nicVLAN(_ *ObjectItem, nic config.Object) Value {
	if nic.Text("mode") != "openvswitch" {
		return unavailable()
	}
	return member(nic, "vlan")
}

func nicNetworkName(t *ObjectItem, nic config.Object) Value {
	return textOrUnavailable(t.Document.Network(nic.Text("network")).Text("name"))
}

func backendFields() []Field[ObjectItem] {
	of := func(name, title string, kind FieldType, doc, key string) Field[ObjectItem] {
		return field("be/"+name, title, kind, doc, memberOf(backend, key))
	}
	return []Field[ObjectItem]{
		of("always_failover", "be/always_failover", Bool, "Whether it is never migrated live", "always_failover"),
		of("auto_balance", "Auto_balance", Bool, "Whether it may be moved to balance the cluster", "auto_balance"),
		of("maxmem", "ConfigMaxMem", Unit, "Most memory that it may have", "maxmem"),
		of("memory", "ConfigMaxMem", Unit, "Most memory that it may have", "maxmem"),
		of("minmem", "ConfigMinMem", Unit, "Least memory that it may have", "minmem"),
		of("spindle_use", "be/spindle_use", Number, "Spindles that it keeps busy", "spindle_use"),
		of("vcpus", "ConfigVCPUs", Number, "How many processors it has", "vcpus"),
	}
}

// The hypervisor parameters that have fields, by type.
const (
	hvBools = `acpi pae serial_console spice_playback_compression spice_use_tls spice_use_vdagent use_bootloader use_chroot
		use_guest_agent use_localtime user_shutdown vhost_net viridian vnc_tls vnc_x509_verify vnet_hdr`
	hvNumbers = `cpu_cap cpu_cores cpu_sockets cpu_threads cpu_weight kvm_pci_reservations migration_downtime num_ttys
		serial_speed spice_ip_version startup_timeout virtio_net_queues`
	hvOthers = `blockdev_prefix boot_order bootloader_args bootloader_path cdrom2_image_path cdrom_disk_type cdrom_image_path
		cpu_mask cpu_type cpuid device_model devices disk_aio disk_cache disk_discard disk_type drop_capabilities
		extra_cgroups extra_config floppy_image_path init_script initrd_path kernel_args kernel_path keymap kvm_extra
		kvm_flag kvm_path machine_version mem_path migration_caps nic_type pci_pass reboot_behavior root_path
		scsi_controller_type security_domain security_model soundhw spice_bind spice_image_compression
		spice_jpeg_wan_compression spice_password_file spice_streaming_video spice_tls_ciphers
		spice_zlib_glz_wan_compression usb_devices usb_mouse vga vif_script vif_type vnc_bind_address vnc_password_file
		vnc_x509_path`
)

// hvTitles are the titles that differ from the field's name.
var hvTitles = map[string]string{
	"acpi": "ACPI", "boot_order": "Boot_order", "cdrom_image_path": "CDROM_image_path", "cpu_type": "cpu_type",
	"disk_type": "Disk_type", "initrd_path": "Initrd_path", "kernel_path": "Kernel_path", "nic_type": "NIC_type",
	"pae": "PAE", "pci_pass": "pci_pass", "vnc_bind_address": "VNC_bind_address",
}

func hypervisorFields() []Field[ObjectItem] {
	var fields []Field[ObjectItem]
	for _, group := range []struct {
		kind  FieldType
		names string
	}{{Bool, hvBools}, {Number, hvNumbers}, {Other, hvOthers}} {
		for _, name := range strings.Fields(group.names) {
			title, own := hvTitles[name]
			if !own {
				title = "hv/" + name
			}
			fields = append(fields, field("hv/"+name, title, group.kind, "Hypervisor parameter "+name, memberOf(hypervisor, name)))
		}
	}
	return fields
}
