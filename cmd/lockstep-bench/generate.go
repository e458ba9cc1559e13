package main

import (
	"fmt"

	"lockstep/core/config/model"
)

// The forms of generated objects. An instance has two network interfaces and a DRBD disk of two volumes, 2 kB of JSON together.
// Their arguments are: number, nodes, MAC and IP address of an instance; number, nodes and minor of a disk; number, group, part
// of the address and uuid of a node.
const (
	instanceForm = `{"name":"instance%[1]d.example.org","primary_node":"%[2]s","os":"debootstrap+default","hypervisor":"kvm",
"hvparams":{"kernel_path":"","serial_console":true,"vnc_bind_address":"0.0.0.0","boot_order":"disk","cpu_mask":"all"},
"beparams":{"minmem":2048,"maxmem":4096,"vcpus":2,"auto_balance":true},"osparams":{"dhcp":"no","filesystem":"ext4"},
"osparams_private":{},"admin_state":"up","admin_state_source":"admin",
"nics":[{"mac":"aa:00:00:%[4]s","ip":"10.%[5]s","nicparams":{"mode":"bridged","link":"br0"},"uuid":"00000000-0000-4000-a000-%012[1]d"},
{"mac":"aa:00:01:%[4]s","nicparams":{"mode":"bridged","link":"br1"},"uuid":"00000000-0000-4000-b000-%012[1]d"}],
"disks":["00000000-0000-4000-d000-%012[1]d"],"disks_active":true,"network_port":11001,
"ctime":1700000000.5,"mtime":1700000000.5,"uuid":"00000000-0000-4000-8000-%012[1]d",` +
		`"serial_no":1,"tags":["owner:team%[1]d","tier:production"]}`
	diskForm = `{"logical_id":["%[2]s","%[3]s",%[1]d,%[4]d,%[4]d,"%040[1]x"],"dev_type":"drbd","children":[
{"logical_id":["xenvg","%012[1]d.disk0_data"],"dev_type":"plain","children":[],` +
		`"nodes":["%[2]s","%[3]s"],"iv_name":"","size":20480,"mode":"rw",
"params":{},"uuid":"00000000-0000-4000-e000-%012[1]d","serial_no":1,"ctime":1700000000.5,"mtime":1700000000.5},
{"logical_id":["xenvg","%012[1]d.disk0_meta"],"dev_type":"plain","children":[],` +
		`"nodes":["%[2]s","%[3]s"],"iv_name":"","size":128,"mode":"rw",
"params":{},"uuid":"00000000-0000-4000-f000-%012[1]d","serial_no":1,"ctime":1700000000.5,"mtime":1700000000.5}],
"nodes":["%[2]s","%[3]s"],"iv_name":"disk/0","size":20480,"mode":"rw","params":{"resync-rate":61440},
"uuid":"00000000-0000-4000-d000-%012[1]d","serial_no":1,"ctime":1700000000.5,"mtime":1700000000.5}`
	nodeForm = `{"name":"node%[1]d.example.org","primary_ip":"10.255.%[3]s","secondary_ip":"10.255.%[3]s","master_candidate":false,
"offline":false,"drained":false,"group":"%[2]s","master_capable":true,"vm_capable":true,"ndparams":{},"powered":true,
"uuid":"%[4]s","serial_no":1,"tags":[]}`
)

// instancesPerNode is the number of instances of which a generated node is the primary node.
const instancesPerNode = 100

func instanceUUID(number int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", number) }
func nodeUUID(number int) string     { return fmt.Sprintf("00000000-0000-4000-9000-%012d", number) }

// withInstances returns a configuration with generated instances, their disks and nodes in addition.
func withInstances(c *model.Config, count int) (*model.Config, error) {
	var group string
	for group = range c.Groups.All() {
		break
	}
	e := c.Edit()
	nodes := 2 + count/instancesPerNode
	for i := range nodes {
		raw := fmt.Appendf(nil, nodeForm, i, group, fmt.Sprintf("%d.%d", i>>8, i&255), nodeUUID(i))
		if err := put(e, model.Nodes, nodeUUID(i), raw); err != nil {
			return nil, err
		}
	}
	for i := 1; i <= count; i++ {
		primary := i / instancesPerNode
		secondary := (primary + 1) % nodes
		raw := fmt.Appendf(nil, instanceForm, i, nodeUUID(primary), nodeUUID(secondary),
			fmt.Sprintf("%02x:%02x:%02x", i>>16, i>>8&255, i&255), fmt.Sprintf("%d.%d.%d", i>>16, i>>8&255, i&255))
		if err := put(e, model.Instances, instanceUUID(i), raw); err != nil {
			return nil, err
		}
		raw = fmt.Appendf(nil, diskForm, i, nodeUUID(primary), nodeUUID(secondary), i%instancesPerNode)
		if err := put(e, model.Disks, fmt.Sprintf("00000000-0000-4000-d000-%012d", i), raw); err != nil {
			return nil, err
		}
	}
	made, _ := e.Commit(c.MTime)
	return made, nil
}

func put[T any](e *model.Edit, k *model.Kind[T], uuid string, raw []byte) error {
	o, err := k.Decode(raw)
	if err != nil {
		return fmt.Errorf("generated object of %s: %w", k.Name, err)
	}
	k.Put(e, uuid, o.Value)
	return nil
}
