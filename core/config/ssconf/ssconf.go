// Package ssconf computes the ssconf values, which every node stores in one file per key (config.md 9). Pure.
package ssconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lockstep/core/config/model"
	"lockstep/core/paths"
)

// Values maps keys to lines.
type Values map[string][]string

// Of computes the values of a configuration. release is the version of the software; Ganeti's nodes compare it with theirs.
func Of(c *model.Config, release string) Values {
	v := Values{
		"release_version":         {release},
		"master_node":             {masterName(c)},
		"instance_list":           instanceNames(c),
		"master_candidates_certs": {},
		"networks":                {},
		"uid_pool":                {},
	}
	cluster := &c.Cluster.Value
	v.addCluster(cluster)
	v.addNodes(c)
	for _, e := range cluster.CandidateCerts {
		v.add("master_candidates_certs", e.Key+"="+e.Value)
	}
	for _, r := range cluster.UIDPool {
		line := strconv.FormatInt(r[0], 10)
		if r[1] != r[0] {
			line += "-" + strconv.FormatInt(r[1], 10)
		}
		v.add("uid_pool", line)
	}
	for _, n := range c.Networks.All() {
		v.add("networks", n.Value.UUID+" "+n.Value.Name)
	}
	groups := nicely(c.Groups, func(g *model.NodeGroup) string { return g.Name })
	v["nodegroups"] = lines(groups, func(g *model.NodeGroup) string { return g.UUID + " " + g.Name })
	return v
}

// WithoutHypervisors returns the values of which a node in lockstep's own mode has files.
func (v Values) WithoutHypervisors() Values {
	rest := maps.Clone(v)
	for _, key := range ofHypervisors {
		delete(rest, key)
	}
	return rest
}

// FilesOfHypervisors are the paths of the other files.
func FilesOfHypervisors() []string {
	var files []string
	for _, key := range ofHypervisors {
		files = append(files, paths.SsconfPrefix+key)
	}
	return files
}

// Unchanged reports whether two configurations certainly have the same values for the same release. It computes no
// values: it compares the identity of objects, and the names of instances. Its cost is that of a look-up per instance.
func Unchanged(a, b *model.Config) bool {
	sameOthers := a.Cluster == b.Cluster && a.Nodes == b.Nodes && a.Groups == b.Groups && a.Networks == b.Networks
	if !sameOthers || a.Instances.Len() != b.Instances.Len() {
		return false
	}
	if a.Instances == b.Instances {
		return true
	}
	for uuid, now := range b.Instances.All() {
		old, found := a.Instances.Get(uuid)
		if !found || old != now && old.Value.Name != now.Value.Name {
			return false
		}
	}
	return true
}

func (v Values) add(key, line string) { v[key] = append(v[key], line) }

func (v Values) addCluster(c *model.Cluster) {
	for key, line := range map[string]string{
		"cluster_name": c.Name, "file_storage_dir": c.FileDir, "shared_file_storage_dir": c.SharedFileDir,
		"gluster_storage_dir": c.GlusterDir, "master_ip": c.MasterIP, "master_netdev": c.MasterNetdev,
		"master_netmask": strconv.FormatInt(c.MasterNetmask, 10), "primary_ip_family": strconv.FormatInt(c.IPFamily, 10),
		"maintain_node_health": yes(c.MaintainNodes), "enabled_user_shutdown": yes(c.EnabledUserShutdown),
	} {
		v[key] = []string{line}
	}
	v["cluster_tags"] = append([]string{}, c.Tags...)
	v["hypervisor_list"] = append([]string{}, c.EnabledHypervisors...)
	for _, h := range model.Hypervisors() {
		params, _ := c.HVParams.Get(h)
		values := []string{}
		for _, p := range params {
			values = append(values, p.Key+"="+shown(p.Value))
		}
		v["hvparams_"+h] = values
	}
}

// shown formats a hypervisor parameter: strings without quotes, booleans as in Python, other values as JSON.
func shown(value model.JSON) string {
	switch string(value) {
	case "true", "false":
		return yes(value[0] == 't')
	}
	var s string
	if value[0] == '"' && json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}

func yes(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

func (v Values) addNodes(c *model.Config) {
	v["master_candidates"], v["master_candidates_ips"] = []string{}, []string{}
	for _, n := range c.Nodes.All() {
		if n.Value.MasterCandidate || n.Value.UUID == c.Cluster.Value.MasterNode {
			v.add("master_candidates", n.Value.Name)
			v.add("master_candidates_ips", n.Value.PrimaryIP)
		}
	}
	nodes := nicely(c.Nodes, func(n *model.Node) string { return n.Name })
	name := func(n *model.Node) string { return n.Name }
	v["node_list"] = lines(nodes, name)
	v["node_primary_ips"] = lines(nodes, func(n *model.Node) string { return n.Name + " " + n.PrimaryIP })
	v["node_secondary_ips"] = lines(nodes, func(n *model.Node) string { return n.Name + " " + n.SecondaryIP })
	v["node_vm_capable"] = lines(nodes, func(n *model.Node) string { return n.Name + "=" + yes(n.VMCapable) })
	v["ssh_ports"] = lines(nodes, func(n *model.Node) string { return n.Name + "=" + sshPort(c, n) })
	v["offline_nodes"], v["online_nodes"] = []string{}, []string{}
	for _, n := range nodes {
		if n.Offline {
			v.add("offline_nodes", n.Name)
		} else {
			v.add("online_nodes", n.Name)
		}
	}
}

// sshPort returns the port of a node, its group or the cluster; "" if the group is unknown.
func sshPort(c *model.Config, n *model.Node) string {
	group, found := c.Groups.Get(n.Group)
	if !found {
		return ""
	}
	for _, port := range []model.Opt[int64]{n.NDParams.SSHPort, group.Value.NDParams.SSHPort, c.Cluster.Value.NDParams.SSHPort} {
		if port.Set {
			return strconv.FormatInt(port.Value, 10)
		}
	}
	return ""
}

// masterName returns the name of the master node, "NO MASTER" if there is none. master_node is a uuid, a name or a unique prefix of a
// name.
func masterName(c *model.Config) string {
	master := c.Cluster.Value.MasterNode
	if node, found := c.Nodes.Get(master); found {
		return node.Value.Name
	}
	var begin []string
	for _, n := range c.Nodes.All() {
		if n.Value.Name == master {
			return master
		}
		if master != "" && strings.HasPrefix(n.Value.Name, master+".") {
			begin = append(begin, n.Value.Name)
		}
	}
	if len(begin) == 1 {
		return begin[0]
	}
	return "NO MASTER"
}

func instanceNames(c *model.Config) []string {
	names := []string{}
	for _, i := range c.Instances.All() {
		if i.Value.Name.Set {
			names = append(names, i.Value.Name.Value)
		}
	}
	slices.SortStableFunc(names, Nicely)
	return names
}

// nicely returns the objects of a container sorted by name.
func nicely[T any](of model.Container[T], name func(*T) string) []*T {
	var all []*T
	for _, o := range of.All() {
		all = append(all, &o.Value)
	}
	slices.SortStableFunc(all, func(a, b *T) int { return Nicely(name(a), name(b)) })
	return all
}

func lines[T any](all []*T, line func(*T) string) []string {
	out := []string{}
	for _, v := range all {
		out = append(out, line(v))
	}
	return out
}

// File is an ssconf file: its name and its content.
type File struct {
	Name    string // in the data directory
	Content string
}

// contentMax is the maximum length of a file; readers reject longer ones.
const contentMax = 131072

// Files returns the files of the keys whose values are not too long. The error names the values that are; their files
// keep their content.
func (v Values) Files() ([]File, error) {
	var files []File
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(v)) {
		content := strings.Join(v[key], "\n")
		if content != "" && !strings.HasSuffix(content, "\n") {
			content += "\n"
		}
		if len(content) > contentMax {
			errs = append(errs, fmt.Errorf("ssconf value %s is %d bytes long, %d are allowed", key, len(content), contentMax))
			continue
		}
		files = append(files, File{paths.SsconfPrefix + key, content})
	}
	return files, errors.Join(errs...)
}
