"""Forks the processes of jobs from one that has loaded Ganeti's job program.

Started by lockstepd, which is at the other end of descriptor 3, a socket that
keeps the bounds of messages. A message is a JSON object.

  daemon: {"request": N, "job": ID}, a line feed, the environment as entries that end
          in a zero byte, and descriptors 0 to 2
  server: {"files": [[PATH, DEVICE, INODE, MTIME, CTIME], ...]}
          {"ready": true, "off": {REPAIR: REASON}}
          {"request": N, "pid": PID} and a pidfd
          {"request": N, "error": TEXT}
          {"pid": PID, "status": WAIT STATUS}
          {"unusable": TEXT}, and the server ends

The server reads the environment of a job into one buffer, and writes zeros over it
after the fork: only the child makes objects of it. So no memory of the server, and
of later children, has content of a request.

The server ends when the daemon ends. When the daemon closes its sending end, the
server takes no more requests, and ends after the last of its children. A child
leads a session, and does not notice the end of the server.
"""

import sys

sys.dont_write_bytecode = True

import lockstep_repairs as repairs  # from the directory of this file

del sys.path[0]

import array
import atexit
import gc
import json
import os
import random
import select
import signal
import socket
import stat
import threading
import time
import types

SOCKET = 3
REQUEST_MAX = 256 * 1024  # bytes
FILES_A_MESSAGE = 100


class Unusable(Exception):
  """No child of this process would be like an executed one."""


def send(sock, message, descriptors=()):
  data = json.dumps(message).encode("ascii")
  rights = []
  if descriptors:
    rights.append((socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors)))
  sock.sendmsg([data], rights)


class Request(object):
  """A request of the daemon. It owns the descriptors. Its environment is a part of the Inbox."""

  def __init__(self, number, job, environment, descriptors):
    self.number, self.job, self.environment, self.descriptors = number, job, environment, descriptors

  def close(self):
    for fd in self.descriptors:
      os.close(fd)
    self.descriptors = []


def whole(value, least):
  if type(value) is not int or value < least:
    raise ValueError("a number is wrong")
  return value


def parse(data, descriptors):
  """Returns the Request of a message, a memoryview. ValueError: the message is not one."""
  length = data.obj.find(b"\n", 0, len(data))
  if length < 0:
    raise ValueError("a request has one line")
  message, environment = json.loads(bytes(data[:length])), data[length + 1:]
  if type(message) is not dict or set(message) != {"request", "job"}:
    raise ValueError("the keys of a request are wrong")
  if len(descriptors) != 3:
    raise ValueError("a request has %d descriptors" % len(descriptors))
  if len(environment) and environment[-1] != 0:
    raise ValueError("an environment does not end")
  return Request(whole(message["request"], 1), whole(message["job"], 1), environment, descriptors)


def variables(environment):
  """Returns the variables of the environment of a request."""
  found = {}
  for entry in bytes(environment).split(b"\0"):
    name, equals, value = entry.partition(b"=")
    if name and equals:
      found[name] = value
  return found


class Inbox(object):
  """The place of the only request that the server has."""

  def __init__(self, sock):
    self._sock, self._buffer, self._used = sock, bytearray(REQUEST_MAX), 0

  def receive(self):
    """Returns the next Request, None at the end."""
    size = array.array("i").itemsize
    self._used, rights, flags, _ = self._sock.recvmsg_into([self._buffer], socket.CMSG_SPACE(16 * size), socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, payload in rights:
      if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
        descriptors.frombytes(payload[:len(payload) - len(payload) % size])
    if not self._used and not descriptors:
      return None
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
      raise ValueError("a request is too long")
    return parse(memoryview(self._buffer)[:self._used], list(descriptors))

  def clear(self):
    self._buffer[:self._used] = bytes(self._used)  # the same length: in place


def version(path):
  s = os.stat(path)
  return [path, s.st_dev, s.st_ino, s.st_mtime_ns, s.st_ctime_ns]


def program_files(script):
  """Returns the files whose content this process has loaded, with their versions."""
  paths = {script, os.path.realpath(sys.executable)}
  for module in list(sys.modules.values()):
    path = getattr(module, "__file__", None)
    if path and not module.__name__.startswith("lockstep_") and module.__name__ != "__main__":
      paths.add(os.path.abspath(path))
  return [version(path) for path in sorted(paths)]


def threads():
  return len(os.listdir("/proc/self/task"))


def descriptors():
  """Returns the open descriptors from 3 up."""
  names = os.listdir("/proc/self/fd")  # one of them is gone then
  return [int(name) for name in names if int(name) > 2 and os.path.exists("/proc/self/fd/" + name)]


def close_others(first):
  """Closes the descriptors from first up."""
  os.closerange(first, 1 + max([first] + descriptors()))


class Program(object):
  """Ganeti's job program, loaded."""

  def __init__(self, python, script, wanted):
    started = time.time_ns()
    self.python = python
    sys.path.insert(0, os.path.dirname(script))  # as of a script
    with open(script, "rb") as f:
      self.code = compile(f.read(), script, "exec")
    self.script = script
    self.repairs = repairs.Repairs(wanted)
    self._load()
    self.files = program_files(script)
    changed = [f[0] for f in self.files if f[4] >= started]
    if changed:
      raise Unusable("%s changed while it was loaded" % changed[0])
    self._check()

  def _load(self):
    """Imports what the program imports: its main function is not called, for the name of the module is another."""
    module = types.ModuleType("lockstep_preload")
    module.__file__ = self.script
    exec(self.code, module.__dict__)
    self.repairs.apply()

  def _check(self):
    if threads() != 1 or threading.active_count() != 1:
      raise Unusable("the program has threads")
    for fd in descriptors():
      if fd != SOCKET:
        raise Unusable("the program has opened %s" % os.readlink("/proc/self/fd/%d" % fd))

  def run(self):
    """Runs the program as the interpreter runs a script, and ends the process."""
    code = 1
    try:
      main = types.ModuleType("__main__")
      main.__file__ = self.script
      sys.modules["__main__"] = main
      try:
        exec(self.code, main.__dict__)
        code = 0
      except SystemExit as err:
        code = exit_code(err)
      except KeyboardInterrupt:
        finish()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
      except BaseException:  # pylint: disable=W0703
        sys.excepthook(*sys.exc_info())
      finish()
    finally:
      os._exit(code)


def exit_code(err):
  if err.code is None:
    return 0
  if isinstance(err.code, int):
    return err.code & 0xff
  print(err.code, file=sys.stderr)
  return 1


def finish():
  """Does what the interpreter does at its end, except to free memory."""
  threading._shutdown()
  atexit._run_exitfuncs()
  for stream in (sys.stdout, sys.stderr):
    try:
      stream.flush()
    except (OSError, ValueError):
      pass  # it may be closed


def argument_area():
  """Returns the place of the process's arguments in its memory: address and length."""
  with open("/proc/self/stat", "rb") as f:
    fields = f.read().rpartition(b")")[2].split()
  start, end = int(fields[45]), int(fields[46])
  return start, end - start


def set_title(words):
  """Replaces the arguments that others see. What is left of the area is zero."""
  start, length = argument_area()
  title = b"".join(word + b"\0" for word in words)
  if not start or len(title) > length:
    return
  fd = os.open("/proc/self/mem", os.O_WRONLY | os.O_CLOEXEC)
  try:
    os.pwrite(fd, title.ljust(length, b"\0"), start)
  finally:
    os.close(fd)


def be_child(sock, request, program):
  """Makes a new child like a process that was executed for the job."""
  os.setsid()
  for fd, own in zip(request.descriptors, range(3)):
    os.dup2(fd, own)
  sock.detach()
  close_others(3)
  signal.signal(signal.SIGCHLD, signal.SIG_IGN)
  signal.pthread_sigmask(signal.SIG_SETMASK, [])
  os.environb.clear()
  os.environb.update(variables(request.environment))
  job = str(request.job)
  set_title([os.fsencode(word) for word in (program.python, program.script, job)])
  sys.argv = [program.script, job]
  random.seed()
  gc.enable()


class Server(object):
  def __init__(self, sock, program):
    self.sock, self.program, self.inbox = sock, program, Inbox(sock)
    self.children = {}  # pid by pidfd
    self.poll = select.poll()
    self.poll.register(sock, select.POLLIN)
    self.takes_requests = True

  def run(self):
    while True:
      for fd, events in self.poll.poll():
        if fd in self.children:
          self.reap(fd)
        elif events & select.POLLIN:
          self.request()
        elif events & (select.POLLHUP | select.POLLERR | select.POLLNVAL):
          return  # the daemon has ended
      if not self.takes_requests and not self.children:
        return

  def request(self):
    request = self.inbox.receive()
    if request is None:
      self.takes_requests = False
      self.poll.modify(self.sock, 0)  # POLLHUP is reported
      return
    try:
      self.fork(request)
    finally:
      request.close()
      self.inbox.clear()
    self.program.repairs.refresh()

  def fork(self, request):
    try:
      if threads() != 1:
        raise Unusable("the server has threads")
      pid = os.fork()
    except OSError as err:
      send(self.sock, {"request": request.number, "error": str(err)})
      return
    if pid == 0:
      try:
        be_child(self.sock, request, self.program)
        self.program.run()
      except BaseException:  # pylint: disable=W0703
        sys.excepthook(*sys.exc_info())
      finally:
        os._exit(1)
    try:
      fd = os.pidfd_open(pid)
    except OSError as err:
      os.kill(pid, signal.SIGKILL)
      os.waitpid(pid, 0)
      send(self.sock, {"request": request.number, "error": str(err)})
      return
    self.children[fd] = pid
    self.poll.register(fd, select.POLLIN)
    request.close()  # before the answer: after it no end of the job's pipes is here
    send(self.sock, {"request": request.number, "pid": pid}, [fd])

  def reap(self, fd):
    pid = self.children.pop(fd)
    self.poll.unregister(fd)
    os.close(fd)
    _, status = os.waitpid(pid, 0)
    send(self.sock, {"pid": pid, "status": status})


def main():
  sock = socket.socket(fileno=SOCKET)
  sock.set_inheritable(False)
  try:
    if not stat.S_ISSOCK(os.fstat(SOCKET).st_mode):
      raise Unusable("descriptor 3 is no socket")
    python, script, wanted = sys.argv[1:4]  # what follows keeps room for a title
    close_others(SOCKET + 1)  # what the daemon was started with
    gc.disable()
    program = Program(python, script, [name for name in wanted.split(",") if name])
    gc.collect()
    gc.freeze()  # a collection in a child would copy all pages
    for i in range(0, len(program.files), FILES_A_MESSAGE):
      send(sock, {"files": program.files[i:i + FILES_A_MESSAGE]})
    program.repairs.refresh()
    send(sock, {"ready": True, "off": program.repairs.off})
    Server(sock, program).run()
  except (BrokenPipeError, ConnectionResetError):
    pass  # the daemon has ended
  except (Exception, SystemExit) as err:  # pylint: disable=W0703
    try:
      send(sock, {"unusable": "%s: %s" % (type(err).__name__, err)})
    except OSError:
      pass
  finally:
    os._exit(0)


if __name__ == "__main__":
  main()
