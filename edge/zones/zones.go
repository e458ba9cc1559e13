// Package zones says which time zone the machine is set to, and from where calendar.LoadZone has the data of a zone. It reads files.
package zones

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"lockstep/core/calendar"
)

// root is the root of a file system, "/" but in tests.
type root string

// Local returns the name of the zone of this process, whose environment is lookup: that of the variable TZ, else of the link
// /etc/localtime, else in the file /etc/timezone.
func Local(lookup func(string) (string, bool)) (string, error) { return root("/").local(lookup) }

func (r root) local(lookup func(string) (string, bool)) (string, error) {
	name := r.configured()
	from := "the zone of this machine, " + name + ","
	if tz, set := lookup("TZ"); set {
		name, from = strings.TrimPrefix(tz, ":"), "TZ="+tz
		if tz == "" {
			name = "UTC" // as the C library reads it
		}
	}
	if name == "" {
		return "", errors.New("neither the link /etc/localtime nor /etc/timezone names the zone of this machine: name the zone")
	}
	if _, below, found := strings.Cut(name, "zoneinfo/"); found {
		name = strings.TrimPrefix(below, "posix/")
	}
	if _, err := calendar.LoadZone(name); err != nil {
		return "", fmt.Errorf("%s is no name of the tz database that lockstep knows: name the zone, such as Europe/Berlin", from)
	}
	return name, nil
}

// configured is the name of the machine's zone, or a path to its data; "" if none is to be had.
func (r root) configured() string {
	link := filepath.Join(string(r), "etc/localtime")
	if target, err := os.Readlink(link); err == nil {
		if strings.Contains(target, "zoneinfo/") {
			return target
		}
		if target, err = filepath.EvalSymlinks(link); err == nil && strings.Contains(target, "zoneinfo/") {
			return target
		}
	}
	if text, err := os.ReadFile(filepath.Join(string(r), "etc/timezone")); err == nil && len(text) < 200 {
		return strings.TrimSpace(string(text))
	}
	if _, err := os.Lstat(link); os.IsNotExist(err) {
		return "UTC" // as the C library takes it
	}
	return ""
}

// Names are the names of the machine's zones that begin with a text, none if it has no zone data.
func Names(prefix string) []string {
	var names []string
	for _, folder := range folders() {
		data := os.DirFS("/" + folder)
		_ = fs.WalkDir(data, ".", func(path string, entry fs.DirEntry, err error) error { // what cannot be read has no names
			switch {
			case err != nil, entry.IsDir() && (path == "posix" || path == "right"):
				return fs.SkipDir
			case !entry.IsDir() && strings.HasPrefix(path, prefix) && strings.ToUpper(path[:1]) == path[:1] && path[0] != '+':
				names = append(names, path)
			}
			return nil
		})
		if names != nil {
			return names
		}
	}
	return nil
}

// folders are where Go looks for zone data, in its order, below the root.
func folders() []string {
	return []string{"usr/share/zoneinfo", "usr/share/lib/zoneinfo", "usr/lib/locale/TZ", "etc/zoneinfo"}
}

// Data says in words which data calendar.LoadZone uses for a zone: "2025b of the machine", or "embedded in lockstep (Go 1.26.8)".
func Data(zone string) string { return root("/").data(zone, os.Getenv("ZONEINFO")) }

func (r root) data(zone, first string) string {
	if first != "" {
		if _, err := os.Stat(filepath.Join(first, zone)); err == nil {
			return version(first) + "of " + first
		}
		if info, err := os.Stat(first); err == nil && info.Mode().IsRegular() { // an archive
			return "of " + first
		}
	}
	for _, folder := range folders() {
		folder = filepath.Join(string(r), folder)
		if _, err := os.Stat(filepath.Join(folder, zone)); err == nil {
			return version(folder) + "of the machine"
		}
	}
	return "embedded in lockstep (Go " + strings.TrimPrefix(runtime.Version(), "go") + ")"
}

// version is the release of the data in a folder, with a space, or "" if the folder does not tell.
func version(folder string) string {
	for file, before := range map[string]string{"tzdata.zi": "# version ", "+VERSION": ""} {
		f, err := os.Open(filepath.Join(folder, file))
		if err != nil {
			continue
		}
		defer f.Close()
		line, err := bufio.NewReaderSize(f, 128).ReadSlice('\n')
		if version, found := strings.CutPrefix(strings.TrimSpace(string(line)), before); found && err == nil && version != "" {
			return version + " "
		}
	}
	return ""
}
