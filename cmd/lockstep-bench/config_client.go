package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"lockstep/core/config/model"
	"lockstep/core/lock"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/core/wire"
	"lockstep/persistence"
)

// configDaemon is a daemon with a generated configuration.
type configDaemon struct {
	*daemon
	config  *model.Config // at its start
	size    int           // of config.data in bytes
	updated map[int]*model.Instance
}

// startConfigDaemon starts a daemon with so many instances.
func (b *bench) startConfigDaemon(instances int) (*configDaemon, error) {
	d, c, err := b.startDaemon(false)
	if err != nil {
		return nil, err
	}
	c.close()
	if err := d.stop(); err != nil {
		return nil, err
	}
	own, err := os.ReadFile(d.configPath())
	if err != nil {
		return nil, err
	}
	config, err := model.Decode(own)
	if err != nil {
		return nil, err
	}
	if config, err = withInstances(config, instances); err != nil {
		return nil, err
	}
	content := config.JSON()
	if err := os.WriteFile(d.configPath(), content, 0o640); err != nil {
		return nil, err
	}
	return &configDaemon{d, config, len(content), map[int]*model.Instance{}}, d.start()
}

func (d *daemon) configPath() string { return filepath.Join(d.dataDir(), paths.ConfigPath) }

// serialOnDisk is the serial number of the configuration in config.data, which ends with it.
func (d *daemon) serialOnDisk() (int64, error) {
	file, err := os.Open(d.configPath())
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	end := make([]byte, min(100, info.Size()))
	if _, err := file.ReadAt(end, info.Size()-int64(len(end))); err != nil {
		return 0, err
	}
	_, digits, found := bytes.Cut(end, []byte(`"serial_no":`))
	if !found {
		return 0, errors.New("config.data has no serial number at its end")
	}
	return strconv.ParseInt(string(bytes.TrimRight(digits, "}\n")), 10, 64)
}

// updater is a client that changes one instance. No two of one instance exist at a time.
type updater struct {
	*client
	instance *model.Instance
}

func (d *configDaemon) newUpdater(number int) (*updater, error) {
	if d.updated[number] == nil {
		o, found := d.config.Instances.Get(instanceUUID(number))
		if !found {
			return nil, fmt.Errorf("there is no instance %d", number)
		}
		instance := o.Value
		d.updated[number] = &instance
	}
	c, err := d.dial(persistence.WconfSocket)
	return &updater{c, d.updated[number]}, err
}

func (u *updater) update() error {
	u.instance.DisksActive.Value = !u.instance.DisksActive.Value
	err := u.call(nil, "updateInstance", json.RawMessage(model.Instances.NewObject(*u.instance).JSON()))
	u.instance.Serial++
	return err
}

// bareClient receives answers without looking at them.
type bareClient struct {
	conn   net.Conn
	buffer []byte
}

func (b *bench) dialBare(path string) (*bareClient, error) {
	conn, err := (&net.Dialer{}).DialContext(b.ctx, "unix", path)
	return &bareClient{conn, make([]byte, 1<<20)}, err
}

func (d *daemon) dialBare() (*bareClient, error) {
	return d.bench.dialBare(persistence.SocketPath(d.runDir(), persistence.WconfSocket))
}

// call sends a request and returns the length of its answer in bytes.
func (c *bareClient) call(request []byte) (size int, err error) {
	if err := wire.WriteFrame(c.conn, request); err != nil {
		return 0, err
	}
	for {
		n, err := c.conn.Read(c.buffer)
		if err != nil {
			return size, err
		}
		if size == 0 && !bytes.HasPrefix(c.buffer[:n], wire.AppendResult(nil)) {
			return 0, fmt.Errorf("%.200s", c.buffer[:n])
		}
		size += n
		if c.buffer[n-1] == wire.Terminator {
			return size, nil
		}
	}
}

func (c *bareClient) close() { _ = c.conn.Close() }

// encodeCall encodes a request of arguments that can be encoded.
func encodeCall(method string, args ...any) []byte {
	request, err := wire.EncodeRequest(method, args)
	if err != nil {
		panic(err)
	}
	return request
}

// wholeWriter is a client that locks the configuration, writes it and unlocks it.
type wholeWriter struct {
	*bareClient
	lock, unlock []byte // requests
	writes       [2][]byte
	number       int
	release      func() error
}

// newWholeWriter makes a client whose writes change one instance, there and back.
func (d *configDaemon) newWholeWriter() (*wholeWriter, error) {
	livelock, err := persistence.CreateLivelock(persistence.LivelockDir(d.runDir()), "bench", ownership.Rules{})
	if err != nil {
		return nil, err
	}
	w := &wholeWriter{release: livelock.Release}
	owner := lock.NamedOwner("bench", livelock.Path(), os.Getpid())
	w.lock, w.unlock = encodeCall("lockConfig", owner, false), encodeCall("unlockConfig", owner)
	o, _ := d.config.Instances.Get(instanceUUID(1))
	instance := o.Value
	instance.Tags = append(instance.Tags[:len(instance.Tags):len(instance.Tags)], "written")
	e := d.config.Edit()
	model.Instances.Put(e, instance.UUID, instance)
	changed, _ := e.Commit(d.config.MTime)
	w.writes = [2][]byte{
		encodeCall("writeConfig", owner, json.RawMessage(changed.JSON())),
		encodeCall("writeConfig", owner, json.RawMessage(d.config.JSON())),
	}
	w.bareClient, err = d.dialBare()
	return w, err
}

// write locks the configuration, writes it and unlocks it.
func (w *wholeWriter) write() error {
	w.number++
	for _, request := range [][]byte{w.lock, w.writes[w.number%2], w.unlock} {
		if _, err := w.call(request); err != nil {
			return err
		}
	}
	return nil
}

func (w *wholeWriter) close() {
	w.bareClient.close()
	_ = w.release()
}
