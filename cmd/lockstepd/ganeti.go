package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockstep/cmd/internal/accounts"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/core/queuecopy"
	"lockstep/edge/forkserver"
	"lockstep/edge/jobprocess"
	"lockstep/edge/noded"
	"lockstep/edge/peer"
)

// The directories of Ganeti, which take the place of the defaults in Ganeti mode.
const (
	ganetiDataDir = "/var/lib/ganeti"
	ganetiRunDir  = "/run/ganeti"
	ganetiLogDir  = "/var/log/ganeti"
)

const ganetiFlag = "ganeti"

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
	// node is the name of this node in Ganeti's configuration; only known under the name of one of Ganeti's daemons.
	node string
	// Acknowledge says when a client gets the answer about a change of the queue.
	Acknowledge queuecopy.Acknowledge
	acknowledge string // as the operator has written it
}

// jobProcess is Ganeti's job process; nil in lockstep's own mode.
func (g *GanetiConfig) jobProcess(hasQueue bool) *jobprocess.Ganeti {
	if !g.Enabled {
		return nil
	}
	return &jobprocess.Ganeti{Python: g.Python, Share: g.Share, Debug: g.Debug, ForkServer: g.ForkServer && hasQueue, Repairs: g.repairs()}
}

// repairs are the names in the setting.
func (g *GanetiConfig) repairs() []string {
	return strings.FieldsFunc(g.Repairs, func(r rune) bool { return r == ',' })
}

// checkRepairs returns an error for a name that is no repair.
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

// checkPrograms returns an error if Ganeti's job process cannot be started.
func (g *GanetiConfig) checkPrograms() error {
	if !g.Enabled {
		return nil
	}
	if info, err := os.Stat(g.Python); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("ganeti-python: %s is not a program that can be started", g.Python)
	}
	if _, err := os.Stat(g.jobProcess(false).Script()); err != nil {
		return fmt.Errorf("ganeti-share: Ganeti's job process is missing: %w", err)
	}
	return nil
}

func (g *GanetiConfig) flags(flags *flag.FlagSet) {
	flags.BoolVar(&g.Enabled, ganetiFlag, false,
		"take the place of Ganeti's daemons on a node of a Ganeti cluster: the directories default to "+
			ganetiDataDir+", "+ganetiRunDir+" and "+ganetiLogDir+
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

// applyGaneti sets the defaults of Ganeti mode. given are the names of the settings that the operator has chosen.
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
				return fmt.Errorf("%s: it has no meaning without %s", name, ganetiFlag)
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
			return fmt.Errorf("%s: it cannot be set with %s: %s", excluded.name, ganetiFlag, excluded.why)
		}
	}
	for _, dir := range []struct {
		name  string
		field *string
		value string
	}{{"data-dir", &c.DataDir, ganetiDataDir}, {"run-dir", &c.RunDir, ganetiRunDir}, {"log-dir", &c.LogDir, ganetiLogDir}} {
		if !given[dir.name] {
			*dir.field = dir.value
		}
	}
	if !given[rapiAddressFlag] {
		c.Rapi.Address = "" // the port and the users file are those of ganeti-rapi
	}
	if !given[mondAddressFlag] {
		c.Mond.Address = "" // the port is that of ganeti-mond
	}
	if !given[confdAddressFlag] {
		c.Confd.Address = "" // the port is that of ganeti-confd
	}
	return nil
}

// resolveOwners sets who owns the files. Its error names a missing user or group.
func (c *Config) resolveOwners() (err error) {
	c.owners = ownership.Rules{}
	if c.Ganeti.Enabled {
		c.owners, err = accounts.Resolve(c.Ganeti.Accounts)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; Ganeti's packages make them, "+
			"and ganeti-user, ganeti-confd-group and ganeti-daemons-group set other names",
			ganetiFlag, err)
	}
	return nil
}

// checkAccounts returns an error if this process cannot give files to the owners of the rules: only root can give a
// file to another user, or to a group that it is no member of.
func checkAccounts(owners ownership.Rules, uid int, groups []int) error {
	if uid == 0 {
		return nil
	}
	for _, owner := range owners.UIDs() {
		if owner != uid {
			return fmt.Errorf("%s: lockstepd runs as user %d, and its files must belong to user %d: "+
				"start it as that user, or set ganeti-user",
				ganetiFlag, uid, owner)
		}
	}
	for _, group := range owners.GIDs() {
		if !slices.Contains(groups, group) {
			return fmt.Errorf("%s: lockstepd runs as user %d, which is no member of group %d, to which files must belong: "+
				"add the user to that group, and start lockstepd again", ganetiFlag, uid, group)
		}
	}
	return nil
}

// checkSetUp returns an error unless the data directory belongs to the mode of the daemon: Ganeti's to Ganeti mode, any
// other to lockstep's own mode. It changes nothing.
func checkSetUp(c Config) error {
	ganeti, err := peer.IsGanetiDirectory(c.DataDir)
	switch {
	case err != nil:
		return err
	case !c.Ganeti.Enabled && ganeti:
		return fmt.Errorf("data-dir: %s is the data directory of a Ganeti node, because it has %s: "+
			"start lockstepd with --%s, or with another data-dir",
			c.DataDir, paths.GanetiCertificatePath, ganetiFlag)
	case !c.Ganeti.Enabled:
		return nil
	}
	groups, err := os.Getgroups()
	if err != nil {
		return fmt.Errorf("%s: groups of this process: %w", ganetiFlag, err)
	}
	if err := checkAccounts(c.owners, os.Geteuid(), append(groups, os.Getegid())); err != nil {
		return err
	}
	for _, left := range []string{raftDirName, memberMark} {
		path := filepath.Join(c.DataDir, left)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %s belongs to a cluster of lockstep, because it has %s; "+
				"a node is in a cluster of lockstep or of Ganeti, never in both. "+
				"Set data-dir to Ganeti's, or run lockstep node remove on another node of that cluster and move %s aside",
				ganetiFlag, c.DataDir, left, path)
		}
	}
	for _, name := range []string{paths.GanetiCertificatePath, paths.ConfigPath} {
		path := filepath.Join(c.DataDir, name)
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%s: %w; every master candidate of Ganeti has this file: gnt-cluster init or gnt-node add makes it. Check data-dir",
				ganetiFlag, err)
		}
	}
	return nil
}

// runGaneti runs the daemon of a node of a Ganeti cluster. The node daemons of Ganeti get the configuration, write the ssconf
// files, are asked for what only they know, and on master candidates get the queue.
func (d *service) runGaneti(stop context.Context) error {
	client := nodeClient(d.config)
	daemons, inquiries, copies := noded.NewDaemons(client), noded.NewInquiries(client), noded.NewCopies(client, d.config.DataDir)
	defer daemons.Close()
	defer inquiries.Close()
	defer copies.Close()
	d.ports.Daemons, d.ports.Inquiries, d.ports.Copies = daemons, inquiries, copies
	return d.runAlone(stop)
}
