package sim

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"lockstep/core/config"
	"lockstep/core/paths"
)

// settingsEdited: an operator has replaced settings.json by hand, while no daemon runs.
type settingsEdited struct{ content []byte }

// checkEdited: what an operator has written to settings.json and no daemon can read is not replaced: it is in the file or in the
// quarantine from then on.
type checkEdited struct{ edited [][]byte }

func (*checkEdited) Name() string { return "edited files" }

func (c *checkEdited) See(w *World, event any) error {
	switch e := event.(type) {
	case settingsEdited:
		if _, err := config.DecodeSettings(e.content); err != nil {
			c.edited = append(c.edited, e.content)
		}
	case otherFileChanged, daemonStarted, powerLost, finished:
		for _, content := range c.edited {
			if !w.hasSettings(content) {
				return fmt.Errorf("settings.json was edited, and %q is in no file any longer", content)
			}
		}
	}
	return nil
}

func (w *World) hasSettings(content []byte) bool {
	candidates := []string{paths.SettingsPath}
	for _, name := range w.disk.Names(paths.QuarantineDir) {
		if strings.HasPrefix(name, path.Base(paths.SettingsPath)) {
			candidates = append(candidates, paths.QuarantineDir+"/"+name)
		}
	}
	for _, name := range candidates {
		if f := w.disk.Find(name); f != nil && bytes.Equal(f.Data, content) {
			return true
		}
	}
	return false
}

// editSettings replaces settings.json on the disk, as an operator does with an editor. The daemon does not notice.
func (w *World) editSettings(content string) {
	w.disk.Overwrite(paths.SettingsPath, []byte(content))
	w.notify(settingsEdited{[]byte(content)})
}
