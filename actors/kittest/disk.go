package kittest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// ErrDisk is the error of a failing Disk.
var ErrDisk = errors.New("the disk says no")

// Disk is a disk in memory that implements store.Files. A call is written as its action, op
// and path: "replace submit-job queue/job-1". A test makes calls fail or block by a prefix
// of that.
type Disk struct {
	mu      sync.Mutex
	files   map[string][]byte
	changes map[string]int // by path: number of writes
	dirs    map[string]bool
	calls   []string
	fails   []*fault
	blocks  []*Block
	observe func(call string)
}

type fault struct {
	prefix    string
	remaining int
}

// Block lets a test hold one call of a Disk: it does not return until the test releases it.
type Block struct {
	prefix  string
	entered chan struct{}
	release chan struct{}
	once    sync.Once
}

// Entered waits until a call has reached the block.
func (b *Block) Entered() { <-b.entered }

// Release lets the blocked call return. A second Release does nothing.
func (b *Block) Release() { b.once.Do(func() { close(b.release) }) }

// NewDisk makes a disk with these files and an empty queue directory.
func NewDisk(files map[string]string) *Disk {
	d := &Disk{files: map[string][]byte{}, changes: map[string]int{}, dirs: map[string]bool{".": true, "queue": true}}
	for name, content := range files {
		d.makeDirs(path.Dir(name))
		d.files[name] = []byte(content)
	}
	return d
}

// MakeDir makes an empty directory, as the start of the daemon does.
func (d *Disk) MakeDir(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.makeDirs(dir)
}

// Fail makes the next n calls fail that begin with prefix ("ACTION OP NAME").
func (d *Disk) Fail(prefix string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = append(d.fails, &fault{prefix, n})
}

// Block blocks the next call that begins with prefix, until the Block that it returns is released.
func (d *Disk) Block(prefix string) *Block {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := &Block{prefix: prefix, entered: make(chan struct{}), release: make(chan struct{})}
	d.blocks = append(d.blocks, b)
	return b
}

// Observe calls f after each call, on the caller's goroutine.
func (d *Disk) Observe(f func(call string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.observe = f
}

// Calls are the finished calls that begin with prefix, in order, as "ACTION OP NAME".
func (d *Disk) Calls(prefix string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []string
	for _, c := range d.calls {
		if strings.HasPrefix(c, prefix) {
			found = append(found, c)
		}
	}
	return found
}

// Content is the content of a file, "" if it is absent.
func (d *Disk) Content(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return string(d.files[name])
}

// Names are the paths of all files, sorted.
func (d *Disk) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for name := range d.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// call blocks or fails as the test has arranged, and otherwise does the work.
func (d *Disk) call(kind, op, name string, work func() error) error {
	mustBePath(op, name)
	call := kind + " " + op + " " + name
	d.mu.Lock()
	block := d.blockFor(call)
	d.mu.Unlock()
	if block != nil {
		close(block.entered)
		<-block.release
	}
	d.mu.Lock()
	err := d.failure(call)
	if err == nil {
		err = work()
	}
	d.calls = append(d.calls, call)
	observe := d.observe
	d.mu.Unlock()
	if observe != nil {
		observe(call)
	}
	if err != nil {
		return fmt.Errorf("%s: %s %s: %w", op, kind, name, err)
	}
	return nil
}

func mustBePath(op, name string) {
	for _, element := range strings.Split(name, "/") {
		if element == "" || element == ".." || element == "." && name != "." {
			panic(fmt.Sprintf("%s: %q is not a path", op, name))
		}
	}
}

func (d *Disk) blockFor(call string) *Block {
	i := slices.IndexFunc(d.blocks, func(b *Block) bool { return strings.HasPrefix(call, b.prefix) })
	if i < 0 {
		return nil
	}
	b := d.blocks[i]
	d.blocks = slices.Delete(d.blocks, i, i+1)
	return b
}

func (d *Disk) failure(call string) error {
	for _, f := range d.fails {
		if f.remaining > 0 && strings.HasPrefix(call, f.prefix) {
			f.remaining--
			return ErrDisk
		}
	}
	return nil
}

func (d *Disk) makeDirs(dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		d.dirs[dir] = true
	}
}

// Replace replaces the content of a file.
func (d *Disk) Replace(op, name string, data ...[]byte) error {
	return d.call("replace", op, name, func() error {
		if !d.dirs[path.Dir(name)] {
			return fs.ErrNotExist
		}
		d.files[name] = bytes.Join(data, nil)
		d.changes[name]++
		return nil
	})
}

// ReplaceUnsynced is Replace under the action "replace-unsynced".
func (d *Disk) ReplaceUnsynced(op, name string, data ...[]byte) error {
	return d.call("replace-unsynced", op, name, func() error {
		if !d.dirs[path.Dir(name)] {
			return fs.ErrNotExist
		}
		d.files[name] = bytes.Join(data, nil)
		d.changes[name]++
		return nil
	})
}

// Append adds to the end of a file, or creates it. A failed Append leaves the file
// unchanged.
func (d *Disk) Append(op, name string, content []byte) error {
	return d.call("append", op, name, func() error {
		if !d.dirs[path.Dir(name)] {
			return fs.ErrNotExist
		}
		d.files[name] = slices.Concat(d.files[name], content)
		d.changes[name]++
		return nil
	})
}

// AppendDurable is Append under the action "append-durable".
func (d *Disk) AppendDurable(op, name string, content []byte) error {
	return d.call("append-durable", op, name, func() error {
		if !d.dirs[path.Dir(name)] {
			return fs.ErrNotExist
		}
		d.files[name] = slices.Concat(d.files[name], content)
		d.changes[name]++
		return nil
	})
}

// Identify returns a number that grows with each change of the file.
func (d *Disk) Identify(op, name string) (identity string, err error) {
	err = d.call("identify", op, name, func() error {
		if _, there := d.files[name]; !there {
			return fs.ErrNotExist
		}
		identity = strconv.Itoa(d.changes[name])
		return nil
	})
	return identity, err
}

// SyncDir does nothing, because the whole disk is durable.
func (d *Disk) SyncDir(op, dir string) error {
	return d.call("sync", op, dir, func() error {
		if !d.dirs[dir] {
			return fs.ErrNotExist
		}
		return nil
	})
}

// Read returns the content of a file.
func (d *Disk) Read(op, name string) (data []byte, err error) {
	err = d.call("read", op, name, func() error {
		content, there := d.files[name]
		if !there {
			return fs.ErrNotExist
		}
		data = bytes.Clone(content)
		return nil
	})
	return data, err
}

// Rename moves a file and creates the target directory.
func (d *Disk) Rename(op, from, to string) error {
	mustBePath(op, to)
	return d.call("rename", op, from, func() error {
		content, there := d.files[from]
		if !there {
			return fs.ErrNotExist
		}
		d.makeDirs(path.Dir(to))
		d.files[to] = content
		d.changes[to]++
		delete(d.files, from)
		return nil
	})
}

// Remove removes a file if it exists.
func (d *Disk) Remove(op, name string) error {
	return d.call("remove", op, name, func() error {
		delete(d.files, name)
		return nil
	})
}

// List returns the names in a directory.
func (d *Disk) List(op, dir string) (names []string, err error) {
	err = d.call("list", op, dir, func() error {
		for name := range d.files {
			names = addChild(names, dir, name)
		}
		for name := range d.dirs {
			names = addChild(names, dir, name)
		}
		slices.Sort(names)
		return nil
	})
	return names, err
}

func addChild(names []string, dir, name string) []string {
	if name == "." || path.Dir(name) != dir {
		return names
	}
	return append(names, path.Base(name))
}
