package conformance

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mondAddress is where Ganeti's balancer looks for MonD on a node with the name localhost.
const mondAddress = "127.0.0.1:1815"

// balancerData is a cluster of two nodes, both of which are this machine, for hbal.
const balancerData = `group1|g-uuid-1|preferred||

localhost|8192|512|7000|100000|90000|8|N|g-uuid-1|1|
127.0.0.1|8192|512|7500|100000|95000|8|N|g-uuid-1|1|

inst1|512|10240|1|running|Y|localhost|127.0.0.1|drbd||1


`

// ignored is what Ganeti's programs say if they cannot use the reports.
const ignored = "Didn't receive an answer by all MonDs"

// TestConformanceMonD runs Ganeti's hbal and hail, which read the report cpu-avg-load of each node.
func TestConformanceMonD(t *testing.T) {
	programs := os.Getenv(packages)
	if programs == "" {
		t.Skipf("NOT RUN: %s is not set; `make conformance` installs Ganeti's client programs and sets it", packages)
	}
	htools := filepath.Join(programs, "usr/lib/ganeti/3.0/usr/bin/htools")
	if _, err := os.Stat(htools); err != nil {
		t.Skipf("NOT RUN: %s has no hbal and no hail: Debian's package ganeti-htools-3.0 is missing", programs)
	}
	if l, err := net.Listen("tcp", mondAddress); err != nil {
		t.Skipf("NOT RUN: another program uses %s: %v", mondAddress, err)
	} else {
		require.NoError(t, l.Close())
	}
	dir := t.TempDir()
	for _, name := range []string{"hbal", "hail"} {
		require.NoError(t, os.Symlink(htools, filepath.Join(dir, name)))
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "hbal"), "--version").CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: hbal cannot be executed here: %s", out)
	}
	data := filepath.Join(dir, "cluster.txt")
	require.NoError(t, os.WriteFile(data, []byte(balancerData), 0o600))
	run := func(program string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, program), args...)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", program, out)
		return string(out)
	}
	require.Contains(t, run("hbal", "-t", data, "--mond=yes"), ignored, "without MonD")
	s := &site{t: t, programs: programs}
	s.make("--rapi-address= --confd-address= --mond-address " + mondAddress)
	require.Eventually(t, func() bool {
		r, err := http.Get("http://" + mondAddress + "/1/report/default/cpu-avg-load") //nolint:noctx // it is a test
		if err != nil {
			return false
		}
		defer r.Body.Close()
		text := make([]byte, 4096)
		n, _ := r.Body.Read(text)
		return strings.Contains(string(text[:n]), "cpu_total")
	}, 30*time.Second, 100*time.Millisecond)
	out := run("hbal", "-t", data, "--mond=yes")
	require.NotContains(t, out, ignored)
	require.Contains(t, out, "Loaded 2 nodes, 1 instances")
	request := filepath.Join(dir, "request.json")
	require.NoError(t, os.WriteFile(request, []byte(allocationRequest()), 0o600))
	out = run("hail", "--mond=yes", request)
	require.NotContains(t, out, ignored)
	require.Contains(t, out, `"success":true`)
}

// allocationRequest asks hail for a node for a new instance.
func allocationRequest() string {
	node := func(address string) string {
		return fmt.Sprintf(`{"total_disk":100000,"total_cpus":8,"group":"g-uuid-1","i_pri_up_memory":0,"tags":[],"offline":false,"drained":false,"master_candidate":true,"vm_capable":true,"master_capable":true,"free_disk":90000,"reserved_cpus":1,"reserved_memory":512,"free_memory":7000,"total_memory":8192,"i_pri_memory":0,"primary_ip":"%s","secondary_ip":"%s","ndparams":{"spindle_count":1,"exclusive_storage":false,"oob_program":null,"cpu_speed":1.0,"ssh_port":22,"ovs":false,"ovs_name":"","ovs_link":""},"total_spindles":1,"free_spindles":1,"hv_state":{},"disk_state":{}}`, address, address)
	}
	const spec = `{"memory-size":%d,"cpu-count":%d,"disk-size":%d,"disk-count":%d,"nic-count":%d,"spindle-use":%d}`
	policy := `{"minmax":[{"min":` + fmt.Sprintf(spec, 128, 1, 1024, 1, 1, 1) + `,"max":` + fmt.Sprintf(spec, 32768, 8, 1048576, 16, 8, 12) + `}],"std":` + fmt.Sprintf(spec, 128, 1, 1024, 1, 1, 1) +
		`,"disk-templates":["plain","drbd","diskless"],"vcpu-ratio":4.0,"spindle-ratio":32.0}`
	return `{"version":2,"cluster_name":"c","cluster_tags":[],"enabled_hypervisors":["kvm"],"ipolicy":` + policy +
		`,"nodegroups":{"g-uuid-1":{"name":"group1","alloc_policy":"preferred","networks":[],"tags":[],"ipolicy":` + policy + `}},` +
		`"nodes":{"localhost":` + node("127.0.0.1") + `,"127.0.0.1":` + node("127.0.0.1") + `},"instances":{},"networks":{},` +
		`"request":{"type":"allocate","name":"new1.example.com","disks":[{"mode":"rw","size":1024,"spindles":1}],"nics":[],"disk_space_total":1024,"disk_template":"plain","required_nodes":1,"memory":512,"vcpus":1,"spindle_use":1,"tags":[],"os":"x","hypervisor":"kvm"}}`
}
