package settings

import (
	"flag"
	"fmt"
	"strings"

	"lockstep/cmd/internal/places"
)

// applyUser sets the defaults of the daemon of a user without root: directories of the user, and
// no address to listen on. given are the names of the settings that the operator has chosen. A
// chosen data directory makes it a daemon like the system's.
func (c *Config) applyUser(given map[string]bool, environment places.Environment, flags *flag.FlagSet) error {
	if c.Ganeti.Enabled || given["data-dir"] || !environment.UserMode() {
		return nil
	}
	dirs, err := environment.User()
	if err != nil {
		return fmt.Errorf("data-dir: %w, so there is no directory for the queue of user %d: set data-dir, or set HOME", err, environment.UID)
	}
	c.DataDir = dirs.Data
	if !given["log-dir"] {
		c.LogDir = dirs.Log
	}
	if !given["run-dir"] {
		c.RunDir = dirs.Run
		if !given["socket-dir"] {
			c.SocketDir = dirs.Sockets
		}
	}
	flags.VisitAll(func(f *flag.Flag) {
		if strings.HasSuffix(f.Name, "-address") && !given[f.Name] {
			err = f.Value.Set("") // other users of the machine could connect
		}
	})
	return err
}
