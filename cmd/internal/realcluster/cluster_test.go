//go:build linux

package realcluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/internal/machine"
)

// layer names the environment variable with the directory that .ci/ganeti-layer has made.
const layer = "GANETI_LAYER"

// reason names the environment variable with the reason why this machine cannot have a cluster.
const reason = "NO_CLUSTER"

// needLayer returns the layer's directory, and skips the test if there is none.
func needLayer(t testing.TB) string {
	if os.Getenv(reason) != "" {
		t.Skipf("NOT RUN: %s", os.Getenv(reason))
	}
	if os.Getenv(layer) == "" {
		t.Skipf("NOT RUN: %s is not set; make conformance-cluster sets it", layer)
	}
	return os.Getenv(layer)
}

// The names and addresses of the cluster. They are those that are reserved for documentation.
const (
	clusterName = "cluster.gnt.example"
	master      = "node1.gnt.example"
	second      = "node2.gnt.example"
	hosts       = `127.0.0.1 localhost
192.0.2.10 cluster.gnt.example cluster
192.0.2.11 node1.gnt.example node1
192.0.2.12 node2.gnt.example node2
`
)

// cluster is a Ganeti cluster of two nodes with the fake hypervisor. The second node cannot become master: it is a target for
// instances that move.
type cluster struct {
	t     testing.TB
	nodes []*machine.Machine

	checked map[string]int // number of records of each log that checkLogs has looked at
}

// prepareNodes gives each node what a cluster with the fake hypervisor needs, and starts its ssh server.
func (c *cluster) prepareNodes() {
	for node := range c.nodes {
		c.copyTree("testdata/os", node, "/srv/ganeti/os")
		c.on(node, `
set -e
mkdir -p /run/sshd /run/lock /etc/ganeti /srv/ganeti/file-storage /var/lib/ganeti/export
echo /srv/ganeti/file-storage >/etc/ganeti/file-storage-paths
printf 'HostKey /etc/ssh/ssh_host_rsa_key\nPermitRootLogin yes\nPasswordAuthentication no\nUsePAM no\nStrictModes no\nSubsystem sftp internal-sftp\n' >/etc/ssh/sshd_config
/usr/sbin/sshd`)
	}
}

// newCluster puts up a cluster with Ganeti's own daemons. It ends with the test.
func newCluster(t testing.TB) *cluster {
	files := filepath.Join(needLayer(t), "files")
	c := &cluster{t: t, checked: map[string]int{}}
	made := leavesNothing(t)
	for i, name := range []string{master, second} {
		m, err := machine.Start(machine.Spec{Hostname: name, Address: fmt.Sprintf("192.0.2.%d/24", 11+i), Hosts: hosts, Layer: files})
		require.NoError(t, err)
		t.Cleanup(m.Stop)
		made(m)
		c.nodes = append(c.nodes, m)
	}
	require.NoError(t, c.nodes[0].Connect(c.nodes[1]))
	c.sshKeys()
	c.prepareNodes()
	c.on(0, `
set -e
gnt-cluster init --enabled-hypervisors=fake --enabled-disk-templates=diskless,file \
  --file-storage-dir=/srv/ganeti/file-storage --ipolicy-disk-templates=diskless,file \
  --no-etc-hosts --no-ssh-init --master-netdev=`+machine.Bridge+` --nic-parameters=mode=routed,link=main \
  --ipolicy-bounds-specs=min:cpu-count=1,disk-count=0,disk-size=1,memory-size=1,nic-count=0,spindle-use=1/max:cpu-count=8,disk-count=16,disk-size=1048576,memory-size=32768,nic-count=8,spindle-use=12 \
  --maintain-node-health=no `+clusterName+`
gnt-node add --no-ssh-key-check --master-capable=no `+second)
	// Ganeti's WConfD sets up the address of the master in the background. Its end in the middle of that call would be an error in
	// the log of the node daemon.
	c.on(0, `until grep -q 'POST /node_activate_master_ip .* 200' /var/log/ganeti/node-daemon.log; do sleep 0.1; done`)
	for node := range c.nodes { // a file that only one node has is a finding
		c.on(node, `mkdir -p /var/lib/ganeti/rapi && echo 'operator secret write' >/var/lib/ganeti/rapi/users && chown -R gnt-rapi:gnt-masterd /var/lib/ganeti/rapi`)
	}
	return c
}

// sshKeys makes the nodes let root of one another in. All nodes have the host key of the layer.
func (c *cluster) sshKeys() {
	c.on(0, `mkdir -m 700 /root/.ssh 2>/dev/null; rm -f /root/.ssh/*; ssh-keygen -q -t rsa -b 2048 -N '' -f /root/.ssh/id_rsa && cp /root/.ssh/id_rsa.pub /root/.ssh/authorized_keys`)
	c.copyTree(c.nodes[0].Path("root/.ssh"), 1, "/root/.ssh")
}

// copyTree copies a directory of this machine to a node. Owner is root, modes are kept.
func (c *cluster) copyTree(from string, node int, to string) {
	require.NoError(c.t, os.MkdirAll(c.nodes[node].Path(filepath.Dir(to)), 0o755))
	cmd := exec.Command("cp", "-rT", "--preserve=mode", from, c.nodes[node].Path(to))
	out, err := cmd.CombinedOutput()
	require.NoError(c.t, err, "%s", out)
}

// scriptMax bounds one script.
const scriptMax = 3 * time.Minute

// on runs a shell script on a node, which must succeed, and returns its output.
func (c *cluster) on(node int, script string) string {
	c.t.Helper()
	out, status := c.run(node, script)
	require.Zero(c.t, status, "%s\n%s", script, out)
	return out
}

// run runs a shell script on a node. It returns standard output and standard error together, and the exit status.
func (c *cluster) run(node int, script string) (string, int) {
	return c.runFor(scriptMax, node, script)
}

func (c *cluster) runFor(limit time.Duration, node int, script string) (string, int) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := c.nodes[node].Command([]string{"PYTHONDONTWRITEBYTECODE=1"}, "sh", "-c", script)
	// Daemons that the script starts keep its output open: what waits for its end would wait for theirs.
	file, err := os.CreateTemp("", "output")
	require.NoError(c.t, err)
	defer file.Close()
	require.NoError(c.t, os.Remove(file.Name())) // nothing is left if this process is killed
	cmd.Stdout, cmd.Stderr = file, file
	require.NoError(c.t, cmd.Start())
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	err = cmd.Wait()
	_, seekErr := file.Seek(0, io.SeekStart)
	require.NoError(c.t, seekErr)
	out, readErr := io.ReadAll(file)
	require.NoError(c.t, readErr)
	if err != nil && cmd.ProcessState == nil {
		return string(out) + err.Error(), -1
	}
	return strings.ToValidUTF8(string(out), "?"), cmd.ProcessState.ExitCode()
}
