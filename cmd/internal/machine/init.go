//go:build linux

package machine

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

// ready is what the first process prints when the machine can be used. Any other line is an error.
const ready = "ready"

// Init makes this process the first process of a machine if Start has started it, and then does not return.
// Otherwise it does nothing.
func Init() {
	if os.Getenv(initFlag) == "" {
		return
	}
	if err := setUp(os.Getenv("HOSTNAME"), os.Getenv("ADDRESS"), os.Getenv("HOSTS"), os.Getenv("LAYER")); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(ready)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the process that has started the machine
		os.Exit(0)                           // the kernel kills all other processes of the machine
	}()
	reap()
}

// reap collects processes whose parent has ended, as the first process of a machine must. It does not return.
func reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	for range ended {
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

// scratch is the directory on which the machine's memory is mounted. Each machine has its own mounts.
const scratch = "/mnt"

func setUp(hostname, address, hosts, layer string) error {
	if err := mountRoot(layer); err != nil {
		return err
	}
	root := filepath.Join(scratch, "root")
	for name, content := range map[string]string{"hosts": hosts, "resolv.conf": "", "hostname": hostname + "\n"} {
		file := filepath.Join(root, "etc", name)
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) { // it may be a link to a place outside
			return err
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			return err
		}
	}
	if err := syscall.Sethostname([]byte(hostname)); err != nil {
		return fmt.Errorf("hostname: %w", err)
	}
	if err := syscall.PivotRoot(root, filepath.Join(root, "mnt")); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := syscall.Unmount("/mnt", syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("umount: %w", err)
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", Bridge, "type", "bridge"},
		{"link", "set", Bridge, "up"},
		{"addr", "add", address, "dev", Bridge},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	return nil
}

// mountRoot mounts the machine's root directory below scratch: this machine's own, read-only, with layer over it.
func mountRoot(layer string) error {
	below := func(names ...string) string { return filepath.Join(append([]string{scratch}, names...)...) }
	const private = syscall.MS_REC | syscall.MS_PRIVATE
	if err := syscall.Mount("", "/", "", private, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := syscall.Mount("memory", scratch, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("tmpfs: %w", err)
	}
	for _, dir := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(below(dir), 0o755); err != nil {
			return err
		}
	}
	// The layer is a directory below /, and overlayfs refuses layers of which one contains the other.
	if out, err := exec.Command("cp", "-a", layer+"/.", below("upper")).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", layer, err, out)
	}
	options := "lowerdir=/,upperdir=" + below("upper") + ",workdir=" + below("work")
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		options              string
	}{
		{"overlay", below("root"), "overlay", 0, options},
		{"proc", below("root/proc"), "proc", 0, ""},
		{"sysfs", below("root/sys"), "sysfs", 0, ""},
		{"/dev", below("root/dev"), "", syscall.MS_BIND | syscall.MS_REC, ""},
		{"run", below("root/run"), "tmpfs", 0, "mode=0755"},
		{"tmp", below("root/tmp"), "tmpfs", 0, "mode=1777"},
	} {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.source, m.target, err)
		}
	}
	return nil
}
