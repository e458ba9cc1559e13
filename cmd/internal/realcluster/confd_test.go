//go:build linux

package realcluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asking is a program with Ganeti's client of ConfD. It asks the ConfD of each node for the master, and prints the answers in the order
// of the nodes. Given the name of a master, it repeats this until node1 and node2 know it, and prints what it has had as answers.
//
// A question is sent once. SendRequest must not be asynchronous: then only the loop of asyncore sends, which WaitForReply does not run.
const asking = `PYTHONPATH=/usr/share/ganeti/3.0 python3 - $MASTER <<'PYTHON'
import sys
from ganeti import constants
from ganeti.confd import client
replies = []
confd = client.GetConfdClient(replies.append)
def ask(number):
    confd.UpdatePeerList(["192.0.2.1%d" % number])
    request = client.ConfdClientRequest(type=constants.CONFD_REQ_CLUSTER_MASTER)
    confd.SendRequest(request, async_=False)
    late, _, _ = confd.WaitForReply(request.rsalt)
    if late:
        return "node%d says nothing" % number
    reply = replies.pop().server_reply
    return "node%d %s" % (number, reply.answer if reply.status == constants.CONFD_REPL_STATUS_OK else "has no configuration")
if not sys.argv[1:]:
    print("\n".join(map(ask, (1, 2, 3))))
    sys.exit()
had, known = set(), False
while not known:
    answers = list(map(ask, (1, 2, 3)))
    had.update(answers)
    open("/tmp/asked", "w").close()
    known = answers[:2] == ["node1 " + sys.argv[1], "node2 " + sys.argv[1]]
print("\n".join(sorted(had)))
PYTHON`

// answer waits until the ConfDs answer so to questions of a node: node1 and node2 know the master, and node3, which is no candidate, has no
// configuration. MonD of each node answers too.
func (c *three) answer(t *testing.T, from int, master string) {
	t.Helper()
	want := "node1 " + master + "\nnode2 " + master + "\nnode3 has no configuration\n"
	var have string
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && have != want; {
		have = c.on(from, asking)
	}
	require.Equal(t, want, have)
	for _, address := range []string{"192.0.2.11", "192.0.2.12", "192.0.2.13"} {
		require.Equal(t, "[1]", c.on(from, "curl -sS --noproxy '*' --retry 30 --retry-delay 1 --retry-connrefused http://"+address+":1815/"))
	}
}

// daemonsOf checks whose ConfD and MonD run on all nodes.
func (c *three) daemonsOf(t *testing.T, program string) {
	t.Helper()
	for node := range c.nodes {
		require.Equal(t, program+"\n"+program+"\n", c.on(node, `for daemon in ganeti-confd ganeti-mond; do
/usr/lib/ganeti/daemon-util check $daemon && basename $(readlink /proc/$(cat /run/ganeti/$daemon.pid)/exe) | sed 's/^ganeti-.*/ganeti/'
done`), "node%d", node+1)
	}
}

// TestThreeConfd asks ganeti-confd and ganeti-mond of a master, a candidate and a regular node: Ganeti's, lockstep's in their place, also
// while another node becomes master, and Ganeti's again.
func TestThreeConfd(t *testing.T) {
	const master, next = "node1.gnt.example", "node2.gnt.example"
	c := newThree(t)
	c.on(0, "gnt-cluster modify --candidate-pool-size=2 && gnt-node modify --master-candidate=no node3.gnt.example")
	for node := range c.nodes {
		c.on(node, "/usr/lib/ganeti/daemon-util check ganeti-confd || /usr/lib/ganeti/daemon-util start ganeti-confd") // else the watcher does so
	}
	c.daemonsOf(t, "ganeti")
	c.answer(t, 0, master)

	for node := range c.nodes {
		t.Log(c.on(node, "set -e; lockstep ganeti swap --confd --mond"))
	}
	c.daemonsOf(t, "lockstepd")
	for node := range c.nodes {
		c.answer(t, node, master)
	}
	answers := make(chan string, 1)
	go func() {
		out, _ := c.run(2, "MASTER="+next+"\n"+asking)
		answers <- out
	}()
	c.on(2, "until test -e /tmp/asked; do sleep 0.1; done")
	c.failover(t, 1)
	require.Equal(t, "node1 "+master+"\nnode1 "+next+"\nnode2 "+master+"\nnode2 "+next+"\nnode3 has no configuration\n", <-answers)
	for node := range c.nodes {
		c.answer(t, node, next)
	}
	// lockstep's client gets datagrams from the address that it asks only, which is not the master's first one.
	require.Equal(t, next+"\n", c.on(2, "lockstep confd query master --data-dir /var/lib/ganeti --address 192.0.2.10:1814"))

	for node := range c.nodes {
		t.Log(c.on(node, "set -e; lockstep ganeti back"))
	}
	c.daemonsOf(t, "ganeti")
	c.answer(t, 0, next)
}
