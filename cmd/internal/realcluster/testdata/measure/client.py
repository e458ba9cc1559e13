"""Submits jobs and waits for them: client.py many|each COUNT OPCODE. It prints the seconds, of all or of each."""

import json
import socket
import sys
import time

s = socket.socket(socket.AF_UNIX)
s.connect("/run/ganeti/socket/ganeti-query")
rest = b""


def call(method, *args):
  global rest
  s.sendall(json.dumps({"method": method, "args": args}).encode() + b"\3")
  while b"\3" not in rest:
    rest += s.recv(1 << 20)
  frame, _, rest = rest.partition(b"\3")
  answer = json.loads(frame)
  assert answer["success"], answer
  return answer["result"]


def wait(job):
  before = None
  while True:
    change = call("WaitForJobChange", job, ["status"], before, None, 60)
    if change == "nochange":
      continue
    before = change[0]
    if before[0] in ("success", "error", "canceled"):
      assert before[0] == "success", call("QueryJobs", [job], ["status", "opresult"])
      return


def main():
  mode, count, text = sys.argv[1], int(sys.argv[2]), sys.argv[3]
  jobs = [[dict(json.loads(text.replace("%d", str(n))), reason=[])] for n in range(count)]
  if mode == "many":
    start = time.time()
    ids = [job for _, job in call("SubmitManyJobs", jobs)]
    for job in ids:
      wait(job)
    print(time.time() - start)
  elif mode == "submit":
    print(*[job for _, job in call("SubmitManyJobs", jobs)])
  else:
    for job in jobs:
      start = time.time()
      wait(call("SubmitJob", job))
      print(time.time() - start)


main()
