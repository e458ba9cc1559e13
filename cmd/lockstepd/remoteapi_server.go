package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"lockstep/actors/events"
	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/cmd/internal/buildinfo"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/edge/admission"
	"lockstep/edge/console"
	"lockstep/edge/login"
	"lockstep/edge/rapi"
)

// remoteAPI is the daemon's remote API. If it is off, all methods do nothing.
type remoteAPI struct {
	config        settings.Config
	table         *admission.Table // the budget of all listeners
	feed          *rapi.Feed       // nil: there is no remote API
	diskTimes     *prometheus.HistogramVec
	decisionTimes prometheus.Histogram
	unlocked      *prometheus.CounterVec // of unlockedChanges
	collectors    []prometheus.Collector
	logins        *login.Logins          // nil: not used yet
	server        *rapi.Server           // nil: not open
	console       *console.Console       // nil: not open
	consoleURL    atomic.Pointer[string] // address of the console; nil: not open
	done          chan struct{}          // closed when the server has stopped
}

// buildInfo is a metric whose labels say which build the daemon is.
func buildInfo(build buildinfo.Build) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "lockstep_build_info", Help: "Always 1; the labels name the daemon's build.",
		ConstLabels: prometheus.Labels{"version": build.Version, "revision": build.Revision, "goversion": build.Go}})
	info.Set(1)
	return info
}

func newRemoteAPI(c settings.Config) *remoteAPI {
	a := &remoteAPI{config: c, table: admission.NewTable(), unlocked: unlockedCounter()}
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

// onDecision returns the function that measures decisions of the scheduler; nil: there is no
// remote API.
func (a *remoteAPI) onDecision() func(time.Duration) {
	if a.decisionTimes == nil {
		return nil
	}
	return func(took time.Duration) { a.decisionTimes.Observe(took.Seconds()) }
}

// events returns the feed for the tree. Without the remote API it keeps nothing: the socket has events, too.
func (a *remoteAPI) events() events.Feed {
	if a.feed == nil {
		return events.Discard{}
	}
	return a.feed
}

// withTimes returns files whose operations are measured.
func (a *remoteAPI) withTimes(files store.Files) store.Files {
	if a.diskTimes == nil {
		return files
	}
	return &timedFiles{files, a.diskTimes}
}

// open starts the server. If the address is the default and another program uses it, the daemon
// runs without the remote API.
func (a *remoteAPI) open(env *kit.Env, luxi func() *actor.PID) error {
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
		Log:           env.Log(),
		Queue:         rapi.NewForwardingPool(rapi.Gateway{System: env.System(), PID: luxi}, a.table),
		Logins:        a.sharedLogins(env.Log()),
		AllowCommands: c.AllowCommands,
		Version:       buildinfo.Read().Short(),
		Port:          listener.Addr().(*net.TCPAddr).Port,
		Table:         a.table,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server, err := rapi.New(rapi.Config{
		Ganeti:                a.config.Ganeti.Enabled,
		Console:               pages,
		Table:                 a.table,
		Log:                   env.Log(),
		Listener:              listener,
		Luxi:                  rapi.NewPool(rapi.Gateway{System: env.System(), PID: luxi}, a.table),
		Feed:                  a.feed,
		TLS:                   secure,
		Logins:                a.sharedLogins(env.Log()),
		Hosts:                 a.config.RapiHosts(),
		RequireAuthentication: c.RequireAuthentication,
		AllowCommands:         c.AllowCommands,
		Mailboxes:             env.Mailboxes,
		DeadLetters:           env.DeadLetters,
		Collectors:            append(a.collectors, a.diskTimes, a.decisionTimes, a.unlocked, buildInfo(buildinfo.Read())),
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	a.server, a.console, a.done = server, pages, make(chan struct{})
	url := consoleURL(a.config, listener.Addr(), secure != nil)
	a.consoleURL.Store(&url)
	go func() {
		if err := server.Serve(); err != nil {
			env.Log().WithField("err", err).Error("remote API: server failed; no more requests are answered")
		}
		close(a.done)
	}()
	env.Log().WithFields(logrus.Fields{"address": listener.Addr().String(), "tls": secure != nil}).Info("remote API started")
	return nil
}

// sharedLogins are the logins of all servers that show jobs. They are the users of the remote API.
func (a *remoteAPI) sharedLogins(log *logrus.Logger) *login.Logins {
	if a.logins == nil {
		a.logins = login.New(a.config.Rapi.Users, log)
	}
	return a.logins
}

// certificate loads the certificate for a server with this value of its setting of TLS, and creates it first if lockstepd makes
// it; nil without TLS.
func (a *remoteAPI) certificate(log *logrus.Logger, use string) (*tls.Config, error) {
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

// consoleAddress is the address of the console; "": there is none yet.
func (a *remoteAPI) consoleAddress() string {
	if url := a.consoleURL.Load(); url != nil {
		return *url
	}
	return ""
}

// stop accepts no more requests. wait returns when the accepted ones are answered, or at end.
func (a *remoteAPI) stop() {
	if a.server != nil {
		a.console.Stop()
		a.server.Stop()
	}
}

func (a *remoteAPI) wait(end time.Time) {
	if a.server == nil {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	_ = a.server.Shutdown(ctx) // a client that is cut off sees the end of its connection
	<-a.done
}

// timedFiles measures the operations of a disk.
type timedFiles struct {
	store.Files
	times *prometheus.HistogramVec
}

func (f *timedFiles) observe(operation string, begin time.Time, err error) {
	failed := "no"
	if err != nil {
		failed = "yes"
	}
	f.times.WithLabelValues(operation, failed).Observe(time.Since(begin).Seconds())
}

func (f *timedFiles) Replace(op, path string, data ...[]byte) (err error) {
	defer func(begin time.Time) { f.observe("replace", begin, err) }(time.Now())
	return f.Files.Replace(op, path, data...)
}

func (f *timedFiles) ReplaceUnsynced(op, path string, data ...[]byte) (err error) {
	defer func(begin time.Time) { f.observe("replace-unsynced", begin, err) }(time.Now())
	return f.Files.ReplaceUnsynced(op, path, data...)
}

func (f *timedFiles) SyncDir(op, dir string) (err error) {
	defer func(begin time.Time) { f.observe("sync-dir", begin, err) }(time.Now())
	return f.Files.SyncDir(op, dir)
}

func (f *timedFiles) Append(op, path string, data []byte) (err error) {
	defer func(begin time.Time) { f.observe("append", begin, err) }(time.Now())
	return f.Files.Append(op, path, data)
}

func (f *timedFiles) AppendDurable(op, path string, data []byte) (err error) {
	defer func(begin time.Time) { f.observe("append-durable", begin, err) }(time.Now())
	return f.Files.AppendDurable(op, path, data)
}

func (f *timedFiles) Read(op, path string) (data []byte, err error) {
	defer func(begin time.Time) { f.observe("read", begin, err) }(time.Now())
	return f.Files.Read(op, path)
}

func (f *timedFiles) Rename(op, from, to string) (err error) {
	defer func(begin time.Time) { f.observe("rename", begin, err) }(time.Now())
	return f.Files.Rename(op, from, to)
}
