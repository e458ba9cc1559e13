package confd

import (
	"slices"

	"lockstep/core/config/model"
	"lockstep/core/config/redact"
)

// Snapshot answers queries from one configuration. It is immutable, so that any number of goroutines can use it. nil has no
// configuration, and refuses every query.
type Snapshot struct {
	config  *model.Config
	secrets func() []string
}

// NewSnapshot returns the snapshot of a configuration. secrets returns the names of the parameters that are declared secret, at the
// time of an answer, on any goroutine; nil: there are none. Answers have redact.Marker instead of secrets.
func NewSnapshot(c *model.Config, secrets func() []string) *Snapshot { return &Snapshot{c, secrets} }

// rules returns the rules of secrets now.
func (s *Snapshot) rules() redact.Rules {
	if s.secrets == nil {
		return redact.New()
	}
	return redact.New(s.secrets()...)
}

// Serial returns the serial number of the configuration, the answer to ConfigPath "/serial_no"; 0 for nil.
func (s *Snapshot) Serial() int64 {
	if s == nil {
		return 0
	}
	return s.config.Serial
}

// answer appends the answer to a request as JSON. It returns the serial number of what the answer is about (confd.md 4). After a
// refusal the text has no meaning.
func (s *Snapshot) answer(to *builder, r *request) (serial int64, f *refusal) {
	if s == nil {
		return 0, &refusal{text: "this node has read no configuration yet"}
	}
	serial = s.config.Cluster.Value.Serial
	switch q := &r.query; r.kind {
	case Ping:
		to.addInt(s.config.Version)
		return 0, nil
	case NodeRoleByName:
		f = s.nodeRole(to, q)
	case NodePrimaryIPByInstanceIP:
		f = s.nodeOfAddress(to, q)
	case ClusterMaster:
		f = s.master(to, q)
	case NodePrimaryIPs:
		s.primaryIPs(to, func(*model.Node) bool { return true })
	case CandidatePrimaryIPs:
		s.primaryIPs(to, func(n *model.Node) bool { return n.MasterCandidate })
	case InstanceIPs:
		f = s.instanceIPs(to, q)
	case NodeDRBD:
		return s.nodeDRBD(to, q)
	case NodeInstances:
		return s.nodeInstances(to, q)
	case InstanceDisks:
		return s.instanceDisks(to, q)
	case ConfigPath:
		f = s.path(to, q)
	case DataCollectors:
		s.collectors(to)
	}
	return serial, f
}

// find returns the object that a query names: by name, uuid or the first components of its name (confd.md 3). what is the word for
// its kind.
func find[T any](s *Snapshot, k *model.Kind[T], what string, q *query) (uuid string, o *model.Object[T], f *refusal) {
	if q.form != formText {
		return "", nil, &refusal{text: "the query must be the name or UUID of a " + what}
	}
	uuid, found := k.ByName(s.config, q.text)
	if !found && k.All(s.config).Has(q.text) {
		uuid, found = q.text, true
	}
	if !found {
		uuid, found = k.ByShortName(s.config, q.text)
	}
	if !found {
		return "", nil, &refusal{text: "there is no " + what + " " + clipped(q.text) + ", or several names begin with these components"}
	}
	o, _ = k.Get(s.config, uuid)
	return uuid, o, nil
}

// clippedMax is the length in bytes of what an error repeats of a request.
const clippedMax = 256

func clipped(text string) string {
	if len(text) <= clippedMax {
		return text
	}
	return text[:clippedMax] + "…"
}

func (s *Snapshot) nodeRole(to *builder, q *query) *refusal {
	uuid, node, f := find(s, model.Nodes, "node", q)
	if f != nil {
		return f
	}
	role := RoleRegular
	switch n := &node.Value; {
	case uuid == s.config.Cluster.Value.MasterNode:
		role = RoleMaster
	case n.Drained:
		role = RoleDrained
	case n.Offline:
		role = RoleOffline
	case n.MasterCandidate:
		role = RoleCandidate
	}
	to.addInt(int64(role))
	return nil
}

// defaultLink returns the link (bridge) that interfaces have without one of their own.
func (s *Snapshot) defaultLink() string {
	params, _ := s.config.Cluster.Value.NicParams.Get("default")
	return params.Link.Value
}

// link returns the link on which a query looks for addresses: the query's, else the cluster's default.
func (s *Snapshot) link(q *query) string {
	if q.hasLink {
		return q.link
	}
	return s.defaultLink()
}

// linkOf returns the link of an instance's interface: its own, else the cluster's default.
func (s *Snapshot) linkOf(nic *model.NIC) string {
	if nic.NicParams.Link.Set {
		return nic.NicParams.Link.Value
	}
	return s.defaultLink()
}

// nodeOfAddress answers NodePrimaryIPByInstanceIP: for one address the node, or a refusal if no instance has it; for a list of addresses
// a list of [status, node, serial], with the status 1 for those that no instance has.
func (s *Snapshot) nodeOfAddress(to *builder, q *query) *refusal {
	if q.form != formObject {
		return &refusal{code: CodeArgument}
	}
	link := s.link(q)
	if q.hasIP {
		node, found := s.primaryOf(link, q.ip)
		if !found {
			return &refusal{code: CodeUnknownEntry}
		}
		to.addText(node)
		return nil
	}
	to.addString("[")
	for i, ip := range q.ips {
		if i > 0 {
			to.addString(",")
		}
		node, found := s.primaryOf(link, ip)
		if !found {
			to.addString("[1,0,0]")
			continue
		}
		to.addString("[0,")
		to.addText(node)
		to.addString(",")
		to.addInt(s.config.Cluster.Value.Serial)
		to.addString("]")
	}
	to.addString("]")
	return nil
}

// primaryOf returns the primary address of the primary node of the instance that has an address on a link. If several instances
// have it, the one with the lowest UUID counts.
func (s *Snapshot) primaryOf(link, ip string) (primaryIP string, found bool) {
	for uuid := range s.config.AddressUsers(ip) {
		i, is := s.config.Instances.Get(uuid)
		if !is {
			continue
		}
		uses := func(nic model.NIC) bool { return nic.IP.Set && nic.IP.Value == ip && s.linkOf(&nic) == link }
		if !slices.ContainsFunc(i.Value.NICs, uses) {
			continue
		}
		if node, is := s.config.Nodes.Get(i.Value.PrimaryNode.Value); is {
			return node.Value.PrimaryIP, true
		}
	}
	return "", false
}

func (s *Snapshot) master(to *builder, q *query) *refusal {
	cluster := &s.config.Cluster.Value
	if q.form == formText {
		return &refusal{code: CodeArgument}
	}
	node, found := s.config.Nodes.Get(cluster.MasterNode)
	if !found {
		return &refusal{text: "the configuration does not have the master node"}
	}
	if q.form == formNone {
		to.addText(node.Value.Name)
		return nil
	}
	values := [fields]string{fieldName: node.Value.Name, fieldClusterIP: cluster.MasterIP, fieldPrimaryIP: node.Value.PrimaryIP}
	to.addString("[")
	for i, f := range q.fields {
		if i > 0 {
			to.addString(",")
		}
		to.addText(values[f])
	}
	to.addString("]")
	return nil
}

func (s *Snapshot) primaryIPs(to *builder, counts func(*model.Node) bool) {
	var all []string
	for _, n := range s.config.Nodes.All() {
		if counts(&n.Value) {
			all = append(all, n.Value.PrimaryIP)
		}
	}
	addTexts(to, all)
}

func addTexts(to *builder, all []string) {
	to.addString("[")
	for i, text := range all {
		if i > 0 {
			to.addString(",")
		}
		to.addText(text)
	}
	to.addString("]")
}

func (s *Snapshot) instanceIPs(to *builder, q *query) *refusal {
	var link string
	switch q.form {
	case formNone:
		link = s.defaultLink()
	case formText:
		link = q.text
	case formObject:
		return &refusal{text: "the query must be the name of a link, or null"}
	}
	var all []string
	for _, i := range s.config.Instances.All() {
		for _, nic := range i.Value.NICs {
			if nic.IP.Set && s.linkOf(&nic) == link {
				all = append(all, nic.IP.Value)
			}
		}
	}
	slices.Sort(all)
	addTexts(to, all)
	return nil
}

// collectorDefault is the interval of a collector without a setting, in microseconds.
const collectorDefault = 5_000_000

const xenStatus = "inst-status-xen"

// collectorNames are the collectors of MonD that the answer to DataCollectors has.
var collectorNames = []string{"cpu-avg-load", "diskstats", "drbd", xenStatus, "lv", "xen-cpu-avg-load"}

func (s *Snapshot) collectors(to *builder) {
	cluster := &s.config.Cluster.Value
	hasXen := slices.Contains(cluster.EnabledHypervisors, "xen-pvm") || slices.Contains(cluster.EnabledHypervisors, "xen-hvm")
	separator := "{"
	for _, name := range collectorNames {
		setting, found := cluster.DataCollectors.Get(name)
		if !found {
			setting = model.Collector{Active: true, Interval: collectorDefault}
		}
		active := `":{"active":false,"interval":`
		if setting.Active && (hasXen || name != xenStatus) {
			active = `":{"active":true,"interval":`
		}
		to.addString(separator + `"` + name + active)
		to.addInt(setting.Interval)
		to.addString("}")
		separator = ","
	}
	to.addString("}")
}
