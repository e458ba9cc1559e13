# Asks nodes for the serial number of their configuration with Ganeti's own client, until standard input ends. Each line of the output has
# the time before a round, the highest serial number in its answers with status 0 (-1: there was none), and the number of these.
#
# Arguments: the directory of Ganeti's modules, the file of the key, the port, the addresses.
import select
import sys
import time

sys.path.insert(0, sys.argv[1])
from ganeti import constants
from ganeti.confd import client

answered = {}


def callback(up):
    if up.type == client.UPCALL_REPLY and up.server_reply.status == constants.CONFD_REPL_STATUS_OK:
        answered.setdefault(up.salt, {})[up.server_ip] = up.server_reply.answer


nodes = sys.argv[4:]
confd = client.ConfdClient(open(sys.argv[2]).read(), nodes, callback, port=int(sys.argv[3]))
while not select.select([sys.stdin], [], [], 0)[0]:
    request = client.ConfdClientRequest(type=constants.CONFD_REQ_CONFIG_QUERY, query="/serial_no")
    began = time.time()
    confd.SendRequest(request, args=None, coverage=-1, async_=False)
    end = began + 1
    while time.time() < end and len(answered.get(request.rsalt, {})) < len(nodes):
        confd.ReceiveReply(timeout=0.05)
        if request.rsalt in answered:  # the others have a little longer
            end = min(end, time.time() + 0.15)
    got = answered.pop(request.rsalt, {})
    print("%.6f %d %d" % (began, max([-1] + [int(serial) for serial in got.values()]), len(got)), flush=True)
