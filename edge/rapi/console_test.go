package rapi_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"lockstep/edge/admission"
	"lockstep/edge/rapi"
	"lockstep/edge/tlsserver"
)

// deadlineRecorder records the read deadline of its connection.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	read time.Time
}

func (w *deadlineRecorder) SetReadDeadline(t time.Time) error { w.read = t; return nil }
func (w *deadlineRecorder) SetWriteDeadline(time.Time) error  { return nil }

// An answer may take longer than the time that a client has for its form. If the read deadline passes meanwhile, net/http cancels the request.
func TestTheTimeForABodyDoesNotEndAPage(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
		served := false
		s, err := rapi.New(rapi.Config{Log: logrus.New(), Table: admission.NewTable(), Console: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			served = true
			if method == http.MethodPost {
				require.NotZero(t, w.read, "a client that does not send its form is not waited for")
				body, err := tlsserver.RequestOf(r.Context()).ReadBody(r, 1000)
				require.NoError(t, err)
				require.Equal(t, "id=7", string(body))
			}
			require.Zero(t, w.read)
		})})
		require.NoError(t, err)
		form := ""
		if method == http.MethodPost {
			form = url.Values{"id": {"7"}}.Encode()
		}
		r := httptest.NewRequest(method, "http://localhost/ui/jobs/apply", strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://localhost")
		s.ServeHTTP(w, r)
		require.True(t, served, w.Body.String())
	}
}
