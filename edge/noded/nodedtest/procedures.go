package nodedtest

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"lockstep/core/config/ssconf"
	"lockstep/core/noded"
)

// dataDir is the data directory of a stock node.
const dataDir = "/var/lib/ganeti/"

// ConfigPath is the path of the configuration.
const ConfigPath = dataDir + "config.data"

// SsconfPath returns the path of the file of a key.
func SsconfPath(key string) string { return ssconfPath(key) }

func ssconfPath(key string) string { return dataDir + "ssconf_" + key }

// isAllowed reports whether upload_file_single accepts a path. The real daemon accepts more paths (noded.md 5).
func isAllowed(path string) bool {
	return slices.Contains([]string{ConfigPath, dataDir + "hmac.key", dataDir + "rapi/users"}, path)
}

// isUser and isGroup report whether the daemon knows a name (noded.md 4).
func isUser(name string) bool {
	return slices.Contains([]string{"gnt-masterd", "gnt-confd", "gnt-rapi", "root"}, name)
}

func isGroup(name string) bool {
	return isUser(name) || slices.Contains([]string{"gnt-luxid", "gnt-daemons", "gnt-admin"}, name)
}

// dispatch executes a procedure. An unknown one closes the connection. d.mu is held.
func (d *Daemon) dispatch(p noded.Procedure, body []byte) (any, error) {
	switch p {
	case noded.UploadFile:
		return nil, d.upload(body)
	case noded.WriteSsconf:
		return nil, d.writeSsconf(body)
	case noded.NodeVerify:
		return d.nodeVerify(body)
	case noded.NodeInfo, noded.AllInstancesInfo, noded.ConsoleInfo, noded.ExportList:
		if result, says := d.says[p]; says {
			return json.RawMessage(result), nil
		}
		return nil, executing(errors.New(""))
	case noded.UpdateQueueFile:
		return nil, d.updateQueueFile(body)
	case noded.RenameQueueFiles:
		return d.renameQueueFiles(body)
	case noded.SetDrainFlag:
		d.setFlag(QueueDir+"drain", string(body) == "[true]", "")
		return nil, nil
	case noded.SetWatcherPause:
		until := strings.Trim(string(body), "[]")
		d.setFlag(dataDir+"watcher.pause", until != "null", until+"\n")
		return nil, nil
	case noded.MasterNodeName:
		return strings.TrimSpace(d.files[ssconfPath("master_node")]), nil
	}
	abort() // the real daemon closes the connection
	return nil, nil
}

// QueueDir is the queue directory of a stock node.
const QueueDir = dataDir + "queue/"

// isQueuePath reports whether a path is below the queue directory (noded.md 5).
func isQueuePath(path string) bool {
	return strings.HasPrefix(path, QueueDir) && !strings.Contains(path, "..")
}

// updateQueueFile executes jobqueue_update. Directories of the archive do not exist before a file was renamed into them.
func (d *Daemon) updateQueueFile(body []byte) error {
	f, err := noded.DecodeQueueFile(body)
	switch {
	case err != nil:
		return executing(err)
	case !isQueuePath(f.Path):
		return fmt.Errorf("Passed job queue file '%s' does not belong to the queue directory", f.Path)
	case path.Dir(f.Path)+"/" != QueueDir && !d.hasDir(path.Dir(f.Path)):
		return executing(fmt.Errorf("No such file or directory: '%s'", f.Path))
	}
	d.files[f.Path] = string(f.Content)
	return nil
}

func (d *Daemon) hasDir(dir string) bool {
	for file := range d.files {
		if strings.HasPrefix(file, dir+"/") {
			return true
		}
	}
	return false
}

// renameQueueFiles executes jobqueue_rename. It stops at the first failure.
func (d *Daemon) renameQueueFiles(body []byte) (any, error) {
	renames, err := noded.DecodeRenames(body)
	if err != nil {
		return nil, executing(err)
	}
	for _, r := range renames {
		content, exists := d.files[r[0]]
		if !isQueuePath(r[0]) || !isQueuePath(r[1]) {
			return nil, fmt.Errorf("Passed job queue file '%s' does not belong to the queue directory", r[0])
		}
		if !exists {
			return nil, executing(fmt.Errorf("No such file or directory: '%s'", r[0]))
		}
		delete(d.files, r[0])
		d.files[r[1]] = content
	}
	return make([]any, len(renames)), nil
}

func (d *Daemon) setFlag(file string, exists bool, content string) {
	if !exists {
		delete(d.files, file)
		return
	}
	d.files[file] = content
}

func executing(err error) error { return fmt.Errorf("Error while executing backend function: %w", err) }

func (d *Daemon) upload(body []byte) error {
	f, err := noded.DecodeFile(body)
	switch {
	case err != nil:
		return executing(err)
	case !isAllowed(f.Path):
		return fmt.Errorf("Filename passed to UploadFile not in allowed upload targets: '%s'", f.Path)
	case !isUser(f.User) || !isGroup(f.Group):
		return executing(fmt.Errorf("Unknown Ganeti user/group %s/%s", f.User, f.Group))
	}
	d.files[f.Path] = string(f.Content)
	return nil
}

// writeSsconf stops at the first bad value. The real daemon also writes the keys before it.
func (d *Daemon) writeSsconf(body []byte) error {
	values, err := noded.DecodeSsconf(body)
	if err != nil {
		return executing(err)
	}
	for _, key := range ssconf.Keys() {
		lines, sent := values[key]
		if !sent {
			continue
		}
		content := strings.Join(lines, "\n")
		if content != "" && !strings.HasSuffix(content, "\n") {
			content += "\n"
		}
		if len(content) > noded.SsconfMax {
			return executing(fmt.Errorf("value of %s is too long", key))
		}
		d.files[ssconfPath(key)] = content
		delete(values, key)
	}
	for key := range values {
		return executing(fmt.Errorf("invalid ssconf key %s", key))
	}
	return nil
}

func (d *Daemon) nodeVerify(body []byte) (any, error) {
	v, err := noded.DecodeVerify(body)
	if err != nil {
		return nil, executing(err)
	}
	found := map[string]any{}
	if v.Files != nil {
		digests := map[string]string{}
		for _, path := range v.Files {
			if content, exists := d.files[path]; exists {
				sum := sha1.Sum([]byte(content))
				digests[path] = hex.EncodeToString(sum[:])
			}
		}
		found["filelist"] = digests
	}
	if v.Version {
		found["version"] = []any{3000000, "3.0.2"}
	}
	if v.Time {
		found["time"] = []int{1795327759, 500000}
	}
	if v.ClientCert {
		found["client-cert"] = []any{nil, d.server.Digest()}
	}
	return found, nil
}
