package calls

import (
	"bytes"
	"fmt"

	"lockstep/core/config/model"
)

// stamped is a pointer to an object that has a uuid, a serial number and times (model.Stamp).
type stamped[T any] interface {
	*T
	Stamps() *model.Stamp
}

// updater returns the parser of the call that updates an object of a kind (UpdateNode, ...): one argument, the whole object.
func updater[T any, P stamped[T]](k *model.Kind[T], also func(t *tx)) func(a *arguments) step {
	return func(a *arguments) step {
		a.count(1)
		return update[T, P](k, read(a, 0, k.Decode), also)
	}
}

// update returns the step that stores a changed object (config.md 4.2). The step calls also, which may be nil, after a change, but not
// after a repetition.
func update[T any, P stamped[T]](k *model.Kind[T], sent *model.Object[T], also func(t *tx)) step {
	return func(t *tx) ([]byte, error) {
		uuid := P(&sent.Value).Stamps().UUID
		stored, found := k.Get(t.config(), uuid)
		if !found {
			return nil, configuration("Configuraton object unknown") //nolint:misspell // Ganeti's spelling
		}
		next, result, err := updated[T, P](k, stored, sent, t.env.Now)
		if err == nil && next != nil {
			k.Put(t.edit, uuid, *next)
			if also != nil {
				also(t)
			}
		}
		return result, err
	}
}

// updated returns the new object, or nil if the call is a repetition, and the result. An update without a difference increments
// the serial number too.
func updated[T any, P stamped[T]](k *model.Kind[T], stored, sent *model.Object[T], now model.Time) (*T, []byte, error) {
	old := *P(&stored.Value).Stamps()
	next := sent.Value // its slices are shared
	stamp := P(&next).Stamps()
	read := stamp.Serial
	stamp.Serial, stamp.MTime = read+1, old.MTime
	if old.Serial == stamp.Serial && bytes.Equal(k.NewObject(next).JSON(), stored.JSON()) {
		return nil, serialAndTime(old), nil
	}
	if read != old.Serial {
		text := fmt.Sprintf("Configuration object updated since it has been read: %d != %d", old.Serial, read)
		return nil, nil, configuration(text)
	}
	stamp.MTime = now
	return &next, serialAndTime(*stamp), nil
}

func serialAndTime(s model.Stamp) []byte {
	return append(model.AppendTime(fmt.Appendf(nil, "[%d,", s.Serial), s.MTime), ']')
}

// updateCluster parses the call that updates the cluster object. There is one only, so its uuid is not looked at.
func updateCluster(a *arguments) step {
	a.count(1)
	sent := read(a, 0, model.Clusters.Decode)
	return func(t *tx) ([]byte, error) {
		next, result, err := updated(model.Clusters, t.config().Cluster, sent, t.env.Now)
		if err == nil && next != nil {
			t.edit.SetCluster(*next)
		}
		return result, err
	}
}

// updateDisk stores a changed disk and releases its reserved DRBD minors: the configuration contains them now.
func updateDisk(a *arguments) step {
	a.count(1)
	sent := read(a, 0, model.Disks.Decode)
	store := update(model.Disks, sent, nil)
	return func(t *tx) ([]byte, error) {
		result, err := store(t)
		if err == nil {
			t.Reserved = t.Reserved.ReleaseMinors(sent.Value.UUID)
		}
		return result, err
	}
}

// touchCluster increments the serial number of the cluster.
func touchCluster(t *tx) { t.changeCluster(func(*model.Cluster) {}) }

// changeCluster changes the cluster and increments its serial number.
func (t *tx) changeCluster(change func(c *model.Cluster)) {
	cluster := t.config().Cluster.Value
	change(&cluster)
	cluster.Serial++
	cluster.MTime = t.env.Now
	t.edit.SetCluster(cluster)
}

// changeInstance stores an instance and increments its serial number.
func (t *tx) changeInstance(uuid string, instance model.Instance) {
	instance.Serial++
	instance.MTime = t.env.Now
	model.Instances.Put(t.edit, uuid, instance)
}
