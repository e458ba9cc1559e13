package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// checkSsconf: each ssconf file of a node says what the configuration said at some time, and each write of it says nothing older than
// the write before. When a node has been left alone for a while, its files are of one configuration. In the end they are of the
// latest one. Two files stand for all: the tags of the cluster and the names of the instances.
type checkSsconf struct {
	sets  []ssconfSet // of the configurations that have existed, in order
	nodes map[*simdisk.Disk]*ssconfNode
}

// ssconfSet has the contents of files by path.
type ssconfSet map[string]string

// ssconfPaths are the files that are checked.
var ssconfPaths = []string{paths.SsconfPrefix + "cluster_tags", paths.SsconfPrefix + "instance_list"}

// ssconfNode is what a node has written. It is empty again with another disk.
type ssconfNode struct {
	last      map[string]int // index of the oldest set that the last write of a file can be of
	oldest    int            // index of the oldest set that all files together can be of
	changedAt time.Time      // time of the last write
}

// ssconfRest is how long a node is left alone before its files are judged together.
const ssconfRest = 5 * time.Second

func (*checkSsconf) Name() string { return "ssconf files are of a configuration" }

func (c *checkSsconf) See(w *World, event any) error {
	if w.config == nil {
		return nil
	}
	switch e := event.(type) {
	case otherFileChanged:
		switch {
		case slices.Contains(ssconfPaths, e.path):
			return c.written(w, e.disk, e.path)
		case e.disk != w.disk:
		case e.path == paths.ConfigJournalPath && w.journalChangesConfig(), e.path == paths.ConfigPath && w.oracle != nil:
			return c.learn(w)
		}
	case daemonStarted:
		return c.learn(w)
	case timePassed:
		return c.together(w, 0)
	case finished:
		return c.together(w, len(c.sets)-1)
	}
	return nil
}

// learn records what the files of the configuration say, as contents that the ssconf files may have.
func (c *checkSsconf) learn(w *World) error {
	kept, err := w.keptNow()
	if err != nil || kept == nil {
		return err
	}
	set := ssconfSet{ssconfPaths[0]: linesOf(kept.Cluster.Tags), ssconfPaths[1]: instancesFile(kept)}
	if n := len(c.sets); n == 0 || !set.isLike(c.sets[n-1]) {
		c.sets = append(c.sets, set)
	}
	return nil
}

func (s ssconfSet) isLike(other ssconfSet) bool {
	return !slices.ContainsFunc(ssconfPaths, func(path string) bool { return s[path] != other[path] })
}

// written judges a write: the content must be that of a configuration which is not older than that of the write before.
func (c *checkSsconf) written(w *World, d *simdisk.Disk, path string) error {
	n := c.nodes[d]
	if n == nil {
		if c.nodes == nil {
			c.nodes = map[*simdisk.Disk]*ssconfNode{}
		}
		n = &ssconfNode{last: map[string]int{}}
		c.nodes[d] = n
	}
	n.changedAt = w.clock.Now()
	content := dataOf(d, path)
	for i := n.last[path]; i < len(c.sets); i++ {
		if c.sets[i][path] == string(content) {
			n.last[path] = i
			return nil
		}
	}
	return fmt.Errorf("%s has %q, and no configuration said so since the write before", path, content)
}

// together judges the files of each node that is left alone. They are of one of the sets from an index on, and of none before that
// of an earlier time.
func (c *checkSsconf) together(w *World, from int) error {
	for _, node := range w.nodes {
		n := c.nodes[node.disk]
		if n == nil || node.daemon == nil || !w.disturbance.recovered(w) || w.clock.Now().Before(n.changedAt.Add(ssconfRest)) {
			continue
		}
		is := ssconfSet{}
		for _, path := range ssconfPaths {
			if node.disk.Find(path) == nil {
				return fmt.Errorf("%s has no %s beside other ssconf files", node.name, path)
			}
			is[path] = string(dataOf(node.disk, path))
		}
		at := max(from, n.oldest)
		for at < len(c.sets) && !is.isLike(c.sets[at]) {
			at++
		}
		if at == len(c.sets) {
			return fmt.Errorf("the ssconf files of %s are of no configuration together, or of an older one than before: %q", node.name, is)
		}
		n.oldest = at
	}
	return nil
}

// instancesFile has the names of the instances in an order that does not matter to them: all have the same form and length of names.
func instancesFile(kept *keptConfig) string {
	var names []string
	for _, i := range kept.Instances {
		names = append(names, i.Name)
	}
	slices.Sort(names)
	return linesOf(names)
}

func linesOf(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, "\n") + "\n"
}
