package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/wire"
)

// commonParams names the parameters that every opcode has.
var commonParams = []string{"OP_ID", "dry_run", "debug_level", "priority", "depends", "comment", "reason"}

// queueSettingNames names the parameters of OP_CLUSTER_SET_PARAMS that lockstep sets.
var queueSettingNames = []string{"max_running_jobs", "max_tracked_jobs"}

// unsetValues are the values with which clients leave a parameter unchanged.
var unsetValues = []string{"null", "false", "[]", "{}"}

// queueSettings returns the settings that OP_CLUSTER_SET_PARAMS changes; unset ones are left out. The outcome, if not nil, is the failure
// of the opcode.
func (x *execution) queueSettings() (map[string]json.RawMessage, *jobproc.Outcome) {
	var op map[string]json.RawMessage
	if err := json.Unmarshal(x.input, &op); err != nil {
		o := failure("OpPrereqError", fmt.Sprintf("Parameters cannot be read: %v", err), "wrong_input")
		return nil, &o
	}
	settings := map[string]json.RawMessage{}
	for name, value := range op {
		switch {
		case slices.Contains(commonParams, name), slices.Contains(unsetValues, string(value)):
		case slices.Contains(queueSettingNames, name):
			settings[name] = value
		default:
			text := fmt.Sprintf("lockstep cannot set %s; it sets %s", name, strings.Join(queueSettingNames, " and "))
			o := failure("OpPrereqError", text, "wrong_input")
			return nil, &o
		}
	}
	return settings, nil
}

// clusterSetParams is OP_CLUSTER_SET_PARAMS for the parameters of the queue (design.md "Opcodes"). lockstep has no other
// parameters of a cluster.
func (x *execution) clusterSetParams() jobproc.Outcome {
	settings, refused := x.queueSettings()
	if refused != nil {
		return *refused
	}
	if len(settings) == 0 {
		return jobproc.Outcome{}
	}
	if _, failed := x.callDaemon("LockstepSetSettings", settings); failed != nil {
		return *failed
	}
	return jobproc.Outcome{}
}

// query is OP_QUERY, OP_QUERY_FIELDS and OP_CLUSTER_QUERY. The answer of the daemon is the result, but for an OP_QUERY of cluster or os,
// which queryCluster serves.
func (x *execution) query() jobproc.Outcome {
	var op struct {
		What   string          `json:"what"`
		Fields []string        `json:"fields"`
		Filter json.RawMessage `json:"qfilter"`
	}
	if err := json.Unmarshal(x.input, &op); err != nil {
		return failure("OpPrereqError", fmt.Sprintf("Parameters cannot be read: %v", err), "wrong_input")
	}
	if job.OpID(x.input) == "OP_QUERY" && (op.What == "cluster" || op.What == "os") {
		return x.queryCluster(op.What, op.Fields)
	}
	method, args := "QueryClusterInfo", []any{}
	switch job.OpID(x.input) {
	case "OP_QUERY_FIELDS":
		method, args = "QueryFields", []any{op.What, op.Fields}
	case "OP_QUERY":
		filter := op.Filter
		if filter == nil {
			filter = json.RawMessage("null")
		}
		method, args = "Query", []any{op.What, op.Fields, filter}
	}
	result, failed := x.callDaemon(method, args...)
	if failed != nil {
		return *failed
	}
	return jobproc.Outcome{Result: result}
}

// queryCluster is OP_QUERY for the two kinds that the LUXI call Query does not take: the cluster, whose fields are those
// of QueryClusterInfo and QueryConfigValues, and operating systems to install, of which lockstep has none.
func (x *execution) queryCluster(what string, fields []string) jobproc.Outcome {
	values := map[string]json.RawMessage{}
	data := [][][2]any{}
	if what == "cluster" {
		info, failed := x.callDaemon("QueryClusterInfo")
		if failed != nil {
			return *failed
		}
		if err := json.Unmarshal(info, &values); err != nil {
			return failure("OpExecError", "The daemon's answer cannot be read: "+err.Error())
		}
		names := []string{"cluster_name", "master_node", "drain_flag", "watcher_pause"}
		listed, failed := x.callDaemon("QueryConfigValues", names)
		if failed != nil {
			return *failed
		}
		var more []json.RawMessage
		if err := json.Unmarshal(listed, &more); err != nil || len(more) != len(names) {
			return failure("OpExecError", "The daemon's answer cannot be read")
		}
		for i, name := range names {
			values[name] = more[i]
		}
		data = append(data, [][2]any{})
	}
	definitions := []map[string]string{}
	for _, name := range fields {
		value, known := values[name]
		definition := map[string]string{"name": name, "title": name, "kind": "other", "doc": name}
		cell := [2]any{0, value}
		if !known {
			definition["kind"], cell = "unknown", [2]any{1, nil}
		}
		definitions = append(definitions, definition)
		if len(data) > 0 {
			data[0] = append(data[0], cell)
		}
	}
	result, err := json.Marshal(map[string]any{"fields": definitions, "data": data})
	if err != nil {
		return failure("OpExecError", err.Error())
	}
	return jobproc.Outcome{Result: result}
}

// callDaemon makes a call, and waits for a daemon if none answers. The error of the call is the outcome of the opcode.
func (x *execution) callDaemon(method string, args ...any) (json.RawMessage, *jobproc.Outcome) {
	var result json.RawMessage
	err := x.ask(method, args, &result)
	if err == nil {
		return result, nil
	}
	var failed *wire.Error
	outcome := failure("OpExecError", err.Error())
	if errors.As(err, &failed) {
		args := make([]any, len(failed.Args))
		for i, arg := range failed.Args {
			args[i] = arg
		}
		outcome = failure(failed.Class, args...)
	}
	return nil, &outcome
}
