package noded

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	actorcopy "lockstep/actors/queuecopy"
	"lockstep/core/noded"
	"lockstep/core/paths"
	"lockstep/core/queuecopy"
)

// copyTime bounds one call of a node daemon that copies the queue (noded.md 8).
const copyTime = time.Minute

// Copies is the queuecopy.Daemons of a real node: it reads files of the queue and sends them to node daemons. It reads the files that it
// sends when it makes the call. The copier bounds the number of calls to a node, so that they take no places of the distribution. It is a
// queuecopy.Daemons.
type Copies struct {
	client *Client
	dir    string // the data directory of this node
	ctx    context.Context
	cancel context.CancelFunc
	calls  sync.WaitGroup
	grace  time.Duration

	mu   sync.Mutex
	open map[string]*sync.WaitGroup // by address: the calls since the last AskMaster, which waits for those before
}

var _ actorcopy.Daemons = (*Copies)(nil)

// NewCopies returns a Copies that makes its calls with c. No call is in progress. dir is the data directory of this node; the other nodes
// have Ganeti's.
func NewCopies(c *Client, dir string) *Copies {
	d := &Copies{client: c, dir: dir, grace: closeGrace, open: map[string]*sync.WaitGroup{}}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Call is part of queuecopy.Daemons. It returns at once, and makes the call when the earlier ones to the node have ended that must
// precede it. done gets the result.
func (d *Copies) Call(c queuecopy.Call, done func(queuecopy.Result)) {
	earlier, end := d.enter(c)
	d.calls.Go(func() {
		defer end()
		done(d.call(c, earlier))
	})
}

// enter counts a call, until end is called. earlier is closed when the calls have ended that must end before.
func (d *Copies) enter(c queuecopy.Call) (earlier <-chan struct{}, end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.open[c.Node.Address]
	ended := make(chan struct{})
	if before != nil && c.Op != queuecopy.AskMaster {
		before.Add(1)
		close(ended)
		return ended, before.Done
	}
	own := &sync.WaitGroup{}
	d.open[c.Node.Address] = own
	own.Add(1)
	if before == nil {
		close(ended)
		return ended, own.Done
	}
	own.Go(func() {
		before.Wait()
		close(ended)
	})
	return ended, own.Done
}

// Close waits a few seconds for the calls in progress, and ends them. A node may execute such a call nevertheless.
func (d *Copies) Close() {
	defer time.AfterFunc(d.grace, d.cancel).Stop()
	d.calls.Wait()
	d.cancel()
}

func (d *Copies) call(c queuecopy.Call, earlier <-chan struct{}) queuecopy.Result {
	ctx, cancel := context.WithTimeout(d.ctx, copyTime)
	defer cancel()
	select {
	case <-earlier:
	case <-ctx.Done():
		return queuecopy.Result{Err: &CallError{c.Node.Name, noded.MasterNodeName, ctx.Err()}}
	}
	switch c.Op {
	case queuecopy.AskMaster:
		raw, err := d.ask(ctx, c, noded.AskMasterName())
		if err != nil {
			return queuecopy.Result{Err: err}
		}
		name, err := noded.DecodeMasterName(raw)
		return queuecopy.Result{Master: name, Err: err}
	case queuecopy.Update, queuecopy.Refill:
		return d.send(ctx, c)
	case queuecopy.Archive:
		return d.archive(ctx, c)
	default:
		return d.check(ctx, c)
	}
}

func (d *Copies) ask(ctx context.Context, c queuecopy.Call, r noded.Request) (json.RawMessage, error) {
	raw, err := d.client.callNow(ctx, c.Node, r)
	if err != nil {
		return nil, &CallError{c.Node.Name, r.Procedure, err}
	}
	return raw, nil
}

// nodePath is the path on another node of a file below the data directory.
func nodePath(file string) string { return noded.DataDir + file }

// send sends one unit of the queue to a candidate as this disk has it: a job's file, the serial, the drain flag or the watcher's pause.
// The result says whether the file was rewritten meanwhile.
func (d *Copies) send(ctx context.Context, c queuecopy.Call) queuecopy.Result {
	u := c.Units[0]
	file := u.Path()
	if c.Op == queuecopy.Refill {
		file = paths.ArchivePath(int64(u))
	}
	before, content, err := d.read(file)
	missing := errors.Is(err, fs.ErrNotExist)
	var r queuecopy.Result
	var request noded.Request
	switch {
	case err != nil && !missing:
		return queuecopy.Result{Err: err}
	case u == queuecopy.Drain:
		request = noded.DrainRequest(!missing)
	case u == queuecopy.Pause:
		request = noded.PauseRequest(pauseEnd(content))
	case missing:
		return queuecopy.Result{Missing: true, Serial: c.SerialToSend(0)}
	default:
		if u == queuecopy.Serial {
			recorded, err := paths.ParseSerial(content)
			if err != nil {
				return queuecopy.Result{Err: err}
			}
			r.Serial = c.SerialToSend(recorded)
			content = paths.FormatSerial(r.Serial)
		}
		request = noded.QueueFile{Path: nodePath(u.Path()), Content: content}.Request()
	}
	raw, err := d.ask(ctx, c, request)
	if err == nil {
		err = noded.DecodeVoid(raw)
	}
	if err != nil {
		return queuecopy.Result{Err: err}
	}
	after, err := os.Stat(filepath.Join(d.dir, file))
	r.Rewritten = (err == nil) == missing || err == nil && (!os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()))
	return r
}

// read returns the content of a file below the data directory, and what stat says of the file that was read.
func (d *Copies) read(file string) (fs.FileInfo, []byte, error) {
	f, err := os.Open(filepath.Join(d.dir, file))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	content := make([]byte, info.Size())
	if _, err := f.ReadAt(content, 0); err != nil && info.Size() > 0 {
		return nil, nil, err
	}
	return info, content, nil
}

// pauseEnd is the end of the pause in a file, or the zero time.
func pauseEnd(content []byte) time.Time {
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

func (d *Copies) archive(ctx context.Context, c queuecopy.Call) queuecopy.Result {
	var renames []noded.Rename
	for _, u := range c.Units {
		renames = append(renames, noded.Rename{nodePath(u.Path()), nodePath(paths.ArchivePath(int64(u)))})
	}
	raw, err := d.ask(ctx, c, noded.RenameRequest(renames))
	if err == nil {
		err = noded.DecodeRenamed(raw, len(renames))
	}
	return queuecopy.Result{Err: err}
}

// check asks for the digests of the jobs' files there and computes those of the files here. The files there are read first: a
// difference is then no sign of a change in between that the candidate has and this node does not.
func (d *Copies) check(ctx context.Context, c queuecopy.Call) queuecopy.Result {
	var v noded.Verify
	for _, u := range c.Units {
		v.Files = append(v.Files, nodePath(u.Path()), nodePath(paths.ArchivePath(int64(u))))
	}
	raw, err := d.ask(ctx, c, v.Request())
	var there noded.Verification
	if err == nil {
		there, err = v.DecodeVerification(raw)
	}
	if err != nil {
		return queuecopy.Result{Err: err}
	}
	var r queuecopy.Result
	for _, u := range c.Units {
		archived := paths.ArchivePath(int64(u))
		found := queuecopy.Found{There: there.Files[nodePath(u.Path())], ArchivedThere: there.Files[nodePath(archived)]}
		info, content, err := d.read(u.Path())
		switch {
		case err == nil:
			found.Here, found.Age = digest(content), time.Since(info.ModTime())
		case errors.Is(err, fs.ErrNotExist):
			_, content, err = d.read(archived)
			if err == nil {
				found.ArchivedHere = digest(content)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return queuecopy.Result{Err: err}
			}
		default:
			return queuecopy.Result{Err: err}
		}
		r.Found = append(r.Found, found)
	}
	return r
}

// digest is a digest in the form of node_verify.
func digest(content []byte) string {
	sum := sha1.Sum(content)
	return hex.EncodeToString(sum[:])
}
