package tlsserver

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// RemoteHost is the address of the client of a request, without its port.
func RemoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// CheckHost refuses a request that calls a server by another name than the hosts, which are in lower case; nil: any name. The error is a
// text for the client; server is the server's name at the start of it.
func CheckHost(server string, hosts []string, r *http.Request) error {
	if hosts == nil || r.Host == "" || slices.Contains(hosts, hostName(r.Host)) {
		return nil
	}
	return fmt.Errorf("%s is not at the host '%s'; say one of: %s", server, Truncated(r.Host), strings.Join(hosts, ", "))
}

// hostName is a Host without its port, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// textMax is the number of bytes of a client's text that logs and errors quote.
const textMax = 100

// Truncated is a text that a client has sent, as logs and errors quote it: a long one is cut.
func Truncated(text string) string {
	if len(text) > textMax {
		return strings.ToValidUTF8(text[:textMax], "") + "..."
	}
	return text
}
