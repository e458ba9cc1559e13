package verify

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"lockstep/core/config/model"
)

// Warnings checks a configuration by the rules that only Ganeti's Python has (config.md 6.2). A job can leave a configuration
// with warnings, so they prevent nothing. Types of parameters are not checked here, because model.Decode does that; neither are
// invalid keys, disks, groups and primary nodes, which Of reports.
//
// The texts are those that job logs show. Their order depends only on the configuration.
func Warnings(c *model.Config) []string {
	w := &warnings{c: c, texts: []string{}, ports: map[int64][]string{}, addresses: map[string][]string{}}
	w.cluster()
	macs := map[string]bool{}
	for _, o := range c.Instances.All() {
		w.instance(&o.Value, macs)
	}
	w.checkPorts()
	w.candidates()
	for _, o := range c.Nodes.All() {
		w.node(&o.Value)
	}
	w.groups()
	w.checkAddresses()
	return w.texts
}

// warnings collects the texts, and what is compared over all objects.
type warnings struct {
	c         *model.Config
	texts     []string
	ports     map[int64][]string  // users by port
	addresses map[string][]string // users by IP address
}

func (w *warnings) add(format string, args ...any) {
	w.texts = append(w.texts, fmt.Sprintf(format, args...))
}

// accessTemplates are the disk templates with the parameter access, accessModes its values.
var (
	accessTemplates = []string{"rbd", "gluster", "ext"}
	accessModes     = []string{"kernelspace", "userspace"}
)

// uuidLike matches group names that can be confused with a uuid.
var uuidLike = regexp.MustCompile(`^[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}$`)

func (w *warnings) cluster() {
	cluster := &w.c.Cluster.Value
	w.nicParams("cluster", model.NicParams{})
	w.policy("cluster", &cluster.IPolicy, cluster.IPolicy.Std)
	for _, e := range cluster.DiskParams {
		access, found := e.Value.Get("access")
		if !found || !slices.Contains(accessTemplates, e.Key) {
			continue
		}
		mode, err := model.DecodeText(access)
		if err != nil {
			mode = string(access)
		}
		if !slices.Contains(accessModes, mode) {
			w.add("Invalid value of '%s:access': '%s' (expected one of %s)", e.Key, mode, strings.Join(accessModes, ", "))
		}
	}
}

// nicParams checks the parameters of a NIC; those that are not set are the cluster's.
func (w *warnings) nicParams(owner string, p model.NicParams) {
	if mode, link := w.nicMode(p); mode == "bridged" && link == "" {
		w.add("%s has invalid nicparams: Missing bridged NIC link", owner)
	}
}

func (w *warnings) nicMode(p model.NicParams) (mode, link string) {
	filled, _ := w.c.Cluster.Value.NicParams.Get("default")
	mode, link = filled.Mode.Value, filled.Link.Value
	if p.Mode.Set {
		mode = p.Mode.Value
	}
	if p.Link.Set {
		link = p.Link.Value
	}
	return mode, link
}

// policy checks an instance policy. std is the standard specification that its bounds must admit; not set: any.
func (w *warnings) policy(owner string, p *model.IPolicy, std model.Opt[model.ISpec]) {
	if wrong := policyError(p, std); wrong != "" {
		w.add("%s has invalid instance policy: %s", owner, wrong)
	}
}

func policyError(p *model.IPolicy, std model.Opt[model.ISpec]) string {
	if p.MinMax.Set && len(p.MinMax.Value) == 0 {
		return "Empty minmax specifications"
	}
	admitted := !p.MinMax.Set || !std.Set
	for i := range p.MinMax.Value {
		m := &p.MinMax.Value[i]
		low, high, between := values(m.Min), values(m.Max), values(std.Value)
		fits := true
		for n, name := range specNames {
			if low[n].Value > high[n].Value {
				return fmt.Sprintf("Invalid specification of min/max values for %s: %d/%d", name, low[n].Value, high[n].Value)
			}
			v := between[n]
			fits = fits && (!v.Set || v.Value >= low[n].Value && v.Value <= high[n].Value)
		}
		admitted = admitted || fits
	}
	switch {
	case !admitted:
		return "Invalid std specifications"
	case p.DiskTemplates.Set && len(p.DiskTemplates.Value) == 0:
		return "Instance policy must contain at least one disk template"
	}
	return ""
}

// specNames are the names of the values of a specification, in the order of values.
var specNames = []string{"memory-size", "disk-size", "disk-count", "cpu-count", "nic-count", "spindle-use"}

func values(s model.ISpec) [6]model.Opt[int64] {
	return [6]model.Opt[int64]{s.MemorySize, s.DiskSize, s.DiskCount, s.CPUCount, s.NICCount, s.SpindleUse}
}

func (w *warnings) instance(i *model.Instance, macs map[string]bool) {
	name := i.Name.Value
	if !i.Name.Set {
		name = i.UUID
	}
	for _, uuid := range w.secondaries(i) {
		if !w.c.Nodes.Has(uuid) {
			w.add("instance '%s' has invalid secondary node '%s'", name, uuid)
		}
	}
	for n := range i.NICs {
		w.nic(name, n, &i.NICs[n], macs)
	}
	var wrong []string
	for n, uuid := range i.Disks {
		o, found := w.c.Disks.Get(uuid)
		if !found {
			continue
		}
		if want := fmt.Sprintf("disk/%d", n); o.Value.IVName != want {
			wrong = append(wrong, fmt.Sprintf("name of disk %d should be '%s', but is '%s'", n, want, o.Value.IVName))
		}
		if l, is := o.Value.DRBD(); is {
			w.use(l.Port, fmt.Sprintf("%s/drbd disk %d", name, n))
		}
	}
	if len(wrong) > 0 {
		w.add("Instance '%s' has wrongly named disks: %s", name, strings.Join(wrong, "; "))
	}
	if i.NetworkPort.Set {
		w.use(i.NetworkPort.Value, name+"/network port")
	}
}

// secondaries returns the nodes of the disks of an instance without its primary node, each once.
func (w *warnings) secondaries(i *model.Instance) []string {
	var all []string
	for _, uuid := range i.Disks {
		o, found := w.c.Disks.Get(uuid)
		if !found {
			continue
		}
		o.Value.Each(func(d *model.Disk) {
			all = append(all, d.Nodes...)
			if l, is := d.DRBD(); is {
				all = append(all, l.A, l.B)
			}
		})
	}
	all = slices.DeleteFunc(all, func(uuid string) bool { return i.PrimaryNode.Set && uuid == i.PrimaryNode.Value })
	slices.Sort(all)
	return slices.Compact(all)
}

func (w *warnings) nic(instance string, n int, nic *model.NIC, macs map[string]bool) {
	if macs[nic.MAC] {
		w.add("instance '%s' has NIC %d mac %s duplicate", instance, n, nic.MAC)
	}
	macs[nic.MAC] = true
	if nic.NicParams != (model.NicParams{}) {
		w.nicParams(fmt.Sprintf("instance %s nic %d", instance, n), nic.NicParams)
	}
	if !nic.IP.Set {
		return
	}
	// Networks and links separate addresses. Two instances can have the same one on different links.
	mode, link := w.nicMode(nic.NicParams)
	short := map[string]string{"bridged": "bridge", "routed": "route", "openvswitch": "ovs"}
	w.address(fmt.Sprintf("%s:%s/%s/%s", cmp.Or(short[mode], mode), link, nic.IP.Value, cmp.Or(nic.Network.Value, "None")),
		fmt.Sprintf("instance:%s/nic:%d", instance, n))
}

func (w *warnings) use(port int64, user string) { w.ports[port] = append(w.ports[port], user) }

func (w *warnings) checkPorts() {
	cluster := &w.c.Cluster.Value
	for _, port := range cluster.PortPool {
		w.use(port, "cluster/port marked as free")
	}
	used := slices.Sorted(maps.Keys(w.ports))
	for _, port := range used {
		if users := w.ports[port]; len(users) > 1 {
			w.add("tcp/udp port %d has duplicates: %s", port, strings.Join(users, ", "))
		}
	}
	if last := len(used) - 1; last >= 0 && used[last] > cluster.HighestUsedPort {
		w.add("Highest used port mismatch, saved %d, computed %d", cluster.HighestUsedPort, used[last])
	}
}

func (w *warnings) candidates() {
	cluster := &w.c.Cluster.Value
	if master, found := w.c.Nodes.Get(cluster.MasterNode); found && !master.Value.MasterCandidate {
		w.add("Master node is not a master candidate")
	}
	var now, possible int64
	for _, o := range w.c.Nodes.All() {
		n := &o.Value
		if n.MasterCandidate {
			now++
		}
		if n.MasterCapable && !n.Offline && !n.Drained {
			possible++
		}
	}
	if target := min(possible, cluster.CandidatePoolSize); now < target {
		w.add("Not enough master candidates: actual %d, target %d", now, target)
	}
}

func (w *warnings) node(n *model.Node) {
	states := 0
	for _, is := range []bool{n.MasterCandidate, n.Drained, n.Offline} {
		if is {
			states++
		}
	}
	if states > 1 {
		w.add("Node %s state is invalid: master_candidate=%s, drain=%s, offline=%s",
			n.Name, python(n.MasterCandidate), python(n.Drained), python(n.Offline))
	}
	if n.NDParams.ExclusiveStorage.Set {
		w.add("Node '%s' has some global parameters set: exclusive_storage", n.Name)
	}
}

func python(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

func (w *warnings) groups() {
	names := map[string]bool{}
	for _, o := range w.c.Groups.All() {
		g := &o.Value
		if uuidLike.MatchString(strings.ToLower(g.Name)) {
			w.add("node group '%s' (uuid: '%s') has uuid-like name", g.Name, g.UUID)
		}
		if names[g.Name] {
			w.add("duplicate node group name '%s'", g.Name)
		}
		names[g.Name] = true
		w.policy("group "+g.Name, &g.IPolicy, model.Opt[model.ISpec]{})
	}
}

// address records a user of an address. Nodes of a cluster of lockstep can lack addresses.
func (w *warnings) address(ip, user string) {
	if ip != "" {
		w.addresses[ip] = append(w.addresses[ip], user)
	}
}

// checkAddresses also adds the addresses of the cluster and the nodes, which precede those of NICs in the texts.
func (w *warnings) checkAddresses() {
	nics := w.addresses
	w.addresses = map[string][]string{}
	if !w.isOwnCluster() {
		w.address(w.c.Cluster.Value.MasterIP, "cluster_ip")
	}
	for _, o := range w.c.Nodes.All() {
		n := &o.Value
		w.address(n.PrimaryIP, fmt.Sprintf("node:%s/primary", n.Name))
		if n.SecondaryIP != n.PrimaryIP {
			w.address(n.SecondaryIP, fmt.Sprintf("node:%s/secondary", n.Name))
		}
	}
	for _, of := range []map[string][]string{w.addresses, nics} {
		for _, ip := range slices.Sorted(maps.Keys(of)) {
			if len(of[ip]) > 1 {
				w.add("IP address %s is used by multiple owners: %s", ip, strings.Join(of[ip], ", "))
			}
		}
	}
}

// isOwnCluster reports whether the configuration is one that lockstep has made: then the cluster has no address but the master's.
func (w *warnings) isOwnCluster() bool {
	cluster := &w.c.Cluster.Value
	master, found := w.c.Nodes.Get(cluster.MasterNode)
	return found && cluster.MasterNetdev == "lo" && cluster.MasterIP == master.Value.PrimaryIP
}
