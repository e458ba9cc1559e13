package persistence

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep/core/paths"
)

// highestJobID returns the highest id of any job file: live, archived or in
// quarantine. found is false if there is none.
func highestJobID(files QueueFiles) (id int64, found bool, err error) {
	archive, err := highestArchiveDir(files)
	if err != nil {
		return 0, false, err
	}
	for _, dir := range []string{paths.QueueDir, paths.QuarantineDir, archive} {
		names, err := files.List("scan", dir)
		if err != nil {
			return 0, false, err
		}
		for _, name := range names {
			original, _, _ := strings.Cut(name, ".") // quarantine: job-12.1
			if jobID, ok := paths.ParseJobName(original); ok {
				id, found = max(id, jobID), true
			}
		}
	}
	return id, found, nil
}

// highestArchiveDir returns the archive directory with the highest number that
// has a job file in it, or [ArchiveDir] itself if there is none.
func highestArchiveDir(files QueueFiles) (string, error) {
	names, err := files.List("scan", paths.ArchiveDir)
	if err != nil {
		return "", err
	}
	var numbers []int64
	for _, name := range names {
		if number, err := strconv.ParseInt(name, 10, 64); err == nil {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	for _, number := range slices.Backward(numbers) {
		dir := fmt.Sprintf("%s/%d", paths.ArchiveDir, number)
		names, err := files.List("scan", dir)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(names, isJobName) {
			return dir, nil
		}
	}
	return paths.ArchiveDir, nil
}

func isJobName(name string) bool {
	_, ok := paths.ParseJobName(name)
	return ok
}
