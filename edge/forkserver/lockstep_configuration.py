"""Hands the parsed configuration of Ganeti to the children of the fork server.

The server reads the configuration and keeps the parsed objects with the hash that
the daemon gives for it. A child asks for the hash, and uses the objects if the hash
is the same. It never uses them after it has changed one: then, and with another
hash, it reads the configuration as Ganeti's program does.
"""

import copy
import gc
import json
import logging
import socket
import time

HASH = "lockstepConfigHash"
EOM = b"\3"
TIMEOUT = 2.0  # seconds, for an answer of the daemon
PAUSE = 3  # between two readings, in durations of the last one

changed = [False]  # an object of the held configuration is not what the server has read


def noting(base, name):
  """Returns a method that does what that of the base does, and notes a change."""
  original = getattr(base, name)

  def method(self, *args, **kwargs):
    changed[0] = True
    return original(self, *args, **kwargs)
  return method


def tracked_container(base, mutators):
  """Returns a class of containers that note their changes. Copies of them do not."""
  members = {name: noting(base, name) for name in mutators}
  members["__slots__"] = ()
  members["__copy__"] = lambda self: base(self)
  members["__deepcopy__"] = lambda self, memo: copy.deepcopy(base(self), memo)
  members["__reduce_ex__"] = lambda self, _: (base, (base(self),))
  return type(base.__name__, (base,), members)


DICT_MUTATORS = ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update")
Dict = tracked_container(dict, DICT_MUTATORS)
List = tracked_container(list, ("__setitem__", "__delitem__", "__iadd__", "__imul__", "append", "clear", "extend", "insert",
                                "pop", "remove", "reverse", "sort"))
Set = tracked_container(set, ("__iand__", "__ior__", "__isub__", "__ixor__", "add", "clear", "difference_update", "discard",
                              "intersection_update", "pop", "remove", "symmetric_difference_update", "update"))


class Tracker(object):
  """Makes the objects of a configuration note their changes. ValueError: one of them cannot."""

  SIMPLE = (str, int, float, bool, bytes, type(None))

  def __init__(self, base, immutable):
    self._base, self._immutable, self._classes = base, immutable, {}

  def track(self, value):
    kind = type(value)
    if kind in self.SIMPLE or kind in self._immutable:
      return value
    if kind is dict:
      return Dict((key, self.track(member)) for key, member in value.items())
    if kind is list:
      return List(self.track(member) for member in value)
    if kind is set:
      return Set(value)  # the members cannot change
    if kind is tuple:
      return tuple(self.track(member) for member in value)
    if isinstance(value, self._base):
      for name in value.GetAllSlots():
        try:
          member = object.__getattribute__(value, name)
        except AttributeError:
          continue
        setattr(value, name, self.track(member))
      value.__class__ = self._class(kind)
      return value
    if isinstance(value, dict) and not value:  # a dictionary for private values
      value.__class__ = self._private(kind)
      return value
    raise ValueError("%s may change unseen" % kind)

  def _class(self, kind):
    """Returns the class of objects of that kind that note a change of an attribute. Copies of them do not."""
    if kind not in self._classes:
      def note_set(self, name, value):
        changed[0] = True
        object.__setattr__(self, name, value)

      def note_delete(self, name):
        changed[0] = True
        object.__delattr__(self, name)

      self._classes[kind] = type(kind.__name__, (kind,), {
        "__slots__": (), "__module__": kind.__module__, "__setattr__": note_set, "__delattr__": note_delete,
        "FromDict": classmethod(lambda cls, *args, **kwargs: kind.FromDict(*args, **kwargs))})
    return self._classes[kind]

  def _private(self, kind):
    if kind not in self._classes:
      self._classes[kind] = type(kind.__name__, (kind,), dict((name, noting(kind, name)) for name in DICT_MUTATORS))
    return self._classes[kind]


def ask(path, method):
  """Calls a function without arguments of the daemon. It keeps no connection."""
  with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
    s.settimeout(TIMEOUT)
    s.connect(path)
    s.sendall(json.dumps({"method": method, "args": []}).encode("ascii") + EOM)
    parts = []
    while not parts or not parts[-1].endswith(EOM):
      part = s.recv(1 << 20)
      if not part:
        raise OSError("the daemon has closed the connection")
      parts.append(part)
  answer = json.loads(b"".join(parts)[:-1])
  if not answer["success"]:
    raise LookupError("%s: %s" % (method, answer["result"]))
  return answer["result"]


class Held(object):
  """The configuration of the hash. It is read at most a quarter of the time."""

  def __init__(self, address, parse):
    self._address, self._parse = address, parse
    self.hash, self.data = None, None
    self._next = 0.0

  def refresh(self):
    """Reads the configuration if the held one is old. Without a daemon that can tell it keeps none."""
    started = time.monotonic()
    if started < self._next:
      return
    try:
      now = ask(self._address(), HASH)
      if now == self.hash:
        return
      self.hash, self.data = None, None
      document = ask(self._address(), "readConfig")
      if ask(self._address(), HASH) == now:
        self.data = self._parse(document)
        self.hash = now
      del document
      gc.freeze()  # a collection in a child would copy all pages
    except Exception:  # pylint: disable=W0703
      self.hash, self.data = None, None
    changed[0] = False
    ended = time.monotonic()
    self._next = ended + PAUSE * (ended - started)

  def usable(self, client):
    """Reports whether the held objects are what the daemon has now."""
    if self.hash is None or changed[0]:
      return False
    try:
      if client.CallMethod(HASH, []) == self.hash:
        return True
    except Exception as err:  # pylint: disable=W0703
      logging.debug("The hash of the configuration is not known: %s", err)
    self.hash, self.data = None, None  # it does not come back
    return False


def repair(require_known):
  """Makes the configuration of a child the held one while that is current."""
  from ganeti import config
  from ganeti import objects
  from ganeti import serializer
  from ganeti.rpc.stub import wconfd as stub
  original = config.ConfigWriter._OpenConfig
  require_known("configuration", original)

  def parse(document):
    writer = config.ConfigWriter()
    writer._SetConfigData(objects.ConfigData.FromDict(document))
    writer._UpgradeConfig()
    data = Tracker(objects.ConfigObject, (serializer.Private,)).track(writer._ConfigData())
    return data

  held = Held(stub.ClientRpcStub()._GetSocketPath, parse)

  def open_config(self, shared, force=False):
    if shared and not force and not self._offline and self._config_data is None and self._lock_count == 0:
      if held.usable(self._wconfd):
        self._SetConfigData(held.data)
    return original(self, shared, force)

  config.ConfigWriter._OpenConfig = open_config
  return held
