"""Repairs of what Ganeti's job process does in vain.

A repair replaces one function. It is off if the source of the function is not the
known one. KNOWN has the SHA-256 of the sources.
"""

import hashlib
import inspect
import logging
import os
import select
import signal
import time

import lockstep_configuration

KNOWN = {
  "certificates": {"bfe6f3e249bcb20aef99660358c327bc0dfc558b52f9620e56e7be26451ccb0b"},  # 3.0.2
  "lock-wait": {"de185a7a5b02a99c1eee30f86facfdfc1b399c092286f51384779c23584aac11"},
  "configuration": {"6c920e05986149edf556cb644dc49b48c4262941878a75bb3356e4a4396c4c18"},
}


def require_known(name, function):
  digest = hashlib.sha256(inspect.getsource(function).encode("utf-8")).hexdigest()
  if digest not in KNOWN[name]:
    raise LookupError("%s is not the known function" % function.__qualname__)


def repair_certificates():
  """Makes an RPC read the cluster's certificate only. libcurl would add those of its default directory."""
  import pycurl
  from ganeti.rpc import node
  original = node._ConfigRpcCurl
  require_known("certificates", original)

  def configure(curl):
    original(curl)
    curl.unsetopt(pycurl.CAPATH)

  node._ConfigRpcCurl = configure


class Wakeup(object):
  """Waits until a signal comes. No signal between two waits is lost."""

  def __enter__(self):
    self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    self._before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
    return self

  def __exit__(self, *_):
    signal.set_wakeup_fd(self._before)
    os.close(self._read)
    os.close(self._write)

  def wait(self, seconds):
    if select.select([self._read], [], [], seconds)[0]:
      os.read(self._read, 4096)


def repair_lock_wait():
  """Makes the signal that a lock is there end the wait. The wait was in steps of 50 ms that no signal ended."""
  from ganeti import constants
  from ganeti import mcpu
  require_known("lock-wait", mcpu.Processor._RequestAndWait)
  flag = mcpu.sighupReceived

  def forget_signal():
    if flag[0]:
      logging.warning("Ignoring unexpected SIGHUP")
    flag[0] = False

  def wait_for_grant(has_pending, timeout):
    end = time.time() + timeout
    with Wakeup() as wakeup:
      while True:
        if flag[0]:
          flag[0] = False  # before the question: a later signal counts
          if not has_pending():
            return False
        left = end - time.time()
        if left <= 0:
          return has_pending()
        wakeup.wait(left)

  def request_and_wait(self, request, timeout):
    """Requests locks and waits until they are granted. LockAcquireTimeout: they were not in time."""
    logging.debug("Trying %ss to request %s for %s", timeout, request, self._wconfdcontext)
    priority = self._cbs.CurrentPriority() if self._cbs else None
    if priority is None:
      priority = constants.OP_PRIO_DEFAULT
    forget_signal()

    def has_pending():
      return self.wconfd.Client().HasPendingRequest(self._wconfdcontext)

    self.wconfd.Client().UpdateLocksWaiting(self._wconfdcontext, priority, request)
    pending = has_pending()
    if pending:
      pending = wait_for_grant(has_pending, timeout)
      flag[0] = False
    logging.debug("Finished trying. Pending: %s", pending)
    if pending:
      raise mcpu.LockAcquireTimeout()

  mcpu.Processor._RequestAndWait = request_and_wait


class Repairs(object):
  """The repairs that were asked for. off has the reasons of those that are not made."""

  def __init__(self, wanted):
    self._wanted, self._held, self.off = wanted, None, {}

  def apply(self):
    for name in self._wanted:
      try:
        if name == "certificates":
          repair_certificates()
        elif name == "lock-wait":
          repair_lock_wait()
        elif name == "configuration":
          self._held = lockstep_configuration.repair(require_known)
        else:
          raise LookupError("no such repair")
      except Exception as err:  # pylint: disable=W0703
        self.off[name] = "%s: %s" % (type(err).__name__, err)

  def refresh(self):
    """Brings what is held for children up to date."""
    if self._held is not None:
      self._held.refresh()
