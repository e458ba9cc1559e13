package persistence

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// BootID names the machine's present run: it is another after each boot, and no
// clock moves it. A record of processes from another run is of processes that
// are gone.
func BootID() (string, error) {
	content, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	id := strings.TrimSpace(string(content))
	if id == "" {
		// Two runs must never have the same one.
		return "", fmt.Errorf("boot id: the system names none")
	}
	return id, nil
}

// bootTime is the wall-clock time of the machine's start. It moves when the
// clock is set: a file written before such a step and swept after it can be
// misjudged, but a temporary file is in use for milliseconds.
func bootTime() (time.Time, error) {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(-time.Duration(up.Nano())), nil
}
