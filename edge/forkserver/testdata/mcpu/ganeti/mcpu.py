"""A stand-in for the part of Ganeti's module that the repair changes."""

sighupReceived = [False]


class LockAcquireTimeout(Exception):
  pass


class Processor(object):
  def _RequestAndWait(self, request, timeout):
    raise NotImplementedError("it is replaced")
