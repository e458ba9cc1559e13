// Package buildinfo identifies the build of a program: its version, its commit and the Go release
// that built it.
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
	Version  string `json:"version"`  // version of a release, or "dev"
	Revision string `json:"revision"` // the first 12 digits of the commit; "": unknown
	Modified bool   `json:"modified"` // the source tree had uncommitted changes
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

// String is a readable form, like "1.2.3 (commit 0123456789ab, go1.26.8)".
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

// Short is the build in one word: the version of a release, otherwise the commit.
func (b Build) Short() string {
	if b.Version == "dev" && b.Revision != "" {
		return b.Revision
	}
	return b.Version
}
