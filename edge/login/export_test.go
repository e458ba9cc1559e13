package login

import (
	"io/fs"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/edge/admission"
)

// UsersFile is the users file, which is checked for changes at each use.
type UsersFile struct{ file *usersFile }

func NewUsersFile(path string, log *logrus.Logger) UsersFile {
	return UsersFile{newUsersFile(path, log)}
}

func (u UsersFile) Knows(name, password string) bool {
	u.file.checkedAt = time.Time{}
	_, ok := u.file.current().Check(name, password)
	return ok
}

// FailOnce makes the next read fail.
func (u UsersFile) FailOnce(err error) {
	u.file.readFile = func(string) ([]byte, fs.FileMode, error) {
		u.file.readFile = readLimited
		return nil, 0, err
	}
}

// Throttle decides which logins are checked.
type Throttle struct{ *throttle }

// Bounds of the cost of failed logins.
const (
	FreeFailures     = freeFailures
	FreeNameFailures = freeNameFailures
	PauseFirst       = pauseFirst
	PauseMax         = pauseMax
	NamePause        = namePause
	ForgetAfter      = forgetAfter
)

func NewThrottle(limit int) Throttle { return Throttle{newThrottle(limit)} }

// Login attempts a login. It returns 0 if the login was checked, or how long its check has to wait.
func (t Throttle) Login(address, name string, right bool, now time.Time) (wait time.Duration) {
	a := newAttempt(admission.Address(address), name)
	if wait = t.wait(a, now); wait == 0 && !right {
		t.recordFailure(a, now)
	}
	return wait
}

// Size is the number of entries that the throttle remembers.
func (t Throttle) Size() int { return max(len(t.counters), t.byLastUse.Len()) }
