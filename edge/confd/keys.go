package confd

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/confd"
	"lockstep/core/paths"
)

const (
	// keyInterval is the pause between two looks at the files of the keys.
	keyInterval = time.Second
	// keyOverlap is how long a key is valid after another program has replaced it.
	keyOverlap = 10 * time.Minute
	// keyReadMax bounds the bytes that are read of a file.
	keyReadMax = 8 << 10
)

// keyFiles reads the files of the keys. It belongs to one goroutine.
type keyFiles struct {
	dir         string
	log         *logrus.Logger
	key, other  keyFile
	former      []byte    // the key before the present one; nil: there is none
	formerUntil time.Time // when former ends
	keys        *confd.Keys
	complained  string       // the last complaint
	level       logrus.Level // of messages that need no action
}

// keyFile is what one of the files of ConfD's keys was when it was read last, to see whether it has changed.
type keyFile struct {
	info    fs.FileInfo // nil: it was not there
	content []byte      // nil: there is none that can be a key
}

func newKeyFiles(dir string, log *logrus.Logger, quiet bool) *keyFiles {
	k := &keyFiles{dir: dir, log: log, level: logrus.InfoLevel}
	if quiet {
		k.level = logrus.DebugLevel
	}
	return k
}

// read looks at the files and returns the keys that are valid now. A key that was replaced stays valid for keyOverlap.
func (k *keyFiles) read(now time.Time) *confd.Keys {
	before := k.key.content
	changed := k.look(&k.key, paths.ConfdKeyPath, true)
	changed = k.look(&k.other, paths.ConfdOtherKeyPath, false) || changed
	if before != nil && string(before) != string(k.key.content) {
		k.former, k.formerUntil = before, now.Add(keyOverlap)
	}
	if k.former != nil && !now.Before(k.formerUntil) {
		k.former, changed = nil, true
	}
	if changed || k.keys == nil {
		k.keys = confd.NewKeys(k.key.content, k.other.content, k.former)
		k.log.WithField("keys", k.keys.Len()).Log(k.level, "configuration queries: keys loaded")
	}
	return k.keys
}

// look reads a file if it has changed, and reports whether its key is another one. The main key stays in force when its file is gone or
// cannot be read, which is logged; the other key does not.
func (k *keyFiles) look(f *keyFile, name string, isMain bool) (changed bool) {
	path := filepath.Join(k.dir, name)
	info, err := os.Stat(path)
	if err == nil && f.info != nil && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() {
		return false
	}
	var content []byte
	if err == nil {
		content, err = readKey(path)
	}
	switch {
	case err == nil:
		changed = string(content) != string(f.content)
		f.info, f.content = info, content
		if isMain {
			k.complained = ""
		}
		return changed
	case !isMain:
		changed = f.content != nil
		*f = keyFile{}
		return changed
	}
	f.info = nil
	if text := err.Error(); text != k.complained {
		k.complained = text
		log := k.log.WithFields(logrus.Fields{"path": path, "err": err})
		if f.content == nil && errors.Is(err, fs.ErrNotExist) {
			log.Log(k.level, "configuration queries: no key yet; queries are answered once the file is there (lockstep confd rotate-key makes it)")
		} else {
			log.Warn("configuration queries: key cannot be read; the keys in force stay")
		}
	}
	return false
}

func readKey(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, keyReadMax))
	if err != nil {
		return nil, err
	}
	return content, confd.CheckKey(content)
}

// watchKeys keeps the keys up to date until the server is closed.
func (s *Server) watchKeys(files *keyFiles) {
	for s.pause(keyInterval) {
		s.keys.Store(files.read(s.config.Now()))
	}
}
