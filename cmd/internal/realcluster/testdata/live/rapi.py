"""Reads all objects with Ganeti's client of the remote API, and with --change changes some. It prints the answers as JSON."""
import json, sys
import pycurl
from ganeti.rapi import client

pycurl.global_init(pycurl.GLOBAL_ALL)
rapi = client.GanetiRapiClient("127.0.0.1", username="operator", password="secret")


def show(name, call, *args, **kwargs):
    try:
        result = call(*args, **kwargs)
    except client.GanetiApiError as err:
        result = {"error": err.code}
    print(name, *args)
    print(json.dumps(result, sort_keys=True))
    return result


def job(name, call, *args, **kwargs):
    done = rapi.WaitForJobCompletion(call(*args, **kwargs), period=0.2)
    print(name, *args)
    print(json.dumps(done))


show("version", rapi.GetVersion)
show("os", rapi.GetOperatingSystems)
for kind, plural, names in (("Instance", "Instances", ["runs", "remote.gnt.example", "nosuch"]), ("Node", "Nodes", ["node2.gnt.example", "nosuch"]),
                            ("Group", "Groups", ["default", "nosuch"]), ("Network", "Networks", ["lan", "nosuch"])):
    show(plural, getattr(rapi, "Get" + plural))
    show(plural + " bulk", getattr(rapi, "Get" + plural), bulk=True)
    for name in names:
        show(kind, getattr(rapi, "Get" + kind), name)
        if name != "nosuch":
            show(kind + " tags", getattr(rapi, "Get" + kind + "Tags"), name)
show("cluster tags", rapi.GetClusterTags)
show("role", rapi.GetNodeRole, "node2.gnt.example")
show("console", rapi.GetInstanceConsole, "runs")
show("query", rapi.Query, "instance", ["name", "status"], ["==", "name", "runs"])
if "--change" in sys.argv:
    job("add tags", rapi.AddInstanceTags, "runs.gnt.example", ["api"])
    job("delete tags", rapi.DeleteInstanceTags, "runs.gnt.example", ["api"])
    job("reboot", rapi.RebootInstance, "runs.gnt.example", reboot_type="hard")
    job("modify", rapi.ModifyInstance, "runs.gnt.example", beparams={"vcpus": 2})
    job("create", rapi.CreateInstance, "create", "api.gnt.example", "diskless", [], [], os="shell+default", pnode="node1.gnt.example",
        name_check=False, ip_check=False, no_install=True, start=False)
    job("rename group", rapi.RenameGroup, "second", "third")
    job("rename group", rapi.RenameGroup, "third", "second")
    job("assign", rapi.AssignGroupNodes, "default", ["node2.gnt.example"])
    job("grow", rapi.GrowInstanceDisk, "remote.gnt.example", 1, 8)
    job("modify network", rapi.ModifyNetwork, "lan", gateway="203.0.113.1")
    job("info", rapi.GetInstanceInfo, "runs.gnt.example")
    job("delete", rapi.DeleteInstance, "api.gnt.example")
    job("unknown instance", rapi.StartupInstance, "nosuch.gnt.example")
