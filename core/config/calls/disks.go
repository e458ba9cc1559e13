package calls

import (
	"bytes"
	"fmt"
	"slices"

	"lockstep/core/config/model"
)

// Calls about disks (config.md 4.4).

// addInstanceDisk adds a disk and attaches it. It increments the serial number of the configuration twice, as Ganeti does.
func addInstanceDisk(a *arguments) step {
	a.count(4)
	instance := a.text(0)
	sent := read(a, 1, model.Disks.Decode)
	index := readOpt(a, 2, model.DecodeInt)
	replace := a.flag(3)
	return func(t *tx) ([]byte, error) {
		disk := sent.Value
		stored, found := t.config().Disks.Get(disk.UUID)
		if found && sameDisk(stored, disk) && isAttached(t.config(), instance, disk.UUID, index) {
			return yes, nil // repetition
		}
		if err := inUse(t.config(), disk.UUID, disk.Name, replace, found); err != nil {
			return nil, err
		}
		model.Disks.Put(t.edit, disk.UUID, disk)
		if err := t.attach(instance, disk.UUID, index); err != nil {
			return nil, err
		}
		t.edit.BumpSerial()
		t.Reserved = t.Reserved.ReleaseMinors(disk.UUID)
		return yes, nil
	}
}

// sameDisk reports whether d equals the stored disk, except for times and iv_name.
func sameDisk(stored *model.Object[model.Disk], d model.Disk) bool {
	d.CTime, d.MTime, d.IVName = stored.Value.CTime, stored.Value.MTime, stored.Value.IVName
	return bytes.Equal(model.Disks.NewObject(d).JSON(), stored.JSON())
}

// isAttached reports whether a disk is attached at an index, or at the end without an index.
func isAttached(c *model.Config, instance, disk string, index model.Opt[int64]) bool {
	stored, found := c.Instances.Get(instance)
	if !found {
		return false
	}
	disks := stored.Value.Disks
	at := slices.Index(disks, disk)
	return at >= 0 && (index.Set && int64(at) == index.Value || !index.Set && at == len(disks)-1)
}

func attachInstanceDisk(a *arguments) step {
	a.count(3)
	instance, disk := a.text(0), a.text(1)
	index := readOpt(a, 2, model.DecodeInt)
	return func(t *tx) ([]byte, error) {
		if t.config().Disks.Has(disk) && isAttached(t.config(), instance, disk, index) {
			return yes, nil // repetition
		}
		if err := t.attach(instance, disk, index); err != nil {
			return nil, err
		}
		return yes, nil
	}
}

func (t *tx) attach(uuid, disk string, index model.Opt[int64]) error {
	if !t.config().Disks.Has(disk) {
		return configuration(fmt.Sprintf("Disk %s doesn't exist", disk))
	}
	stored, found := t.config().Instances.Get(uuid)
	if !found {
		return noInstance(uuid)
	}
	instance := stored.Value
	at := int64(len(instance.Disks))
	switch {
	case index.Set && index.Value < 0:
		return generic("Not accepting negative indices")
	case index.Set && index.Value > at:
		return generic(fmt.Sprintf("Got disk index %d, but there are only %d", index.Value, at))
	case index.Set:
		at = index.Value
	}
	for user := range t.config().DiskUsers(disk) {
		other, _ := t.config().Instances.Get(user)
		name := model.AppendText(nil, other.Value.Name.Value)
		return reservation(fmt.Sprintf("Disk %s already attached to instance %s", disk, name))
	}
	instance.Disks = slices.Insert(slices.Clone(instance.Disks), int(at), disk)
	t.changeInstance(uuid, instance)
	return t.nameDisks(instance.Disks, int(at))
}

// nameDisks sets the iv_name of the disks of an instance, starting at an index. Serial numbers of the disks do not change.
func (t *tx) nameDisks(disks []string, from int) error {
	for i := from; i < len(disks); i++ {
		stored, found := t.config().Disks.Get(disks[i])
		if !found {
			return configuration("Could not find disk with UUID " + disks[i])
		}
		disk := stored.Value
		if name := fmt.Sprintf("disk/%d", i); disk.IVName != name {
			disk.IVName = name
			model.Disks.Put(t.edit, disks[i], disk)
		}
	}
	return nil
}

func detachInstanceDisk(a *arguments) step {
	a.count(2)
	instance, disk := a.text(0), a.text(1)
	return func(t *tx) ([]byte, error) {
		if err := t.detach(instance, disk); err != nil {
			return nil, err
		}
		return yes, nil
	}
}

// detach detaches a disk. A disk that is not attached is left as it is.
func (t *tx) detach(uuid, disk string) error {
	stored, found := t.config().Instances.Get(uuid)
	if !found {
		return noInstance(uuid)
	}
	instance := stored.Value
	at := slices.Index(instance.Disks, disk)
	if at < 0 {
		return nil
	}
	instance.Disks = slices.Delete(slices.Clone(instance.Disks), at, at+1)
	t.changeInstance(uuid, instance)
	return t.nameDisks(instance.Disks, at)
}

func removeInstanceDisk(a *arguments) step {
	a.count(2)
	instance, disk := a.text(0), a.text(1)
	return func(t *tx) ([]byte, error) {
		if err := t.detach(instance, disk); err != nil {
			return nil, err
		}
		for range t.config().DiskUsers(disk) {
			return nil, failure("ProgrammerError", fmt.Sprintf("Cannot remove disk %s. Disk is attached to an instance", disk))
		}
		if t.config().Disks.Has(disk) {
			model.Disks.Delete(t.edit, disk)
			touchCluster(t)
		}
		return yes, nil
	}
}
