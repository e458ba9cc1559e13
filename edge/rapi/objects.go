package rapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"lockstep/core/wire"
)

// objectKind is a kind of objects of a Ganeti cluster that clients read.
type objectKind struct {
	path   string // of the list
	word   string // of one object, in names of operations
	method string // of LUXI
	idKey  string // of the name in the short list
	fields []string
	// finish changes the values of an object, in the order of fields; nil: nothing.
	finish func(fields []string, row []raw)
	// aliases are further keys of a single object, by the fields whose values they have.
	aliases map[string]string
}

var commonFields = []string{"ctime", "mtime", "uuid", "serial_no", "tags"}

// The kinds with the fields that Ganeti's clients expect (queue.md 6.5).
var (
	instanceKind = &objectKind{path: "/2/instances", word: "instance", method: "QueryInstances", idKey: "id", finish: addInstanceMemory,
		fields: append(strings.Fields(`name admin_state os pnode snodes disk_template nic.ips nic.macs nic.modes nic.uuids nic.names nic.links
			nic.networks nic.networks.names nic.bridges network_port disk.sizes disk.spindles disk_usage disk.uuids disk.names beparams hvparams
			oper_state oper_ram oper_vcpus status custom_hvparams custom_beparams custom_nicparams`), commonFields...)}
	nodeKind = &objectKind{
		path:    "/2/nodes",
		word:    "node",
		method:  "QueryNodes",
		idKey:   "id",
		aliases: map[string]string{"sip": "secondary_ip"},
		fields: append(strings.Fields(`name offline master_candidate drained dtotal dfree sptotal spfree mtotal mnode mfree pinst_cnt sinst_cnt
			ctotal cnos cnodes csockets pip sip role pinst_list sinst_list master_capable vm_capable ndparams group.uuid`), commonFields...),
	}
	groupKind = &objectKind{path: "/2/groups", word: "group", method: "QueryGroups", idKey: "name",
		fields: append(strings.Fields(`alloc_policy name node_cnt node_list ipolicy custom_ipolicy diskparams custom_diskparams ndparams
			custom_ndparams`), commonFields...)}
	networkKind = &objectKind{path: "/2/networks", word: "network", method: "QueryNetworks", idKey: "name",
		fields: append(strings.Fields(`name network gateway network6 gateway6 mac_prefix free_count reserved_count map group_list inst_list
			external_reservations`), commonFields...)}
)

// resources are the list and the single object.
func (k *objectKind) resources() []resource {
	return []resource{
		{k.path, getOnly(k.word+"s", k.list)},
		{k.path + "/{name}", getOnly(k.word, k.one)},
	}
}

// list lists all objects of the kind: names and links, sorted, or with bulk all fields.
func (k *objectKind) list(s *Server, c *call) (any, error) {
	bulk, err := c.flagArgument("bulk")
	if err != nil {
		return nil, err
	}
	lock, err := c.flagArgument("lock")
	if err != nil {
		return nil, err
	}
	if !bulk {
		return k.links(s, c, lock)
	}
	var rows [][]raw
	if err := s.luxiLive(c, &rows, k.method, []string{}, k.fields, lock); err != nil {
		return nil, err
	}
	objects := make([]raw, len(rows))
	for i, row := range rows {
		if objects[i], err = k.object(row); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

func (k *objectKind) links(s *Server, c *call, lock bool) (any, error) {
	var rows [][]string
	if err := s.luxiLive(c, &rows, k.method, []string{}, []string{"name"}, lock); err != nil {
		return nil, err
	}
	links := make([]map[string]string, 0, len(rows))
	for _, row := range rows {
		if len(row) == 1 {
			links = append(links, map[string]string{k.idKey: row[0], "uri": k.path + "/" + row[0]})
		}
	}
	slices.SortFunc(links, func(a, b map[string]string) int { return strings.Compare(a[k.idKey], b[k.idKey]) })
	return links, nil
}

func (k *objectKind) object(row []raw) (raw, error) {
	if k.finish != nil && len(row) == len(k.fields) {
		k.finish(k.fields, row)
	}
	return rowObject(k.fields, row)
}

// one returns the object in the path, with the fields that have a second name also by that.
func (k *objectKind) one(s *Server, c *call) (any, error) {
	row, err := k.row(s, c, k.fields)
	if err != nil {
		return nil, err
	}
	if len(k.aliases) == 0 {
		return k.object(row)
	}
	fields := slices.Clone(k.fields)
	for i, field := range k.fields {
		if alias, has := k.aliases[field]; has {
			fields, row = append(fields, alias), append(row, row[i])
		}
	}
	return rowObject(fields, row)
}

// row returns fields of the object in the path. An unknown name is 404.
func (k *objectKind) row(s *Server, c *call, fields []string) ([]raw, error) {
	lock, err := c.flagArgument("lock")
	if err != nil {
		return nil, err
	}
	var rows [][]raw
	err = s.luxiLive(c, &rows, k.method, []string{c.params["name"]}, fields, lock)
	switch {
	case isUnknownEntity(err), err == nil && len(rows) == 0:
		return nil, &Failure{Code: http.StatusNotFound}
	case err != nil:
		return nil, err
	case len(rows[0]) != len(fields):
		return nil, &wire.MalformedResponse{Err: errors.New("the row has another length than the list of fields")}
	}
	return rows[0], nil
}

// luxiLive is luxiInto for a call about objects of the cluster, which may wait for node daemons.
func (s *Server) luxiLive(c *call, result any, method string, args ...any) error {
	data, err := s.luxi(c, Live, method, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, result); err != nil {
		return &wire.MalformedResponse{Err: err}
	}
	return nil
}

// addInstanceMemory adds the former name of the largest memory to the backend parameters.
func addInstanceMemory(fields []string, row []raw) {
	i := slices.Index(fields, "beparams")
	var parameters map[string]raw
	if json.Unmarshal(row[i], &parameters) != nil || parameters["maxmem"] == nil {
		return
	}
	parameters["memory"] = parameters["maxmem"]
	if data, err := json.Marshal(parameters); err == nil {
		row[i] = data
	}
}

// roles are the names of the roles of nodes.
var roles = map[string]string{"M": "master", "C": "master-candidate", "D": "drained", "O": "offline", "R": "regular"}

func (s *Server) nodeRole(c *call) (any, error) {
	row, err := nodeKind.row(s, c, []string{"role"})
	if err != nil {
		return nil, err
	}
	var short string
	if json.Unmarshal(row[0], &short) != nil || roles[short] == "" {
		return nil, &wire.MalformedResponse{Err: errors.New("the role of a node is unknown")}
	}
	return roles[short], nil
}

// console tells how to reach the console of an instance. One that does not run is code 503.
func (s *Server) console(c *call) (any, error) {
	row, err := instanceKind.row(s, c, []string{"console", "oper_state"})
	if err != nil {
		return nil, err
	}
	if string(row[1]) != "true" || len(row[0]) == 0 || row[0][0] != '{' {
		return nil, newFailure(http.StatusServiceUnavailable, "Instance console unavailable")
	}
	return row[0], nil
}

// tagsOf returns the tags of the object in the path, or of the cluster.
func tagsOf(kind string) func(*Server, *call) (any, error) {
	return func(s *Server, c *call) (any, error) {
		tags, err := s.luxi(c, Short, "QueryTags", kind, c.params["name"])
		if isUnknownEntity(err) {
			return nil, &Failure{Code: http.StatusNotFound}
		}
		return tags, err
	}
}
