package noded

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"lockstep/core/rawjson"
)

// The procedures that tell what only a node knows (live.md 2 to 4). They change nothing on the node.
const (
	NodeInfo         Procedure = "node_info"
	AllInstancesInfo Procedure = "all_instances_info"
	ConsoleInfo      Procedure = "instance_console_info"
	ExportList       Procedure = "export_list"
)

// StorageUnit is a storage of a node that node_info reports on.
type StorageUnit struct {
	Type string // lvm-vg, lvm-pv or file
	Key  string // the volume group, or the directory
	// Exclusive is the node's parameter exclusive_storage. Types other than lvm-vg and lvm-pv have no such parameter.
	Exclusive bool
}

// LVM reports whether the unit is one of LVM.
func (u StorageUnit) LVM() bool { return u.Type == TypeVolumeGroup || u.Type == TypePhysicalVolumes }

// Types of storage units.
const (
	TypeVolumeGroup     = "lvm-vg"
	TypePhysicalVolumes = "lvm-pv"
	TypeFile            = "file"
)

// Hypervisor is a hypervisor with the parameters of the cluster, a JSON object.
type Hypervisor struct {
	Name   string
	Params json.RawMessage
}

// AskNodeInfo is the call of node_info. Without units the node reports on no storage, without hypervisors on no memory and no processors.
func AskNodeInfo(units []StorageUnit, hypervisors []Hypervisor) Request {
	dst := []byte("[[")
	for i, u := range units {
		dst = separated(dst, i)
		dst = rawjson.AppendQuoted(append(dst, '['), u.Type)
		dst = rawjson.AppendQuoted(append(dst, ','), u.Key)
		dst = append(dst, ",["...)
		if u.LVM() {
			dst = strconv.AppendBool(dst, u.Exclusive)
		}
		dst = append(dst, "]]"...)
	}
	dst = append(dst, "],["...)
	for i, h := range hypervisors {
		dst = separated(dst, i)
		dst = rawjson.AppendQuoted(append(dst, '['), h.Name)
		dst = append(append(append(dst, ','), h.Params...), ']')
	}
	return Request{NodeInfo, append(dst, "]]"...)}
}

// AskInstances is the call of all_instances_info.
func AskInstances(hypervisors []Hypervisor) Request {
	dst := []byte("[[")
	for i, h := range hypervisors {
		dst = rawjson.AppendQuoted(separated(dst, i), h.Name)
	}
	dst = append(dst, "],{"...)
	for i, h := range hypervisors {
		dst = rawjson.AppendQuoted(separated(dst, i), h.Name)
		dst = append(append(dst, ':'), h.Params...)
	}
	return Request{AllInstancesInfo, append(dst, "}]"...)}
}

// ConsoleQuestion is an instance whose console is asked for. All values but the name are JSON objects.
type ConsoleQuestion struct {
	Name                  string
	Instance, Node, Group json.RawMessage // as in the configuration
	HVParams, BEParams    json.RawMessage // in force
}

// AskConsoles is the call of instance_console_info.
func AskConsoles(instances []ConsoleQuestion) Request {
	dst := []byte{'{'}
	for i, q := range instances {
		dst = rawjson.AppendQuoted(separated(dst, i), q.Name)
		dst = append(append(dst, `:{"instance":`...), q.Instance...)
		dst = append(append(dst, `,"node":`...), q.Node...)
		dst = append(append(dst, `,"group":`...), q.Group...)
		dst = append(append(dst, `,"hvParams":`...), q.HVParams...)
		dst = append(append(dst, `,"beParams":`...), q.BEParams...)
		dst = append(dst, '}')
	}
	return Request{ConsoleInfo, append(dst, '}')}
}

// AskExports is the call of export_list.
func AskExports() Request { return Request{ExportList, []byte("{}")} }

func separated(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

// NodeFacts is what a node says of itself in node_info.
type NodeFacts struct {
	BootID      string
	Storage     []StorageFacts    // of the units, in the order of the call; a unit of which nothing is known has no type
	Hypervisors []HypervisorFacts // in the order of the call; nil fields if nothing is known
}

// StorageFacts are sizes of a storage unit in MiB, in spindles for lvm-pv. nil: unknown.
type StorageFacts struct {
	Type string `json:"type"`
	Size *int64 `json:"storage_size"`
	Free *int64 `json:"storage_free"`
}

// HypervisorFacts are memory in MiB and numbers of processors. nil: unknown.
type HypervisorFacts struct {
	MemoryTotal *int64 `json:"memory_total"`
	MemoryFree  *int64 `json:"memory_free"`
	MemoryNode  *int64 `json:"memory_dom0"` // of the node's own system
	CPUTotal    *int64 `json:"cpu_total"`
	CPUNodes    *int64 `json:"cpu_nodes"` // memory nodes
	CPUSockets  *int64 `json:"cpu_sockets"`
	CPUOwn      *int64 `json:"cpu_dom0"` // of the node's own system
}

// DecodeNodeInfo decodes the result of node_info.
func DecodeNodeInfo(result json.RawMessage) (NodeFacts, error) {
	parts, err := list(result)
	if err == nil && len(parts) != 3 {
		err = fmt.Errorf("%d parts in place of 3", len(parts))
	}
	var f NodeFacts
	for i, into := range []any{&f.BootID, &f.Storage, &f.Hypervisors} {
		if err == nil {
			err = json.Unmarshal(parts[i], into)
		}
	}
	if err != nil {
		return NodeFacts{}, fmt.Errorf("decode the result of node_info: %w", err)
	}
	return f, nil
}

// InstanceState is the state of an instance as its hypervisor sees it.
type InstanceState int64

// The states of instances. An instance that is shut down was ended by its own user, and its hypervisor still knows it.
const (
	InstanceRunning  InstanceState = 0
	InstanceShutDown InstanceState = 1
)

// InstanceFacts is what a node says of an instance that its hypervisor knows.
type InstanceFacts struct {
	Memory int64 // MiB
	VCPUs  int64
	State  InstanceState
}

// DecodeInstances decodes the result of all_instances_info: the instances by name.
func DecodeInstances(result json.RawMessage) (map[string]InstanceFacts, error) {
	found := map[string]InstanceFacts{}
	err := decodeMembers(result, func(name string, raw json.RawMessage) error {
		var f struct {
			Memory, VCPUs *int64
			State         *InstanceState
		}
		switch err := json.Unmarshal(raw, &f); {
		case err != nil:
			return err
		case f.Memory == nil || f.VCPUs == nil || f.State == nil:
			return errors.New("memory, vcpus or state is missing")
		case *f.State != InstanceRunning && *f.State != InstanceShutDown:
			return fmt.Errorf("%d is no state", *f.State)
		}
		found[name] = InstanceFacts{*f.Memory, *f.VCPUs, *f.State}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("decode the result of all_instances_info: %w", err)
	}
	return found, nil
}

// DecodeConsoles decodes the result of instance_console_info: the consoles, JSON objects, by the names of the instances.
func DecodeConsoles(result json.RawMessage) (map[string]json.RawMessage, error) {
	found := map[string]json.RawMessage{}
	err := decodeMembers(result, func(name string, raw json.RawMessage) error {
		if !rawjson.IsObject(raw) {
			return errors.New("a console is no object")
		}
		found[name] = raw
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("decode the result of instance_console_info: %w", err)
	}
	return found, nil
}

// decodeMembers calls member for each member of an object in UTF-8, until the first error.
func decodeMembers(result json.RawMessage, member func(name string, raw json.RawMessage) error) error {
	if !utf8.Valid(result) {
		return errors.New("its text is not UTF-8")
	}
	var failure error
	err := rawjson.ReadObject(result, func(key, value []byte) {
		if failure == nil {
			if failure = member(string(key), value); failure != nil {
				failure = fmt.Errorf("%s: %w", rawjson.Clipped(key), failure)
			}
		}
	})
	if err != nil {
		return err
	}
	return failure
}

// DecodeExports decodes the result of export_list: names of instances.
func DecodeExports(result json.RawMessage) ([]string, error) {
	if !utf8.Valid(result) {
		return nil, errors.New("the result of export_list is not in UTF-8")
	}
	names := []string{}
	if err := json.Unmarshal(result, &names); err != nil || names == nil {
		return nil, fmt.Errorf("the result of export_list is no list of names: %s", rawjson.Clipped(result))
	}
	return names, nil
}

// DecodeResult decodes the result of a procedure of this file: a NodeFacts, a map[string]InstanceFacts, a
// map[string]json.RawMessage of consoles, or a []string of exports.
func DecodeResult(p Procedure, result json.RawMessage) (any, error) {
	switch p {
	case NodeInfo:
		return DecodeNodeInfo(result)
	case AllInstancesInfo:
		return DecodeInstances(result)
	case ConsoleInfo:
		return DecodeConsoles(result)
	case ExportList:
		return DecodeExports(result)
	}
	return nil, fmt.Errorf("%s tells nothing of a node", p)
}
