package console

import (
	"net/http"

	"github.com/sirupsen/logrus"

	"lockstep/edge/tlsserver"
)

// change is page for what changes something: what it serves leaves one line in the log. The line has no error, which may quote what the
// user has sent. A user without the role for it is refused, without a line.
func (x *Console) change(serve func(*request) error) http.HandlerFunc {
	return x.page(func(q *request) error {
		q.about = logrus.Fields{}
		err := serve(q)
		fields := logrus.Fields{
			"user":    q.user.Who,
			"address": tlsserver.RemoteHost(q.Request),
			"request": q.Method + " " + q.URL.Path,
			"done":    q.done,
		}
		x.config.Log.WithFields(q.about).WithFields(fields).Info("console: change requested")
		return err
	})
}

// finish ends a change. done: it was made, and the queue has said so. The page that it leads to shows the notice.
func (q *request) finish(done bool, path string) error {
	q.done = done
	http.Redirect(q.w, q.Request, path, http.StatusSeeOther)
	return nil
}
