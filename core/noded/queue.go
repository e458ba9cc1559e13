package noded

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"lockstep/core/rawjson"
)

// The procedures that copy the queue (noded.md 5). The node daemon holds the lock of its queue during each of the first three.
const (
	UpdateQueueFile  Procedure = "jobqueue_update"
	RenameQueueFiles Procedure = "jobqueue_rename"
	SetDrainFlag     Procedure = "jobqueue_set_drain_flag"
	SetWatcherPause  Procedure = "set_watcher_pause"
)

// DataDir is the data directory of a node with Ganeti's paths. Paths below the queue directory are written with slashes after it.
const DataDir = "/var/lib/ganeti/"

// QueueFile asks a node daemon to replace one file below the queue directory (jobqueue_update). The directory of the file must exist on
// the node.
type QueueFile struct {
	Path    string // absolute
	Content []byte
}

// Request encodes the call of jobqueue_update. Its result is void.
func (f QueueFile) Request() Request {
	dst := rawjson.AppendQuoted([]byte{'['}, f.Path)
	return Request{UpdateQueueFile, append(appendContent(append(dst, ','), f.Content), ']')}
}

// DecodeQueueFile decodes the body of jobqueue_update, for fake node daemons.
func DecodeQueueFile(body []byte) (f QueueFile, err error) {
	args, err := arguments(body, 2)
	if err != nil {
		return f, err
	}
	if f.Path, err = rawjson.ReadText(args[0]); err != nil {
		return f, err
	}
	f.Content, err = decodeContent(args[1])
	return f, err
}

// Rename is the old and the new absolute path of a file below the queue directory. The node daemon makes a missing directory of
// the new path.
type Rename [2]string

// RenameRequest encodes the call of jobqueue_rename. The node daemon renames in order and stops at the first failure; what it has
// renamed before stays.
func RenameRequest(renames []Rename) Request {
	body, err := json.Marshal([1][]Rename{renames})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return Request{RenameQueueFiles, body}
}

// DecodeRenames decodes the body of jobqueue_rename, for fake node daemons.
func DecodeRenames(body []byte) (renames []Rename, err error) {
	args, err := arguments(body, 1)
	if err != nil {
		return nil, err
	}
	return renames, json.Unmarshal(args[0], &renames)
}

// DecodeRenamed checks the result of jobqueue_rename: one null for each file.
func DecodeRenamed(result json.RawMessage, count int) error {
	parts, err := list(result)
	if err == nil && len(parts) != count {
		err = fmt.Errorf("the answer has %d results for %d files", len(parts), count)
	}
	return err
}

// DrainRequest encodes the call of jobqueue_set_drain_flag. Its result is void.
func DrainRequest(drained bool) Request {
	return Request{SetDrainFlag, []byte("[" + strconv.FormatBool(drained) + "]")}
}

// PauseRequest encodes the call of set_watcher_pause: the end of the pause, or the zero time for no pause. Its result is void.
func PauseRequest(until time.Time) Request {
	if until.IsZero() {
		return Request{SetWatcherPause, []byte("[null]")}
	}
	return Request{SetWatcherPause, []byte("[" + strconv.FormatInt(until.Unix(), 10) + "]")}
}
