package settings

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockstep/cmd/internal/accounts"
	"lockstep/core/ownership"
	"lockstep/core/queuecopy"
	"lockstep/edge/forkserver"
	"lockstep/edge/jobprocess"
)

// Directories of Ganeti, which take the place of the defaults in Ganeti mode.
const (
	GanetiDataDir = "/var/lib/ganeti"
	GanetiRunDir  = "/run/ganeti"
	GanetiLogDir  = "/var/log/ganeti"
)

// GanetiFlag is the flag of Ganeti mode.
const GanetiFlag = "ganeti"

// GanetiConfig are the settings of Ganeti mode, in which lockstepd takes the place of Ganeti's daemons for queue, locks
// and configuration. The node has no log, and the node daemons of Ganeti distribute the files.
type GanetiConfig struct {
	Enabled  bool
	Accounts ownership.Accounts
	RapiUser string // user of ganeti-rapi
	// ConfdUser and MondUser are those of ganeti-confd and ganeti-mond.
	ConfdUser, MondUser string
	Python              string // interpreter of Ganeti's job process
	Share               string // directory of Ganeti's Python modules
	Debug               bool   // Ganeti's job processes log more

	ForkServer bool   // Ganeti's job processes are forked
	Repairs    string // of forkserver.Repairs, separated by commas
	// Node is the name of this node in Ganeti's configuration; "" but under the name of one of Ganeti's daemons.
	Node string
	// Acknowledge says when a client gets the answer about a change of the queue.
	Acknowledge queuecopy.Acknowledge
	acknowledge string // as the operator has written it
}

// JobProcess is how Ganeti's job process is started; nil in lockstep's own mode. Without a queue there is no fork server.
func (g *GanetiConfig) JobProcess(hasQueue bool) *jobprocess.Ganeti {
	if !g.Enabled {
		return nil
	}
	return &jobprocess.Ganeti{Python: g.Python, Share: g.Share, Debug: g.Debug, ForkServer: g.ForkServer && hasQueue, Repairs: g.repairs()}
}

// repairs are the names in the setting.
func (g *GanetiConfig) repairs() []string {
	return strings.FieldsFunc(g.Repairs, func(r rune) bool { return r == ',' })
}

// checkRepairs returns an error for a name in the setting that is no repair.
func (g *GanetiConfig) checkRepairs() error {
	for _, name := range g.repairs() {
		if !slices.Contains(forkserver.Repairs(), name) {
			return fmt.Errorf("%s: there is no %q; there are %s", repairsFlag, name, strings.Join(forkserver.Repairs(), ", "))
		}
	}
	return nil
}

const (
	forkServerFlag = "fork-server"
	repairsFlag    = "fork-server-repairs"
)

// CheckPrograms returns an error if Ganeti's job process cannot be started, because Python or the script is missing.
func (g *GanetiConfig) CheckPrograms() error {
	if !g.Enabled {
		return nil
	}
	if info, err := os.Stat(g.Python); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("ganeti-python: %s is not a program that can be started", g.Python)
	}
	if _, err := os.Stat(g.JobProcess(false).Script()); err != nil {
		return fmt.Errorf("ganeti-share: Ganeti's job process is missing: %w", err)
	}
	return nil
}

func (g *GanetiConfig) flags(flags *flag.FlagSet) {
	flags.BoolVar(&g.Enabled, GanetiFlag, false,
		"take the place of Ganeti's daemons on a node of a Ganeti cluster: the directories default to "+
			GanetiDataDir+", "+GanetiRunDir+" and "+GanetiLogDir+
			", files belong to Ganeti's user and groups, and there is no cluster of lockstep")
	flags.StringVar(&g.Accounts.Daemon, "ganeti-user", accounts.Ganeti.Daemon,
		"with --ganeti: `user` of the daemons and of their files, by name or number")
	flags.StringVar(&g.Accounts.ConfdGroup, "ganeti-confd-group", accounts.Ganeti.ConfdGroup,
		"with --ganeti: `group` of config.data, by name or number")
	flags.StringVar(&g.Accounts.DaemonsGroup, "ganeti-daemons-group", accounts.Ganeti.DaemonsGroup,
		"with --ganeti: `group` of the queue and the sockets, by name or number")
	flags.StringVar(&g.RapiUser, "ganeti-rapi-user", "gnt-rapi", "under the name ganeti-rapi: `user` of the daemon, by name or number")
	flags.StringVar(&g.ConfdUser, "ganeti-confd-user", "gnt-confd", "under the name ganeti-confd: `user` of the daemon, by name or number")
	flags.StringVar(&g.MondUser, "ganeti-mond-user", "root", "under the name ganeti-mond: `user` of the daemon, by name or number")
	flags.StringVar(&g.Python, "ganeti-python", "/usr/bin/python3", "with --ganeti: `path` of the interpreter of Ganeti's job process")
	flags.StringVar(&g.Share, "ganeti-share", "/usr/share/ganeti/3.0", "with --ganeti: `directory` of Ganeti's Python modules")
	flags.StringVar(&g.acknowledge, "acknowledge", queuecopy.All.String(),
		"with --ganeti: `when` a client gets the answer to a submission, an order, a drain or a pause: "+
			"local, when it is on this node's disk; "+
			"majority, when more than half of the master candidates that are online have it, too; "+
			"all, when all of them have it but those that have not got a change in 5 seconds")
	flags.BoolVar(&g.Debug, "ganeti-debug", false, "with --ganeti: Ganeti's job processes log more")
	flags.BoolVar(&g.ForkServer, forkServerFlag, true, "with --ganeti: fork Ganeti's job processes from one that has loaded their program")
	flags.StringVar(&g.Repairs, repairsFlag, strings.Join(forkserver.Repairs(), ","),
		"with --ganeti: `names` of the repairs of Ganeti's program that the fork server makes, separated by commas")
}

// excludedByGaneti are settings that have no meaning in Ganeti mode.
var excludedByGaneti = []struct{ name, why string }{
	{"cluster-name", "the cluster is Ganeti's, and has a name"},
	{"node-name", "the nodes are Ganeti's, and have names"},
	{"node-listen", "there is no cluster of lockstep"},
	{"leave-jobs", "there is no cluster of lockstep"},
	{"socket-group", "the sockets belong to the group that ganeti-daemons-group names"},
}

// applyGaneti sets the defaults of Ganeti mode, and refuses settings that do not fit the mode of the daemon. given are the names of the
// settings that the operator has chosen.
func (c *Config) applyGaneti(given map[string]bool) error {
	if !c.Ganeti.Enabled {
		onlyOfGaneti := []string{
			"ganeti-user", "ganeti-confd-group", "ganeti-daemons-group",
			"ganeti-rapi-user", "ganeti-confd-user", "ganeti-mond-user",
			"ganeti-python", "ganeti-share", "ganeti-debug",
			forkServerFlag, repairsFlag, "acknowledge",
		}
		for _, name := range onlyOfGaneti {
			if given[name] {
				return fmt.Errorf("%s: it has no meaning without %s", name, GanetiFlag)
			}
		}
		return nil
	}
	if err := c.Ganeti.checkRepairs(); err != nil {
		return err
	}
	var err error
	if c.Ganeti.Acknowledge, err = queuecopy.ParseAcknowledge(c.Ganeti.acknowledge); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	for _, excluded := range excludedByGaneti {
		if given[excluded.name] {
			return fmt.Errorf("%s: it cannot be set with %s: %s", excluded.name, GanetiFlag, excluded.why)
		}
	}
	for _, dir := range []struct {
		name  string
		field *string
		value string
	}{{"data-dir", &c.DataDir, GanetiDataDir}, {"run-dir", &c.RunDir, GanetiRunDir}, {"log-dir", &c.LogDir, GanetiLogDir}} {
		if !given[dir.name] {
			*dir.field = dir.value
		}
	}
	if !given[RapiAddressFlag] {
		c.Rapi.Address = "" // the port and the users file are those of ganeti-rapi
	}
	if !given[MondAddressFlag] {
		c.Mond.Address = "" // the port is that of ganeti-mond
	}
	if !given[ConfdAddressFlag] {
		c.Confd.Address = "" // the port is that of ganeti-confd
	}
	return nil
}

// resolveOwners sets who owns the files. Its error names a missing user or group.
func (c *Config) resolveOwners() (err error) {
	c.Owners = ownership.Rules{}
	if c.Ganeti.Enabled {
		c.Owners, err = accounts.Resolve(c.Ganeti.Accounts)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; Ganeti's packages make them, "+
			"and ganeti-user, ganeti-confd-group and ganeti-daemons-group set other names",
			GanetiFlag, err)
	}
	return nil
}

// ReasonDir is where Ganeti's programs leave the reasons of the states of instances; "" in lockstep's own mode.
func (c *Config) ReasonDir() string {
	if !c.Ganeti.Enabled {
		return ""
	}
	return filepath.Join(c.RunDir, "instance-reason")
}
