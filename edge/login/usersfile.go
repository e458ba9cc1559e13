package login

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	usersCheckInterval = time.Second // least time between two checks of the file
	usersMax           = 1 << 20     // bytes of the file
)

// usersFile caches the users file.
type usersFile struct {
	path string
	log  *logrus.Logger

	mu          sync.Mutex
	checkedAt   time.Time
	signature   string // fileSignature at the last read
	lastFailure string // error of the last read; empty: none
	users       Users

	readFile func(path string) ([]byte, fs.FileMode, error)
}

func newUsersFile(path string, log *logrus.Logger) *usersFile {
	return &usersFile{path: path, log: log, users: Users{}, signature: "not yet", readFile: readLimited}
}

// current returns the current users. It looks at the file every usersCheckInterval, and reads it again if it has changed.
func (f *usersFile) current() Users {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.checkedAt) < usersCheckInterval && !f.checkedAt.IsZero() {
		return f.users
	}
	f.checkedAt = now
	signature := fileSignature(f.path)
	if signature == f.signature {
		return f.users
	}
	if f.reload() {
		f.signature = signature
	}
	return f.users
}

// failure is why the file could not be read at the last attempt; nil: it was read, or is missing.
func (f *usersFile) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lastFailure == "" {
		return nil
	}
	return errors.New(f.lastFailure)
}

// fileSignature changes when the file does: it has time, size and mode, or the error.
func fileSignature(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %d %s", info.ModTime().UnixNano(), info.Size(), info.Mode())
}

// reload reads the file. A missing file means no users. If the file cannot be read, the users
// stay as they are and the result is false: the next check reads it again.
func (f *usersFile) reload() bool {
	entry := f.log.WithField("path", f.path)
	data, mode, err := f.readFile(f.path)
	problem := f.lastFailure
	f.lastFailure = ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		entry.Info("users file missing; all logins to the remote API fail")
		f.users = Users{}
		return true
	case err != nil:
		if f.lastFailure = err.Error(); f.lastFailure != problem {
			entry.WithField("err", err).Error("users file unreadable; the users read before stay valid")
		}
		return false
	}
	users, mistakes := ParseUsers(data)
	f.users = users
	for _, m := range mistakes {
		entry.WithField("err", m.String()).Error("users file: invalid line ignored")
	}
	if mode.Perm()&0o007 != 0 {
		entry.WithField("mode", mode.Perm()).Warn("users file is readable by all users of this machine; set its mode to 0640 or less")
	}
	entry.WithField("users", len(users)).Info("users file loaded")
	return true
}

func readLimited(path string) (data []byte, mode fs.FileMode, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	data, err = io.ReadAll(io.LimitReader(file, usersMax+1))
	if err == nil && len(data) > usersMax {
		err = fmt.Errorf("it is longer than %d bytes", usersMax)
	}
	return data, info.Mode(), err
}
