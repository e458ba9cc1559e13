package calls

import (
	"fmt"
	"slices"

	"lockstep/core/config/model"
	"lockstep/core/lock"
)

// Calls about the complete configuration (config.md 4.1).

func readConfig(a *arguments) step {
	a.count(0)
	return func(t *tx) ([]byte, error) {
		t.out.IsConfig = true
		return nil, nil
	}
}

// configHash is lockstep's own: it tells a client that has read the configuration whether it is still the same.
func configHash(a *arguments) step {
	a.count(0)
	return func(t *tx) ([]byte, error) { return fmt.Appendf(nil, "%q", t.Config.Hash()), nil }
}

func verifyConfig(a *arguments) step {
	a.count(0)
	return func(t *tx) ([]byte, error) {
		if texts := t.Findings.Texts(); len(texts) > 0 {
			return nil, &Error{"ConfigVerifyError", "Validation failed", texts}
		}
		return void, nil
	}
}

// lockConfig answers with the configuration if the lock was granted, else with null. An exclusive grant forgets the concurrent changes:
// the configuration that the client gets has them.
func lockConfig(a *arguments) step {
	a.count(2)
	a.owner(0)
	shared := a.flag(1)
	return func(t *tx) ([]byte, error) {
		if !t.env.Locks.Granted {
			return null, nil
		}
		if !shared {
			t.ConcurrentChanges = nil
		}
		t.out.IsConfig = true
		return nil, nil
	}
}

func unlockConfig(a *arguments) step {
	a.count(1)
	owner := a.owner(0)
	return func(t *tx) ([]byte, error) {
		t.unlock(owner)
		return void, nil
	}
}

func (t *tx) unlock(o lock.Owner) {
	if t.out.Unlock = &o; t.env.Locks.Mode == lock.Exclusive {
		t.ConcurrentChanges = nil
	}
}

// writeConfig replaces the configuration. The new one can be inconsistent or older (config.md 12.13).
func writeConfig(a *arguments) step {
	a.count(2)
	a.owner(0)
	replacement := read(a, 1, model.Decode)
	return func(t *tx) ([]byte, error) {
		if t.env.Locks.Mode != lock.Exclusive {
			return nil, generic("Requested lock OwnExclusive on the configuration missing")
		}
		t.write(replacement)
		return void, nil
	}
}

// writeConfigAndUnlock without the lock is a repetition: the first call freed the lock. The lock is freed after the write is durable,
// so a repetition can also come while the client still holds the lock: the concurrent changes stay for it. The next lockConfig
// removes them.
func writeConfigAndUnlock(a *arguments) step {
	a.count(2)
	owner := a.owner(0)
	replacement := read(a, 1, model.Decode)
	return func(t *tx) ([]byte, error) {
		if t.env.Locks.Mode != lock.Exclusive {
			return no, nil
		}
		t.write(replacement)
		t.out.Unlock = &owner
		return yes, nil
	}
}

func (t *tx) write(replacement *model.Config) {
	t.edit.ReplaceAll(reapply(replacement, t.ConcurrentChanges))
}

func flushConfig(a *arguments) step {
	a.count(0)
	return func(t *tx) ([]byte, error) {
		t.out.Flush = true
		return void, nil
	}
}

func flushConfigGroup(a *arguments) step {
	a.count(1)
	group := a.text(0)
	return func(t *tx) ([]byte, error) {
		t.out.Flush, t.out.FlushGroup = true, group
		return void, nil
	}
}

// prepareClusterDestruction clears the master node, so that no daemon starts with this configuration, and passes cluster/BGL from the
// client to the daemon.
func prepareClusterDestruction(a *arguments) step {
	a.count(1)
	owner := a.owner(0)
	return func(t *tx) ([]byte, error) {
		cluster := t.config().Cluster.Value
		switch {
		case t.env.Locks.BGL == BGLDaemon && cluster.MasterNode == "":
			return void, nil // repetition
		case t.env.Locks.BGL != BGLClient:
			return nil, generic("Cluster destruction requested without owning BGL exclusively")
		}
		cluster.MasterNode = ""
		t.edit.SetCluster(cluster)
		t.out.PassBGL = &owner
		return void, nil
	}
}

// awaits reports whether the answer to a call with these changes waits until they are distributed (config.md 8.2).
func awaits(before, after *model.Config, touched []model.Touched) bool {
	for _, t := range touched {
		switch t.Kind {
		case model.Clusters.Name:
			if clusterAwaits(&before.Cluster.Value, &after.Cluster.Value) {
				return true
			}
		case model.Nodes.Name:
			old, was := before.Nodes.Get(t.UUID)
			now, is := after.Nodes.Get(t.UUID)
			if was != is || isCandidate(before, old) || isCandidate(after, now) || old.Value.VMCapable != now.Value.VMCapable {
				return true
			}
		}
	}
	return false
}

func isCandidate(c *model.Config, n *model.Object[model.Node]) bool {
	return n.Value.MasterCandidate || n.Value.UUID == c.Cluster.Value.MasterNode
}

func clusterAwaits(a, b *model.Cluster) bool {
	return a.MasterNode != b.MasterNode || a.EnabledUserShutdown != b.EnabledUserShutdown ||
		!slices.Equal(a.EnabledHypervisors, b.EnabledHypervisors) || !slices.Equal(a.CandidateCerts, b.CandidateCerts)
}
