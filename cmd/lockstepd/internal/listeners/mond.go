package listeners

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/monitor"
	"lockstep/edge/gather"
	"lockstep/edge/jobprocess"
	"lockstep/edge/mond"
	"lockstep/supervisor"
)

// Mond is MonD. If it is off, all methods do nothing.
type Mond struct {
	config     settings.Config
	log        *logrus.Logger
	board      *mond.Board // nil: off
	collectors []prometheus.Collector
	readLog    atomic.Pointer[func() (term, committed uint64)] // nil: there is no consensus log
	server     *server                                         // nil: not open
	url        atomic.Pointer[string]                          // nil: not open
}

// Address is the address of this node's MonD; "" while it is not open. It may be called on any goroutine.
func (m *Mond) Address() string {
	if url := m.url.Load(); url != nil {
		return *url
	}
	return ""
}

// SetLog sets the function that reads the state of the consensus log. It may be called on any goroutine.
func (m *Mond) SetLog(read func() (term, committed uint64)) { m.readLog.Store(&read) }

// NewMond returns MonD, which is not open yet, and its port for the tree, nil if MonD is off.
func NewMond(
	c settings.Config, env *kit.Env, processes *jobprocess.Processes, collectors ...prometheus.Collector,
) (*Mond, *supervisor.Monitor) {
	m := &Mond{config: c, log: env.Log(), collectors: collectors}
	if c.Mond.Address == "" {
		return m, nil
	}
	m.board = mond.NewBoard()
	restarts := &atomic.Int64{}
	env.System().EventStream.Subscribe(func(event any) {
		if failed, is := event.(*kit.ChildFailed); is && failed.Directive == kit.Restart {
			restarts.Add(1)
		}
	})
	sources := gather.New(gather.Config{System: env.System(), Proc: "/proc", DataDir: c.DataDir, Reasons: c.ReasonDir(),
		Processes: jobProcesses(processes), Restarts: restarts.Load, Log: m.logState})
	return m, &supervisor.Monitor{Sources: sources, Board: m.board, Node: c.NodeName}
}

func (m *Mond) logState() (term, committed uint64) {
	if read := m.readLog.Load(); read != nil {
		return (*read)()
	}
	return 0, 0
}

// jobProcesses returns the function that lists and describes the job processes of this node.
func jobProcesses(p *jobprocess.Processes) func() []monitor.Process {
	booted := gather.BootTime("/proc")
	return func() []monitor.Process {
		var all []monitor.Process
		for _, process := range p.List() {
			all = append(all, gather.Describe("/proc", monitor.Process{Job: process.Job, PID: process.PID}, booted))
		}
		return all
	}
}

// open starts the server. If the address is the default and another program uses it, the daemon runs without MonD.
func (m *Mond) open(api *RemoteAPI) error {
	if m.board == nil {
		return nil
	}
	c := m.config.Mond
	secure, err := api.certificate(m.log, c.TLS)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.Address)
	if errors.Is(err, syscall.EADDRINUSE) && !c.AddressGiven {
		m.log.WithField("address", c.Address).Log(unaskedLevel(m.config, false, logrus.WarnLevel),
			"MonD not started: its default address is in use; choose another with --mond-address, or none")
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", settings.MondAddressFlag, err)
	}
	reports := mond.New(mond.Config{
		Log:        m.log,
		Listener:   listener,
		Board:      m.board,
		TLS:        secure,
		Logins:     api.sharedLogins(m.log),
		Allow:      c.Allowed,
		Hosts:      m.config.MondHosts(),
		Table:      api.Table,
		Collectors: append(m.collectors, BuildInfo()),
	})
	m.server = serve(reports, m.log, "MonD: server failed; no more requests are answered")
	url := "http://" + listener.Addr().String()
	if secure != nil {
		url = "https://" + listener.Addr().String()
	}
	m.url.Store(&url)
	m.log.WithFields(logrus.Fields{"address": listener.Addr().String(), "tls": secure != nil}).
		Log(unaskedLevel(m.config, c.AddressGiven, logrus.InfoLevel), "MonD started")
	return nil
}
