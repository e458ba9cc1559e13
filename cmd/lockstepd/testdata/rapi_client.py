"""Ganeti's RAPI client, unmodified, against a daemon: HOST PORT USER PASSWORD."""

import sys
import time

import pycurl

from ganeti.rapi import client


def refused(code, call, *args, **kwargs):
    """The call must fail with this status code."""
    try:
        result = call(*args, **kwargs)
    except client.GanetiApiError as err:
        assert err.code == code, "%s: %s" % (err.code, err)
        return str(err)
    raise AssertionError("%r, and not an error %d" % (result, code))


def main():
    host, port, user, password = sys.argv[1:]
    pycurl.global_init(pycurl.GLOBAL_ALL)
    rapi = client.GanetiRapiClient(host, port=int(port), username=user, password=password)

    assert rapi.GetVersion() == 2
    assert client.INST_CREATE_REQV1 in rapi.GetFeatures()
    info = rapi.GetInfo()
    assert info["name"] and info["vg_name"] == info["volume_group_name"]

    # A job, waited for in both ways.
    job = rapi.RedistributeConfig(reason="to see whether it works")
    assert rapi.WaitForJobCompletion(job, period=0.05, retries=400) is True
    change = rapi.WaitForJobChange(job, ["status"], None, None)
    assert change == {"job_info": ["success"], "log_entries": []}, change
    status = rapi.GetJobStatus(job)
    assert status["status"] == "success" and status["id"] == job, status
    reasons = [entry[:2] for entry in status["ops"][0]["reason"]]
    assert reasons[:2] == [["gnt:user", "to see whether it works"], ["gnt:library:rlib2:redist_config", ""]], reasons
    assert job in rapi.GetJobs()
    bulk = rapi.GetJobs(bulk=True)
    assert [j["status"] for j in bulk if j["id"] == job] == ["success"], bulk
    assert rapi.ModifyCluster(candidate_pool_size=10) == job + 1
    refused(404, rapi.GetJobStatus, 999999)
    refused(404, rapi.WaitForJobChange, 999999, ["status"], None, None)
    assert "compression_tools" in refused(403, rapi.ModifyCluster, compression_tools=["gzip"])
    refused(400, rapi.ModifyCluster, no_such_parameter=1)

    # Objects of the cluster, of which this daemon has a master node and its group. Changes are jobs.
    assert rapi.GetInstances() == [] and rapi.GetInstances(bulk=True) == []
    assert rapi.GetNetworks() == [] and rapi.GetNetworks(bulk=True) == []
    node, = rapi.GetNodes()
    assert rapi.GetNode(node)["name"] == node and rapi.GetNodes(bulk=True)[0]["pip"]
    assert rapi.GetNodeRole(node) == "master"
    group, = rapi.GetGroups()
    assert rapi.GetGroup(group)["node_list"] == [node]
    assert rapi.GetClusterTags() == [] and rapi.GetNodeTags(node) == []
    refused(404, rapi.GetInstance, "absent")
    refused(404, rapi.GetInstanceConsole, "absent")
    for submit in (lambda: rapi.AddClusterTags(["a"]), lambda: rapi.StartupInstance("absent"), lambda: rapi.CreateGroup("g2"),
                   lambda: rapi.SetNodeRole(node, "master-candidate"), lambda: rapi.ModifyNode(node, drained=False)):
        assert isinstance(submit(), int)
    refused(400, rapi.SetNodeRole, node, "master")

    # Filter rules: a job that one holds back is canceled.
    uuid = rapi.AddFilter(3, [["opcode", ["=", "OP_ID", "OP_CLUSTER_REDIST_CONF"]]], "PAUSE")
    assert rapi.GetFilters() == [uuid]
    rule = rapi.GetFilter(uuid)
    assert rule["priority"] == 3 and rule["action"] == "PAUSE" and rule["uuid"] == uuid, rule
    assert rule["reason_trail"][0][0] == "gnt:client", rule
    held = rapi.RedistributeConfig()
    assert rapi.GetJobStatus(held)["status"] == "queued"
    done, text = rapi.CancelJob(held)
    assert done is True, text
    assert rapi.WaitForJobCompletion(held, period=0.05, retries=400) is False
    assert rapi.GetJobStatus(held)["status"] == "canceled"
    done, text = rapi.CancelJob(held)
    assert done is False, text
    assert rapi.ReplaceFilter(uuid, 1, [], ["RATE_LIMIT", 2]) == uuid
    assert rapi.GetFilters(bulk=True)[0]["action"] == ["RATE_LIMIT", 2]
    rapi.DeleteFilter(uuid)
    assert rapi.GetFilters() == []
    refused(404, rapi.GetFilter, uuid)
    refused(500, rapi.DeleteFilter, uuid)
    refused(400, rapi.AddFilter, "urgent", [], "PAUSE")
    refused(502, rapi.AddFilter, 1, [], "NOPE")

    # Queries.
    rows = rapi.Query("job", ["id", "status", "nosuch"], ["==", "id", job])
    assert rows["data"] == [[[0, job], [0, "success"], [1, None]]], rows
    assert rapi.Query("lock", ["name", "mode"])["data"] == []
    names = [f["name"] for f in rapi.QueryFields("job")["fields"]]
    assert "summary" in names and names == sorted(names), names
    assert [f["name"] for f in rapi.QueryFields("job", fields=["id"])["fields"]] == ["id"]
    refused(502, rapi.Query, "nosuch", ["id"])

    wrong = client.GanetiRapiClient(host, port=int(port), username=user, password="wrong")
    refused(401, wrong.GetJobs)
    nobody = client.GanetiRapiClient(host, port=int(port))
    assert rapi.GetVersion() == 2
    for call in (nobody.GetVersion, nobody.GetInfo, nobody.GetFeatures, nobody.GetJobs, nobody.GetFilters):
        refused(401, call)
    refused(401, nobody.GetJobStatus, job)

    # Guesses are refused, and the client says so; the next login after the pause is good.
    codes = []
    while 429 not in codes:
        assert len(codes) < 100, codes
        try:
            wrong.GetJobs()
        except client.GanetiApiError as err:
            codes.append(err.code)
    assert set(codes) == {401, 429}, codes
    for _ in range(100):
        try:
            assert job in rapi.GetJobs()
            break
        except client.GanetiApiError as err:
            assert err.code == 429, err
            time.sleep(0.1)
    else:
        raise AssertionError("the right password is refused for good")
    print("all is well")


if __name__ == "__main__":
    main()
