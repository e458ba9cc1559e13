// Package buildinfo says which build a program is: its version, the commit that it was
// built from and the Go release that built it.
package buildinfo

import (
	"fmt"
	"runtime/debug"
)

// Both are set by the linker: version for a release, revision by the Makefile, for builds
// in which Go notes no commit (-buildvcs=false).
// -ldflags "-X lockstep/cmd/internal/buildinfo.version=1.2.3".
var (
	version  = ""
	revision = ""
)

// Build is one build of a program.
type Build struct {
	Version  string `json:"version"`  // of a release, or "dev"
	Revision string `json:"revision"` // the first 12 digits of the commit, "" where it is unknown
	Modified bool   `json:"modified"` // the source tree had changes that were not committed
	Go       string `json:"go"`       // release of Go, like "go1.26.8"
}

const revisionDigits = 12

// Read returns the build of the running program.
func Read() Build {
	build := Build{Version: version, Revision: revision}
	if build.Version == "" {
		build.Version = "dev"
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return build
	}
	build.Go = info.GoVersion
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			build.Revision = setting.Value[:min(revisionDigits, len(setting.Value))]
		case "vcs.modified":
			build.Modified = setting.Value == "true"
		}
	}
	return build
}

// String is the form for people, like "1.2.3 (commit 0123456789ab, go1.26.8)".
func (b Build) String() string {
	if b.Revision == "" {
		return fmt.Sprintf("%s (commit unknown, %s)", b.Version, b.Go)
	}
	changed := ""
	if b.Modified {
		changed = " with changes"
	}
	return fmt.Sprintf("%s (commit %s%s, %s)", b.Version, b.Revision, changed, b.Go)
}

// Short names the build in one word: the version of a release, otherwise the commit.
func (b Build) Short() string {
	if b.Version == "dev" && b.Revision != "" {
		return b.Revision
	}
	return b.Version
}
