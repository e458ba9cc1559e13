package faces

import (
	"context"

	"lockstep/cmd/internal/accounts"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/ownership"
	"lockstep/edge/confd"
)

// confdFacePort is where ganeti-confd listens.
var confdFacePort = facePort{network: "udp", service: confdName, port: 1814}

// confdOwners are the rules for the files of ganeti-confd: its user has its log and its pid file only.
func confdOwners(c settings.Config) (ownership.Rules, error) {
	return accounts.Resolve(ownership.Accounts{Daemon: c.Ganeti.ConfdUser})
}

// runConfd is ganeti-confd: it answers queries from the node's config.data, whoever writes that. A node without the file gives errors as
// answers.
func runConfd(stop context.Context, c settings.Config, o options, ready func()) error {
	log := o.newLog(c)
	server, err := confd.Listen(confd.Config{Log: log, Address: o.listen.address(), DataDir: c.DataDir})
	if err != nil {
		return err
	}
	log.WithField("address", server.Address().String()).Info("ConfD answers queries about the configuration")
	follower := confd.Follow(c.DataDir, log, server.Use)
	ready()
	<-stop.Done()
	follower.Close()
	return server.Close()
}
