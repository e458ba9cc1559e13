package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"lockstep/core/config/model"
	"lockstep/core/paths"
	"lockstep/persistence"
)

// configDaemon is a daemon with a generated configuration.
type configDaemon struct {
	*daemon
	config  *model.Config // at its start
	size    int           // of config.data in bytes
	updated map[int]*model.Instance
}

// startConfigDaemon starts a daemon whose configuration has so many instances.
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
