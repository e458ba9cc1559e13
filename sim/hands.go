package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"lockstep/core/paths"
	"lockstep/persistence"
)

// hands are an operator who changes what a daemon finds at its start, in a run over random work: the daemon gets another run directory, and
// settings.json is edited, well or badly. The operator has separate dice, so that the other work of a seed does not depend on these
// changes.
type hands struct {
	world *World
	rng   *rand.Rand
	edits int // so far
}

const (
	// HandSeeds is the usual value of runOptions.Hands.
	HandSeeds = 8
	// handDice separates the dice of this work from others of the same seed.
	handDice = 0x4a4d
	// editsMax bounds the edits of a run, so that the settings are known for most of it.
	editsMax = 3
)

func newHands(w *World, seed uint64, oneOf int) *hands {
	rng := rand.New(rand.NewPCG(seed, handDice))
	if oneOf < 1 || rng.IntN(oneOf) > 0 {
		return nil
	}
	return &hands{world: w, rng: rng}
}

// runDirs are the run directories of a machine.
var runDirs = []string{"/run/lockstep", "/run/other", "/tmp/lockstep"}

// beforeStart is called before a daemon starts: an operator may choose another run directory, and edit the settings.
func (h *hands) beforeStart(n *node) {
	if h == nil {
		return
	}
	if h.rng.IntN(2) == 0 {
		n.wantedRunDir = runDirs[h.rng.IntN(len(runDirs))]
	}
	if h.rng.IntN(4) == 0 && !n.clustered() && h.edits < editsMax {
		h.edit()
	}
}

// edit replaces settings.json, unless it is damaged already: an operator who sees that repairs it.
func (h *hands) edit() {
	f := h.world.disk.Find(paths.SettingsPath)
	if f != nil && !json.Valid(f.Data) {
		return
	}
	h.edits++
	texts := []string{
		`{"archive_after": 0.5, "keep_last": 2}`,
		`{"order": "plain", "lock_bypass_after": 1.5}`,
		`{"archive_after": 0.5, "keep_last": 3, `,
		`[%d`,
	}
	text := texts[h.rng.IntN(len(texts))]
	if text == `[%d` {
		text = fmt.Sprintf(text, h.edits)
	}
	h.world.trace.addf(topicFault, "settings.json is edited: %s", text)
	h.world.editSettings(text)
}

// noteRunDir is as in lockstepd. An operator whose run directory is refused does what the daemon's error says.
func (n *node) noteRunDir() error {
	if n.world.hands == nil {
		return nil
	}
	m := n.machine
	if n.wantedRunDir == "" {
		n.wantedRunDir = m.runDir
	}
	if n.world.mutations.AnyRunDir {
		m.runDir = n.wantedRunDir
		return nil
	}
	if n.disk.Find(paths.RunDirPath) == nil && m.checkNothingLivesIn(m.runDir, "") != nil {
		n.wantedRunDir = m.runDir // a client that came before the first daemon has its lock file there
	}
	err := persistence.NoteRunDirOf(n.disk, n.wantedRunDir, m.checkNothingLivesIn)
	if former, refused := errors.AsType[*persistence.FormerRunDirError](err); refused {
		n.wantedRunDir = former.Former
	}
	if f := n.disk.Find(paths.RunDirPath); f != nil { // also after a failed sync
		m.runDir = strings.TrimSpace(string(f.Data))
	}
	return err
}
