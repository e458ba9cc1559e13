package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/edge/peer"
)

// checkAccounts returns an error if this process cannot give files to the owners of the rules: only root can give a
// file to another user, or to a group that it is no member of.
func checkAccounts(owners ownership.Rules, uid int, groups []int) error {
	if uid == 0 {
		return nil
	}
	for _, owner := range owners.UIDs() {
		if owner != uid {
			return fmt.Errorf("%s: lockstepd runs as user %d, and its files must belong to user %d: "+
				"start it as that user, or set ganeti-user",
				settings.GanetiFlag, uid, owner)
		}
	}
	for _, group := range owners.GIDs() {
		if !slices.Contains(groups, group) {
			return fmt.Errorf("%s: lockstepd runs as user %d, which is no member of group %d, to which files must belong: "+
				"add the user to that group, and start lockstepd again", settings.GanetiFlag, uid, group)
		}
	}
	return nil
}

// CheckSetUp returns an error unless the data directory belongs to the mode of the daemon: Ganeti's to Ganeti mode, any
// other to lockstep's own mode. It changes nothing.
func CheckSetUp(c settings.Config) error {
	ganeti, err := peer.IsGanetiDirectory(c.DataDir)
	switch {
	case err != nil:
		return err
	case !c.Ganeti.Enabled && ganeti:
		return fmt.Errorf("data-dir: %s is the data directory of a Ganeti node, because it has %s: "+
			"start lockstepd with --%s, or with another data-dir",
			c.DataDir, paths.GanetiCertificatePath, settings.GanetiFlag)
	case !c.Ganeti.Enabled:
		return nil
	}
	groups, err := os.Getgroups()
	if err != nil {
		return fmt.Errorf("%s: list the groups of this process: %w", settings.GanetiFlag, err)
	}
	if err := checkAccounts(c.Owners, os.Geteuid(), append(groups, os.Getegid())); err != nil {
		return err
	}
	for _, left := range []string{RaftDir, MemberMark} {
		path := filepath.Join(c.DataDir, left)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %s belongs to a cluster of lockstep, because it has %s; "+
				"a node is in a cluster of lockstep or of Ganeti, never in both. "+
				"Set data-dir to Ganeti's, or run lockstep node remove on another node of that cluster and move %s aside",
				settings.GanetiFlag, c.DataDir, left, path)
		}
	}
	for _, name := range []string{paths.GanetiCertificatePath, paths.ConfigPath} {
		path := filepath.Join(c.DataDir, name)
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%s: %w; every master candidate of Ganeti has this file: gnt-cluster init or gnt-node add makes it. Check data-dir",
				settings.GanetiFlag, err)
		}
	}
	return nil
}
