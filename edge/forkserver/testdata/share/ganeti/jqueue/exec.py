"""A stand-in for Ganeti's job program: it tells its state, and ends as its standard input says."""

import atexit
import json
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time

from ganeti import standin


def read(path):
  with open(path, "rb") as f:
    return f.read().decode("latin-1")


def descriptors():
  found = {}
  for name in sorted(os.listdir("/proc/self/fd"), key=int):
    try:
      info = read("/proc/self/fdinfo/" + name).split()
      found[name] = [os.readlink("/proc/self/fd/" + name), info[3], os.get_inheritable(int(name))]
    except OSError:
      pass  # the descriptor of the list
  return found


def handler(number):
  found = signal.getsignal(number)
  return found.__name__ if callable(found) else str(int(found))


def state():
  status = dict(line.split(":\t", 1) for line in read("/proc/self/status").splitlines() if ":\t" in line)
  fields = read("/proc/self/stat").rpartition(")")[2].split()
  numbers = [n for n in range(1, signal.NSIG) if n not in (32, 33)]
  return {
    "pid": os.getpid(), "ppid": os.getppid(), "pgrp": os.getpgrp(), "session": os.getsid(0), "terminal": fields[4],
    "arguments": sys.argv, "command line": read("/proc/self/cmdline").rstrip("\0").split("\0"), "name": read("/proc/self/comm"),
    "path": sys.path, "main": [__name__, __file__, sys.modules["__main__"].__dict__ is globals()],
    "environment": dict(os.environ), "directory": os.getcwd(), "flags": list(sys.flags),
    "descriptors": descriptors(), "signals": dict((n, handler(n)) for n in numbers),
    "kernel's signals": [status[key] for key in ("SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd")],
    "users": [os.getresuid(), os.getresgid(), os.getgroups()], "mask of modes": status["Umask"],
    "limits": read("/proc/self/limits"), "control groups": read("/proc/self/cgroup"), "priority": [fields[15], fields[16]],
    "capabilities": [status[key] for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")],
    "oom": read("/proc/self/oom_score_adj"), "processors": sorted(os.sched_getaffinity(0)), "threads": status["Threads"],
    "core": resource.getrlimit(resource.RLIMIT_CORE), "zone": time.tzname,
    "loaded by": standin.LOADED_BY, "random": random.random(), "urandom": os.urandom(8).hex(),
    "streams": [[s.fileno(), s.encoding, s.errors, s.line_buffering] for s in (sys.stdin, sys.stdout, sys.stderr)],
    "namespaces": dict((name, os.readlink("/proc/self/ns/" + name)) for name in sorted(os.listdir("/proc/self/ns"))),
    "scheduler": [os.sched_getscheduler(0), os.sched_getparam(0).sched_priority], "timers": [signal.getitimer(n) for n in range(3)],
    "core filter": read("/proc/self/coredump_filter"), "login": read("/proc/self/loginuid"), "timer slack": read("/proc/self/timerslack_ns"),
    "at exit": atexit._ncallbacks(), "hooks": [sys.excepthook is sys.__excepthook__, sys.gettrace(), sys.getprofile()],
    "directory of temporary files": tempfile.gettempdir(), "wakeup": signal.set_wakeup_fd(-1),
    "recursion": sys.getrecursionlimit(), "interval": sys.getswitchinterval(), "collector": __import__("gc").isenabled(),
  }


def main():
  print("the state:", json.dumps(state()), flush=True)
  word = sys.stdin.readline().strip()
  atexit.register(lambda: print("at the end"))
  if word == "exit":
    sys.exit(7)
  if word == "raise":
    raise ValueError("as told")
  if word == "signals":
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1):
      signal.signal(number, lambda number, _: print(signal.Signals(number).name, flush=True))
    # A signal just before a read would have its handler run when the read has ended. With a descriptor for signals the wait ends.
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    print("ready", flush=True)
    while sys.stdin not in select.select([woken, sys.stdin], [], [])[0]:
      os.read(woken, 100)
    sys.stdin.readline()
  print("unwritten", end=" ")


if __name__ == "__main__":
  main()
