// Package buildinfo identifies the build of a program: its version, its commit and the Go release
// that built it.
package buildinfo

import (
	"fmt"
	"runtime/debug"
)

// They are set by the linker: version for a release, and all by the Makefile, from git, for builds in which Go notes no
// commit (-buildvcs=false).
// -ldflags "-X lockstep/cmd/internal/buildinfo.version=1.2.3".
var (
	version  = ""
	revision = ""
	date     = "" // of the commit, RFC 3339
)

// Build is one build of a program.
type Build struct {
	Version  string `json:"version"`  // version of a release, or "dev"
	Revision string `json:"revision"` // the first 12 digits of the commit; "": unknown
	Date     string `json:"date"`     // day of the commit, like "2026-11-22", never of the build; "": unknown
	Modified bool   `json:"modified"` // the source tree had uncommitted changes
	Go       string `json:"go"`       // release of Go, like "go1.26.8"
}

const revisionDigits = 12

// Read returns the build of the running program. What the linker was not told comes from Go's own information, or is unknown.
func Read() Build {
	build := Build{Version: version, Revision: revision, Date: dayOf(date)}
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
		case "vcs.time":
			build.Date = dayOf(setting.Value)
		case "vcs.modified":
			build.Modified = setting.Value == "true"
		}
	}
	return build
}

// dayOf is the day of a time in RFC 3339, in the zone of the time; "" if the text is no time.
func dayOf(text string) string {
	const day = len("2006-01-02")
	if len(text) <= day || text[day] != 'T' {
		return ""
	}
	return text[:day]
}

// String is a readable form, like "1.2.3 (commit 0123456789ab of 2026-11-22, go1.26.8)".
func (b Build) String() string {
	revision, day, changed := b.Revision, b.Date, ""
	if revision == "" {
		revision = "unknown"
	}
	if day == "" {
		day = "unknown date"
	}
	if b.Modified {
		changed = " with changes"
	}
	return fmt.Sprintf("%s (commit %s%s of %s, %s)", b.Version, revision, changed, day, b.Go)
}

// Short is the build in one word: the version of a release, otherwise the commit.
func (b Build) Short() string {
	if b.Version == "dev" && b.Revision != "" {
		return b.Revision
	}
	return b.Version
}
