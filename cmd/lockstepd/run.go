package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"lockstep/actors/config/clusterconfig"
	"lockstep/cmd/internal/places"
	"lockstep/cmd/lockstepd/internal/datadir"
	"lockstep/cmd/lockstepd/internal/janitor"
	"lockstep/cmd/lockstepd/internal/node"
	"lockstep/cmd/lockstepd/internal/process"
	"lockstep/cmd/lockstepd/internal/service"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/config/reserve"
	"lockstep/edge/noded"
	"lockstep/edge/ownerwatch"
	"lockstep/edge/peer"
	"lockstep/messages"
	"lockstep/persistence"
	"lockstep/supervisor"
)

// run runs the daemon, from the directories to the orderly stop. Its error says in one line what
// the operator must correct.
func run(c settings.Config) error {
	if err := process.DropJobMarker(); err != nil {
		return err
	}
	if err := datadir.CheckSetUp(c); err != nil {
		return err
	}
	stop, reload := process.Signals()
	log := c.NewLog()
	if err := persistence.MakeDirs(c.DataDir, c.RunDir, c.LogDir, c.Owners); err != nil {
		return err
	}
	// Before anything of the queue is read: two daemons on one queue would give out the same ids.
	queue, err := persistence.LockQueue(c.DataDir, c.Owners)
	if err != nil {
		return err
	}
	runDir, err := persistence.LockRun(c.RunDir)
	if err != nil {
		return errors.Join(err, queue.Release())
	}
	sockets, err := lockSockets(c)
	if err != nil {
		return errors.Join(err, runDir.Release(), queue.Release())
	}
	stop, lost := context.WithCancelCause(stop)
	defer lost(nil)
	go janitor.WatchLock(stop, queue, lost)
	err = runLocked(c, log, stop, reload, nil)
	if replaced, ok := errors.AsType[*persistence.LockReplacedError](context.Cause(stop)); ok {
		err = errors.Join(replaced, err)
	}
	return errors.Join(err, sockets.Release(), runDir.Release(), queue.Release())
}

// lockSockets makes the directory of the sockets, and locks it if it is not in the run directory,
// which is locked: another daemon with another run directory could have it, too.
func lockSockets(c settings.Config) (*persistence.RunLock, error) {
	if err := persistence.MakeSocketDir(c.RunDir, c.SocketDir, c.Owners); err != nil {
		return nil, fmt.Errorf("socket-dir: %w", err)
	}
	if c.SocketDir == persistence.SocketDir(c.RunDir) {
		return nil, nil
	}
	return persistence.LockRun(c.SocketDir)
}

// checkStart fails if this node must not start with the given configuration, and returns the identity of the node, nil without a cluster.
func checkStart(c settings.Config) (*peer.Identity, error) {
	if !places.IsProgram(c.JobProgram) {
		return nil, fmt.Errorf("job-program: %s is not a program that can be started", c.JobProgram)
	}
	if err := c.Ganeti.CheckPrograms(); err != nil {
		return nil, err
	}
	// Again, because lockstep node init may have run before this process got the lock.
	if err := datadir.CheckSetUp(c); err != nil {
		return nil, err
	}
	return datadir.LoadIdentity(c.DataDir)
}

// runLocked runs while this process holds the locks of the queue and of the run directory: it checks and prepares the files, opens what
// both kinds of daemon need, and serves until stop. p is nil under the name lockstepd.
func runLocked(c settings.Config, log *logrus.Logger, stop context.Context, reload <-chan os.Signal, p *service.Phase) error {
	identity, err := checkStart(c)
	if err != nil {
		return err
	}
	address := "" // of this node in its cluster
	if identity != nil {
		c.NodeName, address = identity.Name, identity.Address
	}
	files, err := persistence.OpenFiles(c.DataDir, c.Owners)
	if err != nil {
		return err
	}
	defer files.Close()
	if p.HasQueue() {
		if err := datadir.CheckQueue(c, files, identity); err != nil {
			return err
		}
	}
	prepared, err := datadir.Prepare(c, p.HasQueue(), files, log, identity != nil && datadir.HasLog(c.DataDir))
	if err != nil {
		return err
	}
	if err := openToUsers(c, log); err != nil {
		return err
	}
	// Before the first livelock is made: livelocks are looked for in the directory that is noted.
	if err := datadir.NoteRunDir(c, files); err != nil {
		return err
	}
	livelock, err := persistence.CreateLivelock(persistence.LivelockDir(c.RunDir), persistence.DaemonLivelock, c.Owners)
	if err != nil {
		return err
	}
	defer func() { _ = livelock.Release() }() // left behind, a free lock also means a dead process
	janitor.SweepLivelocks(c.RunDir, log, files)
	jobStderr, err := persistence.OpenLog(filepath.Join(c.LogDir, "jobs.log"), c.Owners)
	if err != nil {
		return err
	}
	defer jobStderr.Close()
	d := service.New(c, log, files, reload, p)
	d.OpenProcesses(jobStderr, identity != nil)
	defer d.Processes.Close()
	owners := ownerwatch.New(persistence.LivelockDir(c.RunDir), livelock.Path(), func(livelock string) {
		d.Env.System().Root.Send(supervisor.Locks(d.Env), &messages.OwnerDied{Livelock: livelock})
	})
	defer owners.Close()
	callers := ownerwatch.NewCallers(persistence.LivelockDir(c.RunDir), livelock.Path(), func(by reserve.Caller) {
		d.Env.System().Root.Send(supervisor.ClusterConfig(d.Env), &clusterconfig.CallerDied{Caller: by})
	})
	defer callers.Close()
	d.SetPorts(owners, callers)
	if err := d.LoadSettings(livelock.Path()); err != nil {
		return err
	}
	closeServers, err := d.OpenServers(address)
	if err != nil {
		return err
	}
	defer closeServers()
	d.Settings.Prepared = prepared
	if identity != nil {
		return node.Run(d, identity, stop)
	}
	if c.Ganeti.Enabled {
		return runGaneti(d, stop)
	}
	return runAlone(d, stop)
}

// openToUsers opens the run directory to the commands of other users, or says loudly that all commands run as root.
func openToUsers(c settings.Config, log *logrus.Logger) error {
	if c.RunAs.MembersAreRoot {
		log.Warn("all who may submit jobs are root here: the commands of all users run as root, because of --run-as daemon")
	}
	if !c.RunAs.OpensRunDir() {
		return nil
	}
	return persistence.OpenToUsers(c.RunDir)
}

// runAlone runs the daemon of a queue that belongs to no cluster of lockstep.
func runAlone(d *service.Service, stop context.Context) error {
	if err := persistence.RemoveLease(d.Config.RunDir); err != nil {
		return err
	}
	tree, err := supervisor.Tree(d.Ports, d.Settings)
	if err != nil {
		return err
	}
	return d.Serve(tree, stop)
}

// runGaneti runs the daemon of a node of a Ganeti cluster. The node daemons of Ganeti get the configuration, write the ssconf
// files, are asked for what only they know, and on master candidates get the queue.
func runGaneti(d *service.Service, stop context.Context) error {
	client := noded.NewClient(noded.ConfigOf(d.Config.DataDir))
	daemons, inquiries, copies := noded.NewDaemons(client), noded.NewInquiries(client), noded.NewCopies(client, d.Config.DataDir)
	defer daemons.Close()
	defer inquiries.Close()
	defer copies.Close()
	d.Ports.Daemons, d.Ports.Inquiries, d.Ports.Copies = daemons, inquiries, copies
	return runAlone(d, stop)
}
