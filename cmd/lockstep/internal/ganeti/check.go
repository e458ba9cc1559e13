package ganeti

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"lockstep/cmd/internal/places"
	"lockstep/core/config"
	"lockstep/core/config/journal"
	"lockstep/core/paths"
)

// freeMin is the space that must be free beside a copy of the queue, in bytes.
const freeMin = 64 << 20

// findings are what speaks against a swap, and what an operator should know.
type findings struct {
	Reasons []string `json:"reasons"` // a swap refuses
	Notes   []string `json:"notes"`
	Swapped bool     `json:"swapped"`
	extras           // lockstep is in the place of these daemons too
	Step    string   `json:"interrupted_at,omitempty"`

	plain bool // the node is no master candidate
}

func (f *findings) add(err error) {
	if err != nil {
		f.Reasons = append(f.Reasons, err.Error())
	}
}

// check looks at the node and changes nothing. wanted are the extras that a swap is about. Reasons of the result keep a swap from being
// made; Notes do not.
func (n *node) check(wanted extras) findings {
	var f findings
	f.add(n.load())
	if f.Step = n.state.Step; f.Step != "" {
		wanted = wanted.with(n.state.extras)
	}
	f.Swapped, f.extras = n.isLinked(wconfd) && n.isLinked(luxid), n.linked()
	f.add(n.checkRelease())
	f.plain = n.isPlain()
	if !f.plain || !wanted.suitPlain() {
		f.add(n.checkConfiguration())
	}
	for _, program := range []string{n.program, places.JobProgram(filepath.Dir(n.program))} {
		f.add(isExecutableByAll(program))
	}
	for _, file := range []string{util, modules} {
		if _, err := os.Stat(n.path(file)); err != nil {
			f.Reasons = append(f.Reasons, "Ganeti's packages are not complete: "+err.Error())
		}
	}
	if _, err := os.Stat(divert); err != nil && n.root == "" {
		f.Reasons = append(f.Reasons, "dpkg-divert is missing: the programs of Ganeti's package cannot be diverted: "+err.Error())
	}
	for _, left := range []string{"raft", "member-of-cluster"} {
		if _, err := os.Lstat(n.path(dataDir, left)); !errors.Is(err, fs.ErrNotExist) {
			f.Reasons = append(f.Reasons, n.path(dataDir, left)+" belongs to a cluster of lockstep")
		}
	}
	f.add(n.checkSpace())
	u, err := n.unfinishedJobs()
	f.add(err)
	if len(u.running) > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("jobs %s run: their processes go on, and lockstep watches them", list(u.running)))
	}
	if len(u.own) > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf(
			"jobs %s have opcodes of lockstep and are not final: lockstep ganeti back refuses meanwhile",
			list(u.own)))
	}
	if len(u.held) > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf(
			"jobs %s are held, and Ganeti has no holds: after lockstep ganeti back they start at once, so it refuses without --start-held",
			list(u.held)))
	}
	if len(u.notDue) > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf(
			"jobs %s are not due, and Ganeti has no start times: after lockstep ganeti back they start at once, so it refuses without --start-held",
			list(u.notDue)))
	}
	rules, err := n.ownRules()
	f.add(err)
	if len(rules) > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf(
			"Ganeti's daemons do not know these filter rules: %s: after lockstep ganeti back they do not apply",
			strings.Join(rules, ", ")))
	}
	if !n.isMaster {
		f.Notes = append(f.Notes,
			"this node is not the master: only links are made in the place of ganeti-wconfd, ganeti-luxid and ganeti-rapi, "+
				"for a failover to this node")
	}
	return f
}

// isPlain reports whether the node is no master candidate: it has no configuration.
func (n *node) isPlain() bool {
	_, err := os.Stat(n.path(dataDir, paths.ConfigPath))
	return errors.Is(err, fs.ErrNotExist)
}

// suitPlain reports whether the chosen daemons are ones that run on a node without a configuration: only ganeti-confd and ganeti-mond.
func (e extras) suitPlain() bool { return !e.Rapi && (e.Confd || e.Mond) }

func (n *node) checkRelease() error {
	content, err := os.ReadFile(n.path(dataDir, paths.SsconfPrefix+"release_version"))
	if err != nil {
		return fmt.Errorf("this is no node of a Ganeti cluster: %w", err)
	}
	if release := strings.TrimSpace(string(content)); release != config.SoftwareVersion {
		return fmt.Errorf("the cluster runs Ganeti %s, and lockstep takes the place of the daemons of %s", release, config.SoftwareVersion)
	}
	return nil
}

func (n *node) checkConfiguration() error {
	content, err := os.ReadFile(n.path(dataDir, paths.ConfigPath))
	if err != nil {
		return fmt.Errorf("this node is no master candidate, where only --confd and --mond are possible: %w", err)
	}
	parsed, _, err := journal.DecodeConfig(content)
	if err == nil {
		_, err = config.ClusterOf(parsed)
	}
	if err != nil {
		return fmt.Errorf("use config.data: %w", err)
	}
	return nil
}

// checkSpace returns an error unless a copy of the queue fits twice.
func (n *node) checkSpace() error {
	var used int64
	err := filepath.WalkDir(n.path(dataDir, paths.QueueDir), func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil {
			used += info.Size()
		}
		return nil
	})
	var disk unix.Statfs_t
	if err == nil {
		err = unix.Statfs(n.path(dataDir), &disk)
	}
	if err != nil {
		return err
	}
	if free := int64(disk.Bavail) * disk.Bsize; free < 2*used+freeMin { //nolint:unconvert // the type depends on the machine
		return fmt.Errorf("%s has %d MB free, and %d MB are needed for a copy", n.path(dataDir), free>>20, (2*used+freeMin)>>20)
	}
	return nil
}
