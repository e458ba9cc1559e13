package sim

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/core/paths"
)

// checkSsconf: each ssconf file says what the configuration said at some time. In the end the files say what the configuration says.
// Two keys stand for all: the tags of the cluster and the names of the instances.
type checkSsconf struct {
	tags  map[string]bool // content of ssconf_cluster_tags by the configurations that have existed
	lists map[string]bool // content of ssconf_instance_list
}

func (*checkSsconf) Name() string { return "ssconf files are of a configuration" }

func (c *checkSsconf) See(w *World, event any) error {
	if w.config == nil || w.oracle != nil {
		return nil // nodes of a cluster do not write them yet
	}
	switch e := event.(type) {
	case otherFileChanged:
		switch e.path {
		case paths.ConfigJournalPath:
			if w.journalChangesConfig() {
				return c.learn(w)
			}
		case paths.SsconfPrefix + "cluster_tags":
			return known(w, e.path, c.tags)
		case paths.SsconfPrefix + "instance_list":
			return known(w, e.path, c.lists)
		}
	case daemonStarted:
		return c.learn(w)
	case finished:
		return c.final(w)
	}
	return nil
}

// learn records what the files of the configuration say. A fold and a repair of the journal change nothing.
func (c *checkSsconf) learn(w *World) error {
	kept, err := w.keptNow()
	if err != nil || kept == nil {
		return err
	}
	if c.tags == nil {
		c.tags, c.lists = map[string]bool{}, map[string]bool{}
	}
	c.tags[tagsFile(kept)], c.lists[instancesFile(kept)] = true, true
	return nil
}

func known(w *World, path string, contents map[string]bool) error {
	if content := dataOf(w.disk, path); content != nil && !contents[string(content)] {
		return fmt.Errorf("%s has %q, and no configuration said so", path, content)
	}
	return nil
}

func (c *checkSsconf) final(w *World) error {
	kept, err := w.keptNow()
	if err != nil || kept == nil {
		return err
	}
	for path, want := range map[string]string{paths.SsconfPrefix + "cluster_tags": tagsFile(kept), paths.SsconfPrefix + "instance_list": instancesFile(kept)} {
		if is := dataOf(w.disk, path); string(is) != want {
			return fmt.Errorf("%s has %q in the end, the configuration says %q", path, is, want)
		}
	}
	return nil
}

func tagsFile(kept *keptConfig) string { return linesOf(kept.Cluster.Tags) }

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
