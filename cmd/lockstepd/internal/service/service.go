// Package service is the part of the daemon that is the same with and without a cluster: what a tree of actors is given, and the time from
// its first answer to the orderly stop.
//
// It is wired in steps, New first and Serve last. Package node runs the daemon of a node of a cluster with it.
package service

import (
	cryptorand "crypto/rand"
	"math/rand/v2"
	"os"
	"os/user"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/actors/luxi/call"
	"lockstep/cmd/internal/buildinfo"
	"lockstep/cmd/lockstepd/internal/listeners"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/access"
	"lockstep/core/jobproc"
	"lockstep/core/limits"
	"lockstep/core/lock"
	"lockstep/core/opcode"
	"lockstep/edge/cgroup"
	"lockstep/edge/getent"
	"lockstep/edge/jobprocess"
	"lockstep/edge/ownerwatch"
	"lockstep/edge/usage"
	"lockstep/edge/zones"
	"lockstep/persistence"
	"lockstep/supervisor"
)

// Service is the part of the daemon that is the same with and without a cluster.
type Service struct {
	Config    settings.Config
	Log       *logrus.Logger
	Files     *persistence.OSFiles
	Env       *kit.Env
	Processes *jobprocess.Processes
	RemoteAPI *listeners.RemoteAPI
	Mond      *listeners.Mond
	Accounts  *getent.Users // of the node
	Ports     supervisor.Ports
	Settings  supervisor.Settings

	phase          *Phase                           // of ganeti-wconfd; nil: lockstepd runs under its own name
	catalogue      atomic.Pointer[opcode.Catalogue] // in force
	reload         <-chan os.Signal                 // each SIGHUP: reload the declared opcodes
	reloadRequests reloadRequests
}

// New returns the service without job processes, ports and settings.
func New(c settings.Config, log *logrus.Logger, files *persistence.OSFiles, reload <-chan os.Signal, p *Phase) *Service {
	return &Service{
		Config:    c,
		phase:     p,
		Log:       log,
		Files:     files,
		reload:    reload,
		RemoteAPI: listeners.NewRemoteAPI(c),
		Env:       kit.New(kit.Options{Log: log, Clock: kit.RealClock(), Rand: rand.Uint64}),
	}
}

// OpenProcesses sets the job processes, whose standard error is stderr. inCluster says that the node belongs to a cluster: then job
// processes need its lease.
func (d *Service) OpenProcesses(stderr *os.File, inCluster bool) {
	c, permission := d.Config, jobproc.LeaseNotRequired
	if inCluster {
		permission = jobproc.LeaseRequired
	}
	d.Processes = jobprocess.New(jobprocess.Config{
		System:     d.Env.System(),
		Log:        d.Log,
		Program:    c.JobProgram,
		DataDir:    c.DataDir,
		RunDir:     c.RunDir,
		Stderr:     stderr,
		Permission: permission,
		Owners:     c.Owners,
		Cgroup:     c.JobCgroup,
		Ganeti:     c.Ganeti.JobProcess(d.phase.HasQueue()),
		Collects:   inCluster,
	})
}

// SetPorts sets the ports of the tree that are the same with and without a cluster.
func (d *Service) SetPorts(owners *ownerwatch.Owners, callers *ownerwatch.Callers) {
	d.reloadRequests = make(reloadRequests, reloadsWaiting)
	d.Accounts = getent.New(d.Env.System())
	d.Ports = supervisor.Ports{
		Env:          d.Env,
		Files:        d.RemoteAPI.WithTimes(d.Files),
		Processes:    d.Processes,
		Accounts:     newAccounts(d.Env.System(), d.Accounts, d.Config.Rapi.Users),
		Owners:       owners,
		Callers:      callers,
		Opcodes:      d.reloadRequests,
		Used:         usage.NewReader(d.Files),
		Events:       d.RemoteAPI.Events(),
		OnDecision:   d.RemoteAPI.OnDecision(),
		OnUnlocked:   d.RemoteAPI.OnUnlocked(d.Log),
		Console:      d.Config.Rapi.Address != "",
		WithoutQueue: !d.phase.HasQueue(),
	}
}

// LoadSettings loads the catalogue and sets the settings of the tree. livelock is that of the daemon.
func (d *Service) LoadSettings(livelock string) error {
	c := d.Config
	catalogue, err := loadCatalogue(c)
	if err != nil {
		return err
	}
	d.catalogue.Store(catalogue)
	boot, err := persistence.BootID()
	if err != nil {
		return err
	}
	d.Settings = supervisor.Settings{
		Livelock: livelock,
		Daemon:   daemonUser(),
		Access: access.Policy{
			DaemonUID: os.Geteuid(), SocketGID: socketGID(c), SocketGroup: groupName(socketGID(c)),
			OwnerOnly: os.Geteuid() != 0 && c.SocketGroup == "", Ganeti: c.Ganeti.Enabled,
		},
		BootID:      boot,
		NewUUID:     uuid.NewString,
		Random:      randomOctets,
		Locks:       lock.Settings{Hierarchy: lock.Implied},
		GanetiJobs:  c.Ganeti.Enabled,
		RunAs:       c.RunAs.Policy,
		Node:        c.Ganeti.Node,
		Acknowledge: c.Ganeti.Acknowledge,
		MaxStarts:   c.MaxStarts,
		Writers:     c.Writers,
		Catalogue:   catalogue,
		Secrets:     func() []string { return d.catalogue.Load().SecretNames() },
		Limits:      c.Limits,
		About: call.About{
			Version:             buildinfo.Read().Short(),
			DataDir:             c.DataDir,
			PID:                 os.Getpid(),
			Started:             time.Now(),
			MembersAreRoot:      c.RunAs.MembersAreRoot,
			Limits:              func() limits.Node { return limitsOf(c.JobCgroup) },
			ArchiveAfter:        c.ArchiveAfter,
			RemoveArchivedAfter: c.RemoveArchivedAfter(),
			Console:             d.RemoteAPI.ConsoleAddress,
			Monitor:             func() string { return d.Mond.Address() },
			ZoneData:            zones.Data,
			Guarded:             func() bool { return persistence.IsGuarded(c.RunDir) },
		},
	}
	return nil
}

// limitsOf is what this node can limit of a command below the control group of its jobs; "": there is none.
func limitsOf(group string) limits.Node {
	if group == "" {
		return limits.Node{}
	}
	unit, controllers, err := cgroup.Controllers(group)
	n := limits.Node{Group: unit, Controllers: controllers}
	if err != nil {
		n.Unusable = err.Error()
	}
	return n
}

// groupName is the name of a group; "": it has none.
func groupName(gid int) string {
	if g, err := user.LookupGroupId(strconv.Itoa(gid)); err == nil {
		return g.Name
	}
	return ""
}

// socketGID is the group of the sockets that the operator has chosen, or access.NoUID.
func socketGID(c settings.Config) int {
	if gid, err := c.SocketGroupID(); err == nil && gid != nil { // the settings are valid
		return *gid
	}
	return access.NoUID
}

// daemonUser is the user of the daemon.
func daemonUser() access.Submitter {
	found := access.Submitter{UID: os.Geteuid()}
	if u, err := user.LookupId(strconv.Itoa(found.UID)); err == nil {
		found.Name = u.Username
	}
	return found
}

// randomOctets returns octets that cannot be guessed.
func randomOctets(count int) []byte {
	b := make([]byte, count)
	_, _ = cryptorand.Read(b) // never fails
	return b
}
