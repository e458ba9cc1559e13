package query

import (
	"encoding/json"
	"slices"
	"strings"

	"lockstep/core/config"
	"lockstep/core/inquiry"
	"lockstep/core/natural"
	"lockstep/core/noded"
)

// LivePart is a part of what only node daemons know of an item. Parts form a set.
type LivePart uint8

// The parts of items (live.md 2 to 4).
const (
	LiveBoot       LivePart = 1 << iota // of a node
	LiveStorage                         // of a node
	LiveHypervisor                      // of a node
	LiveState                           // of an instance
	LiveConsole                         // of an instance
	LiveExports                         // of a node
)

// liveField is a field whose value only a node knows.
func liveField(part LivePart, f Field[ObjectItem]) Field[ObjectItem] {
	f.Level, f.Live = LevelLive, part
	return f
}

// LiveParts are the parts that the fields and the filter of the query need. The rows of exports always depend on the nodes.
func (q *Query[T]) LiveParts() (parts LivePart) {
	parts = q.table.live
	for _, f := range q.fields {
		if f != nil {
			parts |= f.Live
		}
	}
	if q.filter != nil {
		for _, name := range q.filter.Fields() {
			parts |= q.table.byName[name].Live
		}
	}
	return parts
}

// Candidates are the items that the filter may select, whatever only nodes know (live.md 1). The error is a *FilterTooExpensive.
func (q *Query[T]) Candidates(items []*T) ([]*T, error) {
	if q.filter == nil {
		return items, nil
	}
	isLive := func(name string) bool { return q.table.byName[name].Level == LevelLive }
	var left []*T
	for _, item := range items {
		if q.testsLeft -= q.filter.cost; q.testsLeft < 0 {
			return nil, &FilterTooExpensive{q.filter.cost}
		}
		q.source.item, q.source.level = item, LevelLive
		if q.filter.MayMatch(&q.source, isLive) {
			left = append(left, item)
		}
	}
	q.source.item = nil
	return left, nil
}

// Live is what a query needs of node daemons: first the questions, and then the answers.
type Live struct {
	Questions []inquiry.Question
	items     []*ObjectItem
	parts     LivePart

	nodes    map[string]*nodeAnswers // by uuid
	found    map[string]noded.InstanceFacts
	consoles map[string]json.RawMessage // by name of the instance
}

// nodeAnswers are the answers of a node. A nil pointer stands for a node that was not asked or has failed.
type nodeAnswers struct {
	questions []int // indexes of Live.Questions
	facts     *noded.NodeFacts
	instances map[string]noded.InstanceFacts // by name; nil: unknown
	exports   []string                       // nil: unknown
}

// NewLive returns the questions that the rows of a query need. Nodes that are marked offline are not asked. parts are those of the query,
// items its candidates.
func NewLive(d *config.Document, parts LivePart, items []*ObjectItem) *Live {
	l := &Live{items: items, parts: parts, nodes: map[string]*nodeAnswers{}}
	if parts&(LiveState|LiveConsole) != 0 {
		l.askOfInstances(d)
	} else {
		l.askOfNodes(d)
	}
	return l
}

func (l *Live) ask(d *config.Document, uuid string, r noded.Request) {
	node := d.Node(uuid)
	if l.nodes[uuid] == nil {
		l.nodes[uuid] = &nodeAnswers{}
	}
	if node.Flag("offline") || !node.Has("primary_ip") {
		return
	}
	l.nodes[uuid].questions = append(l.nodes[uuid].questions, len(l.Questions))
	l.Questions = append(l.Questions, inquiry.Question{Request: r,
		Node: noded.Node{Name: node.Text("name"), Address: node.Text("primary_ip")}})
}

func (l *Live) askOfNodes(d *config.Document) {
	for _, t := range l.items {
		if l.parts&LiveExports != 0 {
			l.ask(d, t.UUID, noded.AskExports())
			continue
		}
		var units []noded.StorageUnit
		var hypervisors []noded.Hypervisor
		if l.parts&LiveStorage != 0 {
			units = storageUnits(d, nodeParameters(t).Flag("exclusive_storage"))
		}
		if enabled := texts(d.Cluster.List("enabled_hypervisors")); l.parts&LiveHypervisor != 0 && len(enabled) > 0 {
			hypervisors = hypervisorsOf(d, enabled[:1])
		}
		l.ask(d, t.UUID, noded.AskNodeInfo(units, hypervisors))
	}
}

// storageUnits are the storage units of a node: one for each enabled disk template that has one, and the physical volumes.
func storageUnits(d *config.Document, exclusive bool) []noded.StorageUnit {
	group, files := d.Cluster.Text("volume_group_name"), d.Cluster.Text("file_storage_dir")
	var units []noded.StorageUnit
	add := func(u noded.StorageUnit) {
		if u.Key != "" && !slices.Contains(units, u) {
			units = append(units, u)
		}
	}
	for _, template := range texts(d.Cluster.List("enabled_disk_templates")) {
		switch template {
		case "plain", templateDRBD:
			add(noded.StorageUnit{Type: noded.TypeVolumeGroup, Key: group, Exclusive: exclusive})
		case "file":
			add(noded.StorageUnit{Type: noded.TypeFile, Key: files})
		}
	}
	add(noded.StorageUnit{Type: noded.TypePhysicalVolumes, Key: group, Exclusive: exclusive})
	return units
}

func hypervisorsOf(d *config.Document, names []string) []noded.Hypervisor {
	params := d.Cluster.Object("hvparams")
	all := make([]noded.Hypervisor, len(names))
	for i, name := range names {
		all[i] = noded.Hypervisor{Name: name, Params: json.RawMessage("{}")}
		if params.Has(name) {
			all[i].Params = params[name]
		}
	}
	return all
}

// askOfInstances adds the questions to the primary nodes of the instances: one about states and, if
// the query needs it, one about consoles.
func (l *Live) askOfInstances(d *config.Document) {
	var used []string
	byPrimary := map[string][]*ObjectItem{}
	var primaries []string
	for _, t := range l.items {
		uuid := t.Object.Text("primary_node")
		if uuid == "" {
			continue
		}
		if name := t.Object.Text("hypervisor"); !slices.Contains(used, name) {
			used = append(used, name)
		}
		if byPrimary[uuid] == nil {
			primaries = append(primaries, uuid)
		}
		byPrimary[uuid] = append(byPrimary[uuid], t)
	}
	slices.Sort(used)
	slices.SortFunc(primaries, func(a, b string) int { return natural.Compare(d.Node(a).Text("name"), d.Node(b).Text("name")) })
	states := noded.AskInstances(hypervisorsOf(d, used))
	for _, uuid := range primaries {
		l.ask(d, uuid, states)
		if l.parts&LiveConsole != 0 {
			l.ask(d, uuid, noded.AskConsoles(consoleQuestions(byPrimary[uuid])))
		}
	}
}

func consoleQuestions(instances []*ObjectItem) []noded.ConsoleQuestion {
	all := make([]noded.ConsoleQuestion, len(instances))
	for i, t := range instances {
		node := t.primary()
		all[i] = noded.ConsoleQuestion{Name: t.Object.Text("name"), Instance: t.Object.JSON(), Node: node.JSON(),
			Group: t.Document.Group(node.Text("group")).JSON(), HVParams: hypervisorWithGlobals(t).JSON(), BEParams: backend(t).JSON()}
	}
	return all
}

// Answer takes the answers to the questions and returns the items of the rows, in their order. Each item knows the answers. An item of the
// kind export becomes one for each export of the node.
func (l *Live) Answer(answers []inquiry.Answer) []*ObjectItem {
	l.found, l.consoles = map[string]noded.InstanceFacts{}, map[string]json.RawMessage{}
	for _, n := range l.nodes {
		for _, i := range n.questions {
			l.take(n, answers[i])
		}
	}
	l.mergeInstances()
	var rows []*ObjectItem
	for _, t := range l.items {
		t.live = l
		n := l.nodes[t.UUID]
		if l.parts&LiveExports == 0 || n == nil || n.exports == nil {
			rows = append(rows, t)
			continue
		}
		for _, name := range n.exports {
			row := *t
			row.export = name
			rows = append(rows, &row)
		}
	}
	return rows
}

func (l *Live) take(n *nodeAnswers, a inquiry.Answer) {
	switch value := a.Value.(type) {
	case noded.NodeFacts:
		n.facts = &value
	case map[string]noded.InstanceFacts:
		n.instances = value
	case map[string]json.RawMessage:
		for name, console := range value {
			l.consoles[name] = console
		}
	case []string:
		n.exports = value
	}
}

// mergeInstances fills found. Of an instance that several nodes have it takes what the first of them by UUID says.
func (l *Live) mergeInstances() {
	var uuids []string
	for uuid := range l.nodes {
		uuids = append(uuids, uuid)
	}
	slices.SortFunc(uuids, strings.Compare)
	for _, uuid := range slices.Backward(uuids) {
		for name, facts := range l.nodes[uuid].instances {
			l.found[name] = facts
		}
	}
}

// texts are the strings of a list. Other elements are left out.
func texts(list []json.RawMessage) []string {
	all := make([]string, 0, len(list))
	for _, raw := range list {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			all = append(all, text)
		}
	}
	return all
}
