package listeners

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/events"
	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/cmd/internal/buildinfo"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/edge/admission"
	"lockstep/edge/console"
	"lockstep/edge/getent"
	"lockstep/edge/login"
	"lockstep/edge/rapi"
	"lockstep/edge/ratelog"
)

// RemoteAPI is the daemon's remote API. If it is off, all methods do nothing.
type RemoteAPI struct {
	// Table is the budget of all listeners.
	Table *admission.Table

	config        settings.Config
	feed          *rapi.Feed // nil: there is no remote API
	diskTimes     *prometheus.HistogramVec
	decisionTimes prometheus.Histogram
	unlocked      *prometheus.CounterVec // of OnUnlocked
	collectors    []prometheus.Collector
	accounts      *getent.Users          // of as= in the users file; nil: those of the node's files
	logins        *login.Logins          // nil: not used yet
	server        *server                // nil: not open
	console       *console.Console       // nil: not open
	consoleURL    atomic.Pointer[string] // address of the console; nil: not open
}

// NewRemoteAPI returns the remote API, which is not open yet.
func NewRemoteAPI(c settings.Config) *RemoteAPI {
	a := &RemoteAPI{config: c, Table: admission.NewTable(), unlocked: unlockedCounter()}
	if c.Rapi.Address == "" {
		return a
	}
	a.feed = rapi.NewFeed(time.Now())
	a.diskTimes = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "lockstep_store_seconds",
		Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		Help:    "Time that operations on the disk have taken, syncs included, by operation and whether they have failed.",
	}, []string{"operation", "failed"})
	a.decisionTimes = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "lockstep_scheduler_decision_seconds",
		Buckets: prometheus.ExponentialBuckets(0.000001, 4, 10),
		Help:    "Time that the scheduler has taken to look for the jobs that run next.",
	})
	return a
}

// OnDecision returns the function that measures decisions of the scheduler; nil: there is no
// remote API.
func (a *RemoteAPI) OnDecision() func(time.Duration) {
	if a.decisionTimes == nil {
		return nil
	}
	return func(took time.Duration) { a.decisionTimes.Observe(took.Seconds()) }
}

// Events returns the feed for the tree. Without the remote API it keeps nothing: the socket has events, too.
func (a *RemoteAPI) Events() events.Feed {
	if a.feed == nil {
		return events.Discard{}
	}
	return a.feed
}

// WithTimes returns files whose operations are measured; the same files without the remote API.
func (a *RemoteAPI) WithTimes(files store.Files) store.Files {
	if a.diskTimes == nil {
		return files
	}
	return &timedFiles{files, a.diskTimes}
}

// AddCollectors adds metrics to those of /metrics, until the server is open.
func (a *RemoteAPI) AddCollectors(more ...prometheus.Collector) {
	a.collectors = append(a.collectors, more...)
}

// open starts the server. If the address is the default and another program uses it, the daemon
// runs without the remote API.
func (a *RemoteAPI) open(env *kit.Env, luxi func() *actor.PID, output rapi.OpenOutput) error {
	if a.feed == nil {
		return nil
	}
	c := a.config.Rapi
	secure, err := a.certificate(env.Log(), c.TLS)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.Address)
	if errors.Is(err, syscall.EADDRINUSE) && !c.AddressGiven {
		env.Log().WithField("address", c.Address).
			Warn("remote API not started: its default address is in use; choose another with --rapi-address, or none")
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", settings.RapiAddressFlag, err)
	}
	pages, err := console.New(console.Config{
		Log:      env.Log(),
		Queue:    rapi.NewForwardingPool(rapi.Gateway{System: env.System(), PID: luxi}, a.Table),
		Output:   output,
		Logins:   a.sharedLogins(env.Log()),
		Commands: a.commands(),
		Version:  buildinfo.Read().Short(),
		Port:     listener.Addr().(*net.TCPAddr).Port,
		Table:    a.Table,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	api, err := rapi.New(rapi.Config{
		Ganeti:                a.config.Ganeti.Enabled,
		Console:               pages,
		Table:                 a.Table,
		Log:                   env.Log(),
		Listener:              listener,
		Luxi:                  rapi.NewPool(rapi.Gateway{System: env.System(), PID: luxi}, a.Table),
		Output:                output,
		Feed:                  a.feed,
		TLS:                   secure,
		Logins:                a.sharedLogins(env.Log()),
		Hosts:                 a.config.RapiHosts(),
		RequireAuthentication: c.RequireAuthentication,
		Commands:              a.commands(),
		Mailboxes:             env.Mailboxes,
		DeadLetters:           env.DeadLetters,
		Collectors:            append(a.collectors, a.diskTimes, a.decisionTimes, a.unlocked, BuildInfo()),
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	a.server, a.console = serve(api, env.Log(), "remote API: server failed; no more requests are answered"), pages
	url := consoleURL(a.config, listener.Addr(), secure != nil)
	a.consoleURL.Store(&url)
	env.Log().WithFields(logrus.Fields{"address": listener.Addr().String(), "tls": secure != nil}).Info("remote API started")
	return nil
}

// commands are those that users of the users file may submit. Users with as= may not where the daemon runs all commands as its own user.
func (a *RemoteAPI) commands() login.Commands {
	return login.Commands{OfAdmins: a.config.Rapi.AllowCommands, AsAccounts: !a.config.RunAs.Policy.AsDaemon}
}

// sharedLogins are the logins of all servers that show jobs. They are the users of the remote API.
func (a *RemoteAPI) sharedLogins(log *logrus.Logger) *login.Logins {
	if a.logins == nil {
		a.logins = login.New(a.config.Rapi.Users, log)
		if a.accounts != nil {
			a.logins.UseAccounts(a.accounts.FindAccount)
		}
	}
	return a.logins
}

// certificate loads the certificate for a server with this value of its setting of TLS, and creates it first if lockstepd makes
// it; nil without TLS.
func (a *RemoteAPI) certificate(log *logrus.Logger, use string) (*tls.Config, error) {
	c := a.config.Rapi
	if use != settings.TLSOn {
		return nil, nil
	}
	if c.GeneratedKey {
		made, err := rapi.EnsureCertificate(c.Certificate, c.Key, a.config.LocalHosts(a.config.Rapi.Address), time.Now())
		if err != nil {
			return nil, fmt.Errorf("make a certificate for the remote API: %w", err)
		}
		if made {
			log.WithField("path", c.Certificate).Info("remote API: self-signed certificate created")
		}
	}
	secure, err := rapi.TLSConfig(c.Certificate, c.Key)
	if err != nil {
		return nil, fmt.Errorf("rapi-cert: %w", err)
	}
	log.WithField("sha256", rapi.Fingerprint(secure)).Info("remote API: certificate loaded")
	return secure, nil
}

// consoleURL is the address by which people open the console of this node: that of loopback if the server listens there or
// everywhere, otherwise the configured host.
func consoleURL(c settings.Config, listening net.Addr, secure bool) string {
	host, _, err := net.SplitHostPort(c.Rapi.Address)
	_, port, _ := net.SplitHostPort(listening.String()) // it is an address with a port
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		host = c.NodeName
	}
	scheme := "http"
	if secure {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + rapi.ConsolePath
}

// ConsoleAddress is the address of the console; "": there is none yet.
func (a *RemoteAPI) ConsoleAddress() string {
	if url := a.consoleURL.Load(); url != nil {
		return *url
	}
	return ""
}

// stop accepts no more requests. Streams of the console end.
func (a *RemoteAPI) stop() {
	if a.console != nil {
		a.console.Stop()
	}
	a.server.stop()
}

// OnUnlocked returns a function that counts and logs changes of the configuration without locks. A client may make thousands a
// second: the log has one line a second with the latest of them, the history of the configuration has all that were done.
func (a *RemoteAPI) OnUnlocked(log *logrus.Logger) func(clusterconfig.Unlocked) {
	lines := ratelog.New(log, logrus.WarnLevel, "a client changes objects of the configuration without their locks", "done", "refused")
	return func(u clusterconfig.Unlocked) {
		a.unlocked.WithLabelValues(strconv.FormatBool(u.Refused)).Inc()
		outcome := "done"
		if u.Refused {
			outcome = "refused"
		}
		lines.Record(outcome, logrus.Fields{"method": u.Method, "job": u.Job, "pid": u.PID, "objects": u.Objects})
	}
}
