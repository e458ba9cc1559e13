package persistence

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// BootID identifies the current boot of the machine. It changes at each boot and with no clock.
// Processes recorded under another boot id are dead.
func BootID() (string, error) {
	content, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	id := strings.TrimSpace(string(content))
	if id == "" {
		// An empty id would be equal at every boot.
		return "", fmt.Errorf("the system names no boot id")
	}
	return id, nil
}

// bootTime is the wall-clock time at which the machine booted. It changes when the clock is set:
// SweepTemp may misjudge a file that was written before. The risk is small, because a temporary
// file is in use for milliseconds.
func bootTime() (time.Time, error) {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(-time.Duration(up.Nano())), nil
}
