package datadir

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/paths"
	"lockstep/persistence"
)

// NoteRunDir records the run directory in the data directory. It adds to a refusal what the operator can do.
func NoteRunDir(c settings.Config, files *persistence.OSFiles) error {
	err := persistence.NoteRunDir(files, c.RunDir)
	former, is := errors.AsType[*persistence.FormerRunDirError](err)
	if !is {
		return err
	}
	remove := fmt.Sprintf("rm %s", filepath.Join(c.DataDir, paths.RunDirPath))
	if former.Problem != nil {
		return fmt.Errorf("run-dir: %w; nothing was started. Start lockstepd with --run-dir %s. "+
			"If no process of this queue lives any longer: %s",
			err, former.Former, remove)
	}
	var living []string
	for _, name := range former.Living {
		if id, isJob := paths.JobIDOfLivelock(name); isJob {
			name = fmt.Sprintf("job %d", id)
		}
		living = append(living, name)
	}
	return fmt.Errorf("run-dir: this queue's run directory is %s, and processes live there: %s. "+
		"With %s they would count as dead; nothing was started. "+
		"Start lockstepd with --run-dir %s, and change it when they have ended. If they are of another queue: %s",
		former.Former, strings.Join(living, ", "), c.RunDir, former.Former, remove)
}
