package rapi

import (
	"net/http"
	"net/url"
	"strings"

	"lockstep/edge/tlsserver"
)

// checkOrigin refuses what a web page of another site makes a browser send. A page whose
// name is made to lead to this address (DNS rebinding) sends that name as Host; other
// pages send an Origin that is not the Host. The error is nil if the request is neither.
func (s *Server) checkOrigin(r *http.Request) error {
	if err := tlsserver.CheckHost("The remote API", s.config.Hosts, r); err != nil {
		return newFailure(http.StatusForbidden, "%s", err)
	}
	for _, origin := range r.Header.Values("Origin") {
		if origin == "null" && r.Header.Get("Sec-Fetch-Site") == "same-origin" {
			continue // a page of this server that sends no referrer; pages cannot set this header
		}
		if u, err := url.Parse(origin); err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
			return newFailure(http.StatusForbidden, "Pages of '%s' may not use the remote API", tlsserver.Truncated(origin))
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

// crossOrigin refuses what a browser says to come from another site.
var crossOrigin = http.NewCrossOriginProtection()
