package rapi

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// checkOrigin refuses what a web page of another site makes a browser send. A page whose
// name is made to lead to this address (DNS rebinding) sends that name as Host; other
// pages send an Origin that is not the Host. The error is nil if the request is neither.
func (s *Server) checkOrigin(r *http.Request) error {
	if err := CheckHost("The remote API", s.config.Hosts, r); err != nil {
		return err
	}
	for _, origin := range r.Header.Values("Origin") {
		if origin == "null" && r.Header.Get("Sec-Fetch-Site") == "same-origin" {
			continue // a page of this server that sends no referrer; pages cannot set this header
		}
		if u, err := url.Parse(origin); err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
			return newFailure(http.StatusForbidden, "Pages of '%s' may not use the remote API", truncated(origin))
		}
	}
	if !isReadOnly(r.Method) {
		return checkSite(r)
	}
	return nil
}

// checkSite refuses a request that a browser says to come from a page of another site, whatever its method.
func checkSite(r *http.Request) error {
	if crossOrigin.Check(&http.Request{Method: http.MethodPost, Header: r.Header, Host: r.Host, URL: r.URL}) != nil {
		return newFailure(http.StatusForbidden, "A page of another site may not use the remote API")
	}
	return nil
}

// CheckHost refuses a request that calls a server by another name than the hosts; nil: any name.
func CheckHost(server string, hosts []string, r *http.Request) error {
	if hosts == nil || r.Host == "" || slices.Contains(hosts, hostName(r.Host)) {
		return nil
	}
	return newFailure(http.StatusForbidden, "%s is not at the host '%s'; say one of: %s", server, truncated(r.Host), strings.Join(hosts, ", "))
}

// crossOrigin refuses what a browser says to come from another site.
var crossOrigin = http.NewCrossOriginProtection()

// hostName is a Host without its port, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}
