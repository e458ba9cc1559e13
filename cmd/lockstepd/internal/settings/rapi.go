package settings

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// RapiConfig are the settings of the remote API.
type RapiConfig struct {
	Address               string // "": off
	Users                 string
	Certificate, Key      string
	TLS                   string
	RequireAuthentication bool
	AllowCommands         bool
	Insecure              bool

	AddressGiven bool // the address was set, even if to the default
	GeneratedKey bool // lockstepd makes certificate and key
}

const RapiAddressFlag = "rapi-address"

// Values of rapi-tls.
const (
	tlsAuto = "auto"
	TLSOn   = "on"
	tlsOff  = "off"
)

func (r *RapiConfig) flags(flags *flag.FlagSet) {
	flags.StringVar(&r.Address, RapiAddressFlag, "127.0.0.1:5080", "`address` and port of the remote API; empty: no remote API")
	flags.StringVar(&r.Users, "rapi-users", "", "`file` of the users of the remote API (default: rapi/users in data-dir)")
	flags.StringVar(&r.Certificate, "rapi-cert", "",
		"`file` of the remote API's certificate (default: lockstepd makes one, in rapi in data-dir)")
	flags.StringVar(&r.Key, "rapi-key", "", "`file` of the certificate's key")
	flags.StringVar(&r.TLS, "rapi-tls", tlsAuto,
		"`when` the remote API speaks TLS: on, off, or auto, which is off on loopback. Ganeti's own client needs it on")
	flags.BoolVar(&r.RequireAuthentication, "rapi-require-authentication", true,
		"show nothing about jobs over the remote API without a login; =false lets every client read jobs and rules")
	flags.BoolVar(&r.AllowCommands, "rapi-allow-commands", false,
		"accept OP_RUN_COMMAND of users with the option write and without as=ACCOUNT: they can then run any command as the daemon's user")
	flags.BoolVar(&r.Insecure, "rapi-insecure", false,
		"let the remote API listen beyond loopback without TLS or without required authentication")
}

// RapiHosts are the names, in lower case, by which a request may call the remote API; nil: any. A
// server on loopback permits few names. Otherwise a web page whose name resolves to this machine
// could use the server through a local user's browser.
func (c *Config) RapiHosts() []string {
	if !c.Rapi.loopback() {
		return nil
	}
	return lowerCase(c.LocalHosts(c.Rapi.Address))
}

// MondHosts are the names by which clients may address MonD, see RapiHosts; nil: any.
func (c *Config) MondHosts() []string {
	if !c.Mond.loopback() {
		return nil
	}
	return lowerCase(c.LocalHosts(c.Mond.Address))
}

// LocalHosts are the names of this machine for a server at an address.
func (c *Config) LocalHosts(address string) []string {
	hosts := []string{c.NodeName, "localhost", "127.0.0.1", "::1"}
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && host != "" && (ip == nil || !ip.IsUnspecified()) {
		hosts = append(hosts, host)
	}
	return hosts
}

func lowerCase(hosts []string) []string {
	for i, host := range hosts {
		hosts[i] = strings.ToLower(host)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// normalize sets the users file and the certificate where none is set, and decides about TLS where that is left to the daemon.
func (r *RapiConfig) normalize(dataDir string) {
	if r.Users == "" {
		r.Users = filepath.Join(dataDir, "rapi", "users")
	}
	if r.Certificate == "" && r.Key == "" {
		r.GeneratedKey = true
		r.Certificate, r.Key = filepath.Join(dataDir, "rapi", "cert.pem"), filepath.Join(dataDir, "rapi", "key.pem")
	}
	if r.TLS == tlsAuto {
		r.TLS = TLSOn
		if r.loopback() {
			r.TLS = tlsOff
		}
	}
}

// loopback reports whether only this machine can connect. A name other than localhost may resolve
// to any address.
func (r *RapiConfig) loopback() bool {
	host, _, err := net.SplitHostPort(r.Address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// validate refuses an address that other machines can reach without TLS and users.
func (r *RapiConfig) validate() error {
	if r.Address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(r.Address)
	if err != nil {
		return fmt.Errorf("%s: %q is not an address and a port, such as 127.0.0.1:5080", RapiAddressFlag, r.Address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n > 65535 {
		return fmt.Errorf("%s: %q is not a port", RapiAddressFlag, port)
	}
	switch {
	case r.TLS != TLSOn && r.TLS != tlsOff:
		return fmt.Errorf("rapi-tls: %q is not on, off or auto", r.TLS)
	case !r.GeneratedKey && (r.Certificate == "" || r.Key == ""):
		return errors.New("rapi-cert and rapi-key: set both or none")
	case r.loopback() || r.Insecure:
		return nil
	case r.TLS == tlsOff:
		return fmt.Errorf("%s: %s is open to other machines, and without TLS passwords could be intercepted: "+
			"leave out rapi-tls=off, listen on 127.0.0.1, or set rapi-insecure", RapiAddressFlag, r.Address)
	case !r.RequireAuthentication:
		return fmt.Errorf("%s: %s is open to other machines, and every client could read the jobs: "+
			"leave out rapi-require-authentication=false, listen on 127.0.0.1, or set rapi-insecure", RapiAddressFlag, r.Address)
	}
	return nil
}
