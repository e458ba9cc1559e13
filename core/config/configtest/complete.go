package configtest

import (
	"encoding/json"
	"fmt"
	"maps"

	"lockstep/core/config"
	"lockstep/core/config/model"
)

// TB is the part of testing.TB by which these functions report failures; Must has it, too.
type TB interface {
	Errorf(format string, args ...any)
	FailNow()
}

func noError(t TB, err error) {
	if err != nil {
		t.Errorf("%v", err)
		t.FailNow()
	}
}

// New returns the configuration of a new cluster with one node, after the given changes. It fails the test if a change is refused.
func New(t TB, changes ...config.ConfigChange) *model.Config {
	c, err := config.New(config.Identity{
		ClusterName: "demo",
		ClusterUUID: "c",
		NodeName:    "node1",
		NodeUUID:    "n",
		NodeIP:      "127.0.0.1",
		GroupUUID:   "g",
		Now:         1,
	})
	noError(t, err)
	return Edit(t, c, changes...)
}

// Edit returns a configuration after changes of lockstep's own, with higher serial numbers. It fails the test if a change is refused.
func Edit(t TB, c *model.Config, changes ...config.ConfigChange) *model.Config {
	for _, change := range changes {
		var err error
		c, err = config.Edit(c, 5, change)
		noError(t, err)
	}
	return c
}

// Slots returns the change that lets this number of jobs run at once.
func Slots(jobs int) config.ConfigChange {
	return config.ConfigChange{Cluster: map[string][]byte{"max_running_jobs": fmt.Append(nil, jobs)}}
}

// Rule is the change that adds a filter rule. fields are members of the rule that replace those of a rule without effect.
func Rule(uuid, fields string) config.ConfigChange {
	rule := object{"uuid": uuid, "watermark": 0, "priority": 0, "predicates": []any{}, "action": "CONTINUE", "reason_trail": []any{}}
	maps.Copy(rule, parse("{"+fields+"}"))
	return config.ConfigChange{RuleUUID: uuid, Rule: format(rule)}
}

// Complete returns the configuration that raw describes in part: it has some objects, each with some values. The required values that raw
// lacks are added.
func Complete(t TB, raw []byte) *model.Config {
	given := parse(string(raw))
	full := parse(string(New(t).JSON()))
	cluster := full["cluster"].(object)
	for name, value := range part(given, "cluster") {
		switch defaults, _ := cluster[name].(object); name {
		case "beparams", "nicparams":
			cluster[name] = object{"default": joined(part(defaults, "default"), part(value.(object), "default"))}
		case "ndparams", "ipolicy":
			cluster[name] = joined(defaults, value.(object))
		default:
			cluster[name] = value
		}
	}
	for kind, defaults := range templates {
		objects := part(given, kind)
		for uuid, o := range objects {
			objects[uuid] = completed(kind, defaults, uuid, o.(object))
		}
		full[kind] = objects
	}
	c, err := model.Decode(format(full))
	noError(t, err)
	return c
}

// Decode reads a configuration.
func Decode(t TB, raw []byte) *model.Config {
	c, err := model.Decode(raw)
	noError(t, err)
	return c
}

// object is a decoded object.
type object = map[string]any

// templates are the required values of each kind of objects.
var templates = map[string]string{
	"nodes": `{"primary_ip": "192.0.2.1", "secondary_ip": "192.0.2.1", "master_candidate": false, "offline": false, "drained": false,
		"master_capable": true, "vm_capable": true, "ndparams": {}, "powered": true, "serial_no": 1}`,
	"nodegroups": `{"ndparams": {}, "alloc_policy": "preferred", "ipolicy": {}, "diskparams": {}, "networks": {}, "serial_no": 1}`,
	"instances": `{"name": "", "primary_node": "", "os": "none", "hypervisor": "fake", "admin_state": "down", "admin_state_source": "admin",
		"disks_active": false, "serial_no": 1}`,
	"networks": `{"network": "192.0.2.0/24", "serial_no": 1}`,
	"disks":    `{"size": 1024, "serial_no": 1}`,
	"filters":  `{"watermark": 0, "priority": 0, "predicates": [], "action": "CONTINUE", "reason_trail": []}`,
}

func completed(kind, defaults, uuid string, given object) object {
	full := joined(parse(defaults), given)
	if _, named := full["uuid"]; !named {
		full["uuid"] = uuid
	}
	if full["forthcoming"] == true {
		full = joined(object{"uuid": uuid, "serial_no": 1}, given)
	}
	of := func(list string) []any { all, _ := full[list].([]any); return all }
	if kind == "instances" {
		for i, nic := range of("nics") {
			required := object{
				"mac":       fmt.Sprintf("aa:00:00:00:00:%02d", i),
				"nicparams": object{},
				"uuid":      fmt.Sprintf("%s-nic%d", uuid, i),
			}
			full["nics"].([]any)[i] = joined(required, nic.(object))
		}
	}
	if kind == "disks" {
		for i, child := range of("children") {
			full["children"].([]any)[i] = completed(kind, defaults, fmt.Sprintf("%s-%d", uuid, i), child.(object))
		}
	}
	return full
}

func joined(defaults, given object) object {
	all := maps.Clone(defaults)
	maps.Copy(all, given)
	return all
}

// part is a member that is an object; empty if it is missing.
func part(o object, name string) object {
	if inner, is := o[name].(object); is {
		return inner
	}
	return object{}
}

func parse(text string) object {
	var o object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	return o
}

func format(o object) []byte {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return raw
}

// Must is a test without a testing.T: it panics when it fails.
type Must struct{}

// Errorf panics.
func (Must) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// FailNow panics.
func (Must) FailNow() { panic("failed") }
