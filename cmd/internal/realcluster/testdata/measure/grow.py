"""Adds synthetic instances without disks to the configuration of a stopped cluster: grow.py COUNT."""

import json
import sys
import time

PATH = "/var/lib/ganeti/config.data"
with open(PATH) as f:
  config = json.load(f)
node = config["cluster"]["master_node"]
for n in range(int(sys.argv[1])):
  uuid = "00000000-0000-4000-8000-%012d" % n
  config["instances"][uuid] = {
    "name": "synthetic%d.gnt.example" % n, "uuid": uuid, "primary_node": node, "os": "shell+default", "hypervisor": "fake",
    "hvparams": {}, "beparams": {"maxmem": 128, "minmem": 128}, "osparams": {}, "osparams_private": {}, "admin_state": "down",
    "admin_state_source": "admin", "nics": [{"mac": "aa:00:01:%02x:%02x:00" % (n // 256, n % 256), "nicparams": {}, "ip": None,
      "uuid": "00000000-0000-4000-9000-%012d" % n, "name": None, "network": None}], "disks": [],
    "disks_active": False, "serial_no": 1, "ctime": time.time(), "mtime": time.time(), "tags": []}
config["serial_no"] += 1
with open(PATH, "r+") as f:
  f.write(json.dumps(config))
  f.truncate()
