package rapi

import (
	"net/http"
	"strings"
)

// ConsolePath is where the console begins.
const ConsolePath = "/ui/"

// serveConsole passes requests for pages on to the console, and redirects a browser from the root. It reports whether it has
// answered. The console has its own logins and bounds.
func (s *Server) serveConsole(w *responseRecorder, r *http.Request) bool {
	if s.config.Console == nil {
		return false
	}
	if r.URL.Path == "/" {
		w.Header().Set("Vary", "Accept")
		if r.Method == http.MethodGet && wantsPage(r) {
			w.operation = "console"
			http.Redirect(w, r, ConsolePath, http.StatusFound)
			return true
		}
		return false
	}
	if r.URL.Path != "/ui" && !strings.HasPrefix(r.URL.Path, ConsolePath) {
		return false
	}
	w.operation = "console"
	if strings.HasSuffix(r.URL.Path, "/events") {
		w.operation = "console-events"
	}
	s.config.Console.ServeHTTP(w, r)
	return true
}

// wantsPage reports whether a client names text/html, as browsers do.
func wantsPage(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(accept, ",") {
			kind, _, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(kind), "text/html") {
				return true
			}
		}
	}
	return false
}
