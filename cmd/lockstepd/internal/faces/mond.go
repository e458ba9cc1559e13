package faces

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/cmd/internal/accounts"
	"lockstep/cmd/lockstepd/internal/listeners"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/monitor"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/edge/admission"
	"lockstep/edge/gather"
	"lockstep/edge/login"
	"lockstep/edge/mond"
	"lockstep/supervisor"
)

// mondFacePort is where ganeti-mond listens.
var mondFacePort = facePort{network: "tcp", service: mondName, port: 1815}

// mondEndMax bounds the time for accepted requests at the end of ganeti-mond. daemon-util kills the daemon after 30 seconds.
const mondEndMax = 5 * time.Second

// mondOwners are the rules for the files of ganeti-mond.
func mondOwners(c settings.Config) (ownership.Rules, error) {
	return accounts.Resolve(ownership.Accounts{Daemon: c.Ganeti.MondUser})
}

// runMond is ganeti-mond: it reports the state of the node. Like Ganeti's it has the configuration from the ConfDs of the candidates, so
// that it is the same on every node.
func runMond(stop context.Context, c settings.Config, o options, ready func()) error {
	log := o.newLog(c)
	listener, err := net.Listen("tcp", o.listen.address())
	if err != nil {
		return err
	}
	env := kit.New(kit.Options{Log: log, Clock: kit.RealClock(), Rand: rand.Uint64})
	board := mond.NewBoard()
	monitoring, err := supervisor.LoneMonitor(env, supervisor.Monitor{Board: board, Node: c.Ganeti.Node,
		Sources: gather.New(gather.Config{System: env.System(), Proc: "/proc", DataDir: c.DataDir, Reasons: c.ReasonDir(),
			Processes: func() []monitor.Process { return nil }, Restarts: func() int64 { return 0 },
			Log: func() (term, committed uint64) { return 0, 0 }}),
		Candidates: &mond.Candidates{
			System:    env.System(),
			Key:       func() ([]byte, error) { return os.ReadFile(filepath.Join(c.DataDir, paths.ConfdKeyPath)) },
			Addresses: func() []string { return candidateConfds(c.DataDir) },
		}})
	if err != nil {
		return err
	}
	defer monitoring.Stop()
	c.Mond.Address = listener.Addr().String()
	server := mond.New(mond.Config{
		Log:        log,
		Listener:   listener,
		Board:      board,
		Logins:     login.New(c.Rapi.Users, log),
		Allow:      c.Mond.Allowed,
		Hosts:      c.MondHosts(),
		Table:      admission.NewTable(),
		Collectors: []prometheus.Collector{listeners.BuildInfo()},
	})
	return serveFace(stop, server, log, mondEndMax, func() {
		log.WithFields(logrus.Fields{"address": c.Mond.Address}).Info("MonD started")
		ready()
	})
}

// candidateConfds are the addresses of the ConfDs of all master candidates, from ssconf; none if that cannot be read.
func candidateConfds(dataDir string) (addresses []string) {
	content, err := os.ReadFile(filepath.Join(dataDir, paths.SsconfPrefix+"master_candidates_ips"))
	if err != nil {
		return nil
	}
	for _, ip := range strings.Fields(string(content)) {
		addresses = append(addresses, net.JoinHostPort(ip, strconv.FormatUint(uint64(confdFacePort.given()), 10)))
	}
	return addresses
}
