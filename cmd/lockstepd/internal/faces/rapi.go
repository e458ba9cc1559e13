package faces

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"net"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"lockstep/cmd/internal/accounts"
	"lockstep/cmd/lockstepd/internal/listeners"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/ownership"
	"lockstep/edge/admission"
	"lockstep/edge/login"
	"lockstep/edge/rapi"
	"lockstep/persistence"
)

// rapiPEM is Ganeti's file of certificate and key of the remote API, in the data directory.
const rapiPEM = "rapi.pem"

// rapiEndMax bounds the time for accepted requests at the end of ganeti-rapi. daemon-util kills the daemon after 30 seconds.
const rapiEndMax = 10 * time.Second

// rapiPort is where ganeti-rapi listens.
var rapiPort = facePort{network: "tcp", port: 5080}

// rapiOptions are the options that only ganeti-rapi has.
type rapiOptions struct {
	noSSL                 bool
	key, certificate      string // "": rapiPEM
	requireAuthentication bool
	clientsMax            uint // 0: the bound of lockstep's remote API
}

func (o *rapiOptions) flags(flags *flag.FlagSet) {
	flags.BoolVar(&o.noSSL, "no-ssl", false, "speak HTTP without TLS")
	for _, name := range []string{"K", "ssl-key"} {
		flags.StringVar(&o.key, name, "", "file of the key of the certificate")
	}
	for _, name := range []string{"C", "ssl-cert"} {
		flags.StringVar(&o.certificate, name, "", "file of the certificate")
	}
	flags.BoolVar(&o.requireAuthentication, "require-authentication", false, "answer nothing about jobs without a login")
	flags.UintVar(&o.clientsMax, "max-clients", 0, "maximum number of connections")
}

func (o *rapiOptions) check() error {
	if (o.key == "") != (o.certificate == "") {
		return errors.New("--ssl-key and --ssl-cert: set both or none")
	}
	return nil
}

// rapiOwners are the rules for the files of ganeti-rapi: its user has nothing of the queue.
func rapiOwners(c settings.Config) (ownership.Rules, error) {
	return accounts.Resolve(ownership.Accounts{Daemon: c.Ganeti.RapiUser})
}

// runRapi is ganeti-rapi: the remote API over the socket of the queue, until stop ends.
func runRapi(stop context.Context, c settings.Config, o options, ready func()) error {
	log := o.newLog(c)
	secure, err := rapiTLS(c, o.rapi)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen.address())
	if err != nil {
		return err
	}
	c.Rapi.Address = listener.Addr().String()
	var hosts []string
	if secure == nil {
		hosts = c.RapiHosts()
	}
	table := admission.NewTable()
	server, err := rapi.New(rapi.Config{
		Ganeti:                true,
		Log:                   log,
		Listener:              listener,
		Table:                 table,
		Luxi:                  rapi.NewRemote(persistence.SocketPath(c.RunDir, persistence.LuxiSocket), table),
		TLS:                   secure,
		Logins:                login.New(c.Rapi.Users, log),
		Hosts:                 hosts,
		RequireAuthentication: o.rapi.requireAuthentication,
		Commands:              login.Commands{OfAdmins: c.Rapi.AllowCommands},
		OverSocket:            true,
		Connections:           int(o.rapi.clientsMax), //nolint:gosec // a bound of connections
		Collectors:            []prometheus.Collector{listeners.BuildInfo()},
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return serveFace(stop, server, log, rapiEndMax, func() {
		log.WithFields(logrus.Fields{"address": c.Rapi.Address, "tls": secure != nil}).Info("remote API started")
		ready()
	})
}

// rapiTLS is the certificate with its key; nil without TLS.
func rapiTLS(c settings.Config, o rapiOptions) (*tls.Config, error) {
	if o.noSSL {
		return nil, nil
	}
	if o.certificate == "" {
		o.certificate = filepath.Join(c.DataDir, rapiPEM)
		o.key = o.certificate
	}
	return rapi.TLSConfig(o.certificate, o.key)
}
