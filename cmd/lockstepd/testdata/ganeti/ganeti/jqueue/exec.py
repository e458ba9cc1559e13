"""A stand-in for Ganeti's job process, for tests of a daemon without Ganeti.

It goes through the handshake, writes the job file as Ganeti does, and handles its signals. STANDIN_DATA and STANDIN_RUN are
the directories. A job for which the file STANDIN_DATA/slow-JOB exists renames it to slow-JOB-reached before it installs its
signal handlers, and waits until it is removed. A job for which the file STANDIN_DATA/sleep-JOB exists starts a process, and
writes its pid to slept-JOB. An opcode ends when the file STANDIN_DATA/go-JOB-OPCODE or go-all exists, and fails if that file has a
text. A job for which the file STANDIN_DATA/stop-JOB has the name of a step writes its pid to stopped-JOB in that step, and waits until
the first file is gone. If the file STANDIN_DATA/attempt has a number of seconds, each opcode takes the big lock as Ganeti's
program does: in attempts that last so long it asks WConfD, and after each it frees what it has and looks at a cancel; exclusively
if STANDIN_DATA/exclusive-JOB exists. While STANDIN_DATA/hold-answer exists the fork server does not answer for a child that it has made. Each opcode
that begins is a line in STANDIN_DATA/ran.
"""

import errno
import fcntl
import json
import os
import signal
import socket
import sys
import time

DATA, RUN = os.environ["STANDIN_DATA"], os.environ["STANDIN_RUN"]
JOB = int(sys.argv[1]) if __name__ == "__main__" else 0  # the fork server loads it under another name
FILE = os.path.join(DATA, "queue", "job-%d" % JOB)
canceled = False
woken = False
priority = None


def hold_answers():
  original = os.pidfd_open

  def pidfd_open(pid, *args):
    while os.path.exists(os.path.join(DATA, "hold-answer")):
      time.sleep(0.005)
    return original(pid, *args)
  os.pidfd_open = pidfd_open


def reach(step):
  stop = os.path.join(DATA, "stop-%d" % JOB)
  try:
    with open(stop) as f:
      if f.read() != step:
        return
  except OSError:
    return
  stopped = os.path.join(DATA, "stopped-%d" % JOB)
  with open(stopped + ".new", "w") as f:
    f.write(str(os.getpid()))
  os.rename(stopped + ".new", stopped)
  while os.path.exists(stop):
    time.sleep(0.005)


def cancel(_signum, _frame):
  global canceled
  canceled = True


def wake(_signum, _frame):
  global woken
  woken = True


class Canceled(Exception):
  pass


class WConfD(object):
  def __init__(self, livelock):
    self.me = [JOB, livelock, os.getpid()]
    self.sock = None

  def call(self, method, *args):
    while True:  # a daemon may restart at any time
      try:
        if self.sock is None:
          self.sock = socket.socket(socket.AF_UNIX)
          self.sock.connect(os.path.join(RUN, "socket", "ganeti-wconfd"))
        self.sock.sendall(json.dumps({"method": method, "args": args}).encode() + b"\x03")
        data = b""
        while not data.endswith(b"\x03"):
          piece = self.sock.recv(65536)
          if not piece:
            raise OSError("closed")
          data += piece
        answer = json.loads(data[:-1])
        assert answer["success"], answer
        return answer["result"]
      except OSError:
        self.sock = None
        time.sleep(0.02)

  def acquire(self, seconds):
    global woken
    exclusive = os.path.exists(os.path.join(DATA, "exclusive-%d" % JOB))
    while True:
      if canceled:
        raise Canceled()
      woken = False
      self.call("updateLocksWaiting", self.me, 0, [["cluster/BGL", "exclusive" if exclusive else "shared"]])
      pending = self.call("hasPendingRequest", self.me)
      end = time.time() + seconds
      while pending and time.time() < end:
        time.sleep(0.05)
        if woken:
          pending = self.call("hasPendingRequest", self.me)
      if not pending or not self.call("hasPendingRequest", self.me):
        return
      self.free()

  def free(self):
    self.call("freeLocksLevel", self.me, "cluster")


def reprioritise(_signum, _frame):
  global priority
  with open(os.path.join(RUN, "luxidmessages", "%d.prio" % JOB)) as f:
    priority = int(f.read())


def now():
  t = time.time()
  return [int(t), int(t * 1e6) % 1000000]


def receive():
  data = b""
  while not data.endswith(b"\x03"):
    piece = os.read(0, 4096)
    if not piece:
      sys.exit(1)
    data += piece
  return data[:-1].decode()


def write(job):
  new = "%sx%d.new" % (FILE, os.getpid())
  with open(new, "w") as f:
    json.dump(job, f)
    f.write("\n")
    f.flush()
    os.fsync(f.fileno())
  os.chmod(new, 0o640)
  os.rename(new, FILE)


def start_sleeper():
  pid = os.fork()
  if pid == 0:
    os.closerange(0, 100)
    time.sleep(300)
    os._exit(0)
  path = os.path.join(DATA, "slept-%d" % JOB)
  with open(path + ".new", "w") as f:
    f.write(str(pid))
  os.rename(path + ".new", path)


def run(job, number, op, secret, livelock):
  if priority is not None:
    op["priority"] = priority
  op["start_timestamp"] = now()
  job["start_timestamp"] = job["start_timestamp"] or op["start_timestamp"]
  op["status"] = "waiting"
  write(job)
  attempt = os.path.join(DATA, "attempt")
  locks = WConfD(livelock) if os.path.exists(attempt) else None
  if locks:
    with open(attempt) as f:
      locks.acquire(float(f.read()))
  op["exec_timestamp"] = now()
  op["status"] = "running"
  serial = 1 + sum(len(o["log"]) for o in job["ops"])
  op["log"].append([serial, now(), "message", "secret %s, debug %s, modules %s" %
                    (json.dumps(secret), os.environ["GNT_DEBUG"], os.environ["PYTHONPATH"])])
  write(job)
  with open(os.path.join(DATA, "ran"), "a") as f:
    f.write("%d %d\n" % (JOB, number))
  reach("running")
  go, always = os.path.join(DATA, "go-%d-%d" % (JOB, number)), os.path.join(DATA, "go-all")
  while not os.path.exists(go):
    if os.path.exists(always):
      go = always
      break
    time.sleep(0.005)
  with open(go) as f:
    failure = f.read()
  if locks:
    locks.free()
  op["end_timestamp"] = now()
  op["status"], op["result"] = ("error", failure) if failure else ("success", None)


def main():
  reach("spawned")
  path = os.path.join(RUN, "livelocks", "job_%06d_%d" % (JOB, int(time.time())))
  lock = open(path, "w")
  fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
  reach("locked")
  os.write(1, path.encode() + b"\x03")
  reach("named")
  if receive() != "":
    sys.exit(1)
  reach("permitted")
  with open(FILE) as f:
    assert json.load(f)["livelock"] == path
  os.write(1, b"\x03")
  reach("requested")
  secrets = json.loads(receive())
  reach("handed over")
  if os.path.exists(os.path.join(DATA, "raises-%d" % JOB)):  # as after an exception that Ganeti's program logs
    os.unlink(path)
    return
  if os.path.exists(os.path.join(DATA, "sleep-%d" % JOB)):
    start_sleeper()
  slow = os.path.join(DATA, "slow-%d" % JOB)
  if os.path.exists(slow):
    os.rename(slow, slow + "-reached")
    while os.path.exists(slow + "-reached"):
      time.sleep(0.005)
  signal.signal(signal.SIGTERM, cancel)
  signal.signal(signal.SIGHUP, wake)
  signal.signal(signal.SIGUSR1, reprioritise)
  with open(FILE) as f:
    job = json.load(f)
  end = "success"
  for number, op in enumerate(job["ops"]):
    if canceled and end == "success":
      end = "canceled"
    if end == "success":
      try:
        run(job, number, op, secrets[number], path)
        end = op["status"]
      except Canceled:
        op["status"], op["result"], end = "canceled", "Job canceled by request", "canceled"
    else:
      op["status"], op["result"] = end, "the job has ended before"
    if end == "success" and number + 1 < len(job["ops"]):
      write(job)
  job["end_timestamp"] = now()
  write(job)
  reach("ended")
  os.unlink(path)


if __name__ != "__main__":
  hold_answers()
else:
  try:
    main()
  except OSError as err:
    if err.errno != errno.EPIPE:
      raise
