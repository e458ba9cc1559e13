"""Checks the repair of the wait for locks. Arguments: the directory of lockstep_repairs.py, the directory of Ganeti's modules, and
"stand-in" if these are not Ganeti's."""

import hashlib
import inspect
import os
import signal
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path[:0] = sys.argv[1:3]

from ganeti import mcpu
import lockstep_repairs as repairs

LONG = 60.0  # seconds; no wait of the test takes so long
original = mcpu.Processor._RequestAndWait
if len(sys.argv) > 3:
  repairs.KNOWN["lock-wait"] = {hashlib.sha256(inspect.getsource(original).encode("utf-8")).hexdigest()}
repairs.repair_lock_wait()
assert mcpu.Processor._RequestAndWait is not original


def hup(_signum, _frame):
  mcpu.sighupReceived[0] = True


signal.signal(signal.SIGHUP, hup)  # as Ganeti's job program


def no_sleep(_seconds):
  raise AssertionError("it sleeps")


time.sleep = no_sleep


class Locks(object):
  """Stands in for the lock manager. answers are those to HasPendingRequest; action is called at each question."""

  def __init__(self, answers, action=lambda count: None):
    self.answers, self.action, self.asked, self.updates = answers, action, 0, []

  def Client(self):
    return self

  def UpdateLocksWaiting(self, context, priority, request):
    self.updates.append((context, priority, request))

  def HasPendingRequest(self, _context):
    self.asked += 1
    self.action(self.asked)
    return self.answers[min(self.asked, len(self.answers)) - 1]


def wait(locks, timeout, callbacks=None):
  """Requests a lock. Returns whether it was granted, and the seconds."""
  processor = mcpu.Processor.__new__(mcpu.Processor)
  processor.wconfd, processor._wconfdcontext, processor._cbs = locks, "context", callbacks
  started = time.monotonic()
  try:
    processor._RequestAndWait(["request"], timeout)
    granted = True
  except mcpu.LockAcquireTimeout:
    granted = False
  assert signal.set_wakeup_fd(-1) == -1, "the descriptor for signals is closed"
  assert not mcpu.sighupReceived[0]
  return granted, time.monotonic() - started


def send_hup():
  os.kill(os.getpid(), signal.SIGHUP)


def blocked(pid):
  """Waits until the process waits in a system call for its descriptor or time."""
  while True:
    with open("/proc/%d/wchan" % pid) as f:
      place = f.read()
    with open("/proc/%d/stat" % pid) as f:
      state = f.read().rpartition(")")[2].split()[0]
    if state == "S" and ("poll" in place or "select" in place or place in ("", "0")):
      return


def hup_of_another(times=1):
  """A process that sends the signal when this one waits."""
  parent = os.getpid()
  child = os.fork()
  if child == 0:
    for _ in range(times):
      blocked(parent)
      os.kill(parent, signal.SIGHUP)
    os._exit(0)
  return child


# A lock that is free.
locks = Locks([False])
assert wait(locks, LONG)[0] and locks.asked == 1
assert locks.updates == [("context", 0, ["request"])]

# The priority is that of the job.
class Callbacks(object):
  @staticmethod
  def CurrentPriority():
    return -7


locks = Locks([False])
wait(locks, LONG, Callbacks())
assert locks.updates[0][1] == -7

# The signal comes while the process waits, and ends the wait: there is one question after it, and no sleep.
locks = Locks([True, False])
child = hup_of_another()
granted, seconds = wait(locks, LONG)
os.waitpid(child, 0)
assert granted and locks.asked == 2 and seconds < LONG / 2, (granted, locks.asked, seconds)

# It comes between the request and the first wait: it is not lost.
locks = Locks([True, False], lambda count: send_hup() if count == 1 else None)
granted, seconds = wait(locks, LONG)
assert granted and locks.asked == 2 and seconds < LONG / 2

# It comes while the process asks: the process asks again.
locks = Locks([True, True, False], lambda count: send_hup() if count in (1, 2) else None)
granted, seconds = wait(locks, LONG)
assert granted and locks.asked == 3 and seconds < LONG / 2

# A signal of someone else does not end the wait.
locks = Locks([True, True, True, False])
child = hup_of_another(3)
granted, seconds = wait(locks, LONG)
os.waitpid(child, 0)
assert granted and 2 <= locks.asked <= 4, locks.asked  # signals may be merged

# A signal before the request does not count.
mcpu.sighupReceived[0] = True
locks = Locks([True])
granted, seconds = wait(locks, 0.2)
assert not granted and locks.asked == 2 and seconds >= 0.2, (granted, locks.asked, seconds)

# At the end of the time the process asks once more.
locks = Locks([True, False])
assert wait(locks, 0.1)[0]
assert not wait(Locks([True]), 0)[0]
assert threading.active_count() == 1
print("ok")
