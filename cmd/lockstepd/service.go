package main

import (
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/actors/luxi/call"
	"lockstep/cmd/internal/buildinfo"
	"lockstep/cmd/lockstepd/internal/listeners"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/lock"
	"lockstep/core/opcode"
	"lockstep/edge/jobprocess"
	"lockstep/edge/ownerwatch"
	"lockstep/edge/peer"
	"lockstep/persistence"
	"lockstep/supervisor"
)

// service is the part of the daemon that is the same with and without a cluster.
type service struct {
	config    settings.Config
	phase     *phase // of ganeti-wconfd; nil: lockstepd runs under its own name
	log       *logrus.Logger
	files     *persistence.OSFiles
	env       *kit.Env
	processes *jobprocess.Processes
	remoteAPI *listeners.RemoteAPI
	mond      *listeners.Mond
	ports     supervisor.Ports
	settings  supervisor.Settings
	catalogue atomic.Pointer[opcode.Catalogue] // in force
	reload    <-chan os.Signal                 // each SIGHUP: reload the declared opcodes

	reloadRequests reloadRequests
}

// newService is the service without job processes, ports and settings.
func newService(c settings.Config, log *logrus.Logger, files *persistence.OSFiles, reload <-chan os.Signal, p *phase) *service {
	return &service{
		config:    c,
		phase:     p,
		log:       log,
		files:     files,
		reload:    reload,
		remoteAPI: listeners.NewRemoteAPI(c),
		env:       kit.New(kit.Options{Log: log, Clock: kit.RealClock(), Rand: rand.Uint64}),
	}
}

// openProcesses sets the job processes, whose standard error is stderr. identity is nil without a cluster.
func (d *service) openProcesses(stderr *os.File, identity *peer.Identity) {
	c := d.config
	d.processes = jobprocess.New(jobprocess.Config{
		System:     d.env.System(),
		Log:        d.log,
		Program:    c.JobProgram,
		DataDir:    c.DataDir,
		RunDir:     c.RunDir,
		Stderr:     stderr,
		Permission: permission(identity),
		Owners:     c.Owners,
		Cgroup:     c.JobCgroup,
		Ganeti:     c.Ganeti.JobProcess(d.phase.hasQueue()),
		Collects:   identity != nil,
	})
}

// setPorts sets the ports of the tree that are the same with and without a cluster.
func (d *service) setPorts(owners *ownerwatch.Owners, callers *ownerwatch.Callers) {
	d.reloadRequests = make(reloadRequests, reloadsWaiting)
	d.ports = supervisor.Ports{
		Env:          d.env,
		Files:        d.remoteAPI.WithTimes(d.files),
		Processes:    d.processes,
		Owners:       owners,
		Callers:      callers,
		Opcodes:      d.reloadRequests,
		Events:       d.remoteAPI.Events(),
		OnDecision:   d.remoteAPI.OnDecision(),
		OnUnlocked:   d.remoteAPI.OnUnlocked(d.log),
		Console:      d.config.Rapi.Address != "",
		WithoutQueue: !d.phase.hasQueue(),
	}
}

// loadSettings sets the settings of the tree.
func (d *service) loadSettings(livelock string) error {
	c := d.config
	catalogue, err := loadCatalogue(c)
	if err != nil {
		return err
	}
	d.catalogue.Store(catalogue)
	boot, err := persistence.BootID()
	if err != nil {
		return err
	}
	d.settings = supervisor.Settings{
		Livelock:    livelock,
		BootID:      boot,
		NewUUID:     uuid.NewString,
		Random:      randomOctets,
		Locks:       lock.Settings{Hierarchy: lock.Implied},
		GanetiJobs:  c.Ganeti.Enabled,
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
			ArchiveAfter:        c.ArchiveAfter,
			RemoveArchivedAfter: c.RemoveArchivedAfter(),
			Console:             d.remoteAPI.ConsoleAddress,
			Monitor:             func() string { return d.mond.Address() },
		},
	}
	return nil
}
