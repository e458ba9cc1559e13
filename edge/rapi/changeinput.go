package rapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"lockstep/edge/tlsserver"
)

// versionKey is the key of the version of a request for an instance. There is version 1 only.
const versionKey = "__version__"

func adaptCreation(c *call, body jsonObject) error {
	version, given := body[versionKey]
	switch {
	case c.body == nil || string(c.body) == "null":
		return newFailure(http.StatusBadRequest, "Body contents: Type is 'NoneType', but 'dict' is expected")
	case !given || string(version) == "0":
		return newFailure(http.StatusBadRequest, "Instance creation request version 0 is no longer supported")
	case string(version) != "1":
		return newFailure(http.StatusBadRequest, "Unsupported request data version %s", tlsserver.Truncated(string(version)))
	}
	delete(body, versionKey)
	return adaptDevices(c, body)
}

// adaptCreations makes an opcode OP_INSTANCE_CREATE of each instance in the body.
func adaptCreations(c *call, body jsonObject) error {
	if body["instances"] == nil {
		return newFailure(http.StatusBadRequest, "Request is missing required 'instances' field in body")
	}
	var each []raw
	if json.Unmarshal(body["instances"], &each) != nil {
		return newFailure(http.StatusBadRequest, "The 'instances' parameter should be a list")
	}
	ops := make([]jsonObject, len(each))
	for i, instance := range each {
		op, err := parseObject(instance)
		if err == nil {
			err = op.rename(map[string]string{"os": "os_type", "name": "instance_name"})
		}
		if err != nil {
			return err
		}
		op[opIDKey] = raw(`"OP_INSTANCE_CREATE"`)
		ops[i] = op
	}
	data, err := json.Marshal(ops)
	body["instances"] = data
	return err
}

// adaptDevices separates USB devices by commas, as the opcode does. Parameters of another form stay as they are: the opcode's check reports
// them.
func adaptDevices(_ *call, body jsonObject) error {
	const devicesKey = "usb_devices"
	params, err := parseObject(body.nullable("hvparams"))
	var devices string
	if err == nil {
		err = json.Unmarshal(params[devicesKey], &devices)
	}
	if err == nil && devices != "" {
		params[devicesKey] = quoteJSON(strings.ReplaceAll(devices, " ", ","))
		body["hvparams"], err = json.Marshal(params)
		return err
	}
	return nil
}

// adaptDisks reads the parameters of a replacement from the query if there is no body. Indexes of disks may be a text with commas, which
// becomes a list.
func adaptDisks(c *call, body jsonObject) error {
	if len(body) == 0 {
		for _, name := range []string{"remote_node", "mode", "disks", "iallocator"} {
			if values := c.URL.Query()[name]; len(values) > 0 {
				body[name] = quoteJSON(values[0])
			}
		}
	}
	disks := body.nullable("disks")
	delete(body, "disks")
	var text string
	switch {
	case disks == nil || string(disks) == `""` || string(disks) == "[]":
		return nil
	case json.Unmarshal(disks, &text) != nil:
		body["disks"] = disks // the opcode's check reports what is no list of numbers
		return nil
	}
	indexes := []int{}
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return newFailure(http.StatusBadRequest, "Invalid disk index passed: %s", tlsserver.Truncated(part))
		}
		indexes = append(indexes, n)
	}
	data, err := json.Marshal(indexes)
	body["disks"] = data
	return err
}

// adaptNodeMigration reads the parameters of a migration from the query if the query has any; the body does not count then.
func adaptNodeMigration(c *call, body jsonObject) error {
	query := c.URL.Query()
	if len(query) == 0 {
		return nil
	}
	if query.Has("live") && query.Has("mode") {
		return newFailure(http.StatusBadRequest, "Only one of 'live' and 'mode' should be passed")
	}
	clear(body)
	switch {
	case query.Has("live"):
		live, err := c.flagArgument("live")
		if err != nil {
			return err
		}
		body["mode"] = raw(`"non-live"`)
		if live {
			body["mode"] = raw(`"live"`)
		}
	case query.Has("mode"):
		body["mode"] = quoteJSON(query.Get("mode"))
	}
	return nil
}

// rebootType is the type in the query, by default a hard restart.
var rebootType = fixedParameter{"reboot_type", func(c *call) (raw, error) {
	if values := c.URL.Query()["type"]; len(values) > 0 {
		return quoteJSON(values[0]), nil
	}
	return raw(`"hard"`), nil
}}

// roleParameters are the parameters of a node for the role in the body.
var roleParameters = []fixedParameter{roleParameter("master_candidate"), roleParameter("offline"), roleParameter("drained")}

// roleValues are the parameters by role; a parameter that is absent does not change.
var roleValues = map[string]map[string]raw{
	"regular":          {"master_candidate": raw("false"), "offline": raw("false"), "drained": raw("false")},
	"master-candidate": {"master_candidate": raw("true")},
	"drained":          {"drained": raw("true")},
	"offline":          {"offline": raw("true")},
}

func roleParameter(name string) fixedParameter {
	return fixedParameter{name, func(c *call) (raw, error) {
		var role string
		if c.body == nil || json.Unmarshal(c.body, &role) != nil {
			return nil, newFailure(http.StatusBadRequest, "Body contents: a role, a string, is expected")
		}
		values, known := roleValues[role]
		if !known {
			return nil, newFailure(http.StatusBadRequest, "Can't set '%s' role", tlsserver.Truncated(role))
		}
		return values[name], nil
	}}
}

func outputFields(c *call) (raw, error) {
	fields := c.URL.Query().Get("output_fields")
	if fields == "" {
		return nil, newFailure(http.StatusBadRequest, "Missing the required 'output_fields' parameter")
	}
	return json.Marshal(strings.Split(fields, ","))
}

func storageChanges(c *call) (raw, error) {
	if !c.URL.Query().Has("allocatable") {
		return raw("{}"), nil
	}
	set, err := c.flagArgument("allocatable")
	return raw(`{"allocatable":` + strconv.FormatBool(set) + `}`), err
}

// onlyZeros is "0" for a number that has no other digit, and "" for any other number.
func onlyZeros(digits string) string {
	if strings.Trim(digits, "0") == "" {
		return "0"
	}
	return ""
}

// reinstall submits a job that stops an instance, installs its operating system and, unless the client wants it stopped, starts it again.
// The answer is the id of the job.
func (s *Server) reinstall(c *call) (any, error) {
	body, err := c.optionalObject()
	if err != nil {
		return nil, err
	}
	query := c.URL.Query()
	query.Del("reason")
	switch {
	case len(body) > 0 && len(query) > 0:
		return nil, newFailure(http.StatusBadRequest, "Can't combine query and body parameters")
	case len(query) > 0:
		stay, err := c.flagArgument("nostartup")
		if err != nil {
			return nil, err
		}
		body = jsonObject{"start": strconv.AppendBool(nil, !stay)}
		if query.Has("os") {
			body["os"] = quoteJSON(query.Get("os"))
		}
	}
	start := true
	if body["start"] != nil && json.Unmarshal(body["start"], &start) != nil {
		return nil, newFailure(http.StatusBadRequest, "'start' parameter: a boolean is expected")
	}
	name := quoteJSON(c.params["name"])
	install := jsonObject{opIDKey: raw(`"OP_INSTANCE_REINSTALL"`), "instance_name": name}
	for key, parameter := range map[string]string{"os": "os_type", "osparams": "osparams"} {
		if value := body.nullable(key); value != nil {
			install[parameter] = value
		}
	}
	ops := []jsonObject{{opIDKey: raw(`"OP_INSTANCE_SHUTDOWN"`), "instance_name": name}, install}
	if start {
		ops = append(ops, jsonObject{opIDKey: raw(`"OP_INSTANCE_STARTUP"`), "instance_name": name, "force": raw("false")})
	}
	for _, op := range ops {
		op["reason"] = c.reasonTrail(nil, librarySource+"instances_name_reinstall", "")
	}
	id, err := s.luxi(c, Short, "SubmitJob", ops)
	return id, asClientError(err)
}
