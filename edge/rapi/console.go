package rapi

import (
	"io"
	"net/http"
	"strings"
	"time"
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
	limitBodyOnly(w, r)
	s.config.Console.ServeHTTP(w, r)
	return true
}

// limitBodyOnly ends the read deadline once the body has been read: it must not end an answer that takes longer, as that to an action
// on many jobs or a stream of events does.
func limitBodyOnly(w http.ResponseWriter, r *http.Request) {
	end := func() { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		end()
		return
	}
	r.Body = &observedBody{r.Body, end}
}

// observedBody calls atEnd when the whole body has been read.
type observedBody struct {
	io.ReadCloser
	atEnd func()
}

// Read is part of io.Reader.
func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.atEnd()
	}
	return n, err
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
