package ganeti

import (
	"slices"
	"strings"
)

// The daemons that are replaced.
const (
	wconfd = "ganeti-wconfd"
	luxid  = "ganeti-luxid"
	rapi   = "ganeti-rapi"
	confd  = "ganeti-confd"
	mond   = "ganeti-mond"
)

// extras are the daemons that are replaced only if the operator asks for it.
type extras struct {
	Rapi  bool `json:"rapi"`
	Confd bool `json:"confd"`
	Mond  bool `json:"mond"`
}

// with returns the daemons of both.
func (e extras) with(o extras) extras {
	return extras{e.Rapi || o.Rapi, e.Confd || o.Confd, e.Mond || o.Mond}
}

// names returns the names of the daemons ("ganeti-rapi"), in a fixed order.
func (e extras) names() (names []string) {
	for _, d := range []struct {
		is   bool
		name string
	}{{e.Rapi, rapi}, {e.Confd, confd}, {e.Mond, mond}} {
		if d.is {
			names = append(names, d.name)
		}
	}
	return names
}

// options are the options of swap that ask for those of e that o lacks.
func (e extras) options(o extras) string {
	var texts []string
	for _, name := range e.names() {
		if !slices.Contains(o.names(), name) {
			texts = append(texts, "--"+strings.TrimPrefix(name, "ganeti-"))
		}
	}
	return strings.Join(texts, " ")
}

// isOnEveryNode reports whether a daemon runs on each node, and not on the master alone.
func isOnEveryNode(daemon string) bool { return daemon == confd || daemon == mond }

// daemons are the names of Ganeti's daemons that lockstep replaces on this node, in the order of their start.
func (n *node) daemons() (names []string) {
	for _, d := range []struct {
		is   bool
		name string
	}{{n.state.Confd, confd}, {!n.state.Plain, wconfd}, {n.state.Rapi, rapi}, {!n.state.Plain, luxid}, {n.state.Mond, mond}} {
		if d.is {
			names = append(names, d.name)
		}
	}
	return names
}

// linked returns the optional daemons whose program in /usr/sbin is a link to lockstepd.
func (n *node) linked() extras { return extras{n.isLinked(rapi), n.isLinked(confd), n.isLinked(mond)} }
