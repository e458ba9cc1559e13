"""Checks lockstep_configuration.py with objects like those of Ganeti's configuration. Arguments: the directory of the module."""

import copy
import json
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])

import lockstep_configuration as configuration


class Base(object):
  __slots__ = []

  @classmethod
  def FromDict(cls, values):
    made = cls()
    for name, value in values.items():
      setattr(made, name, value)
    return made

  @classmethod
  def GetAllSlots(cls):
    return [name for parent in cls.__mro__ for name in getattr(parent, "__slots__", [])]

  def __getattr__(self, name):
    if name not in self.GetAllSlots():
      raise AttributeError(name)
    return None

  def ToDict(self):
    return dict((name, getattr(self, name)) for name in self.GetAllSlots() if getattr(self, name) is not None)

  def Copy(self):
    return self.__class__.FromDict(self.ToDict())


class Item(Base):
  __slots__ = ["name", "parameters", "members", "tags", "pair", "private", "unset"]


class Private(dict):
  pass


def tracked():
  item = Item.FromDict({"name": "a", "parameters": {"x": [1, {"y": 2}]}, "members": [Item.FromDict({"name": "b"})], "tags": {"t"},
                        "pair": (1, ["z"]), "private": Private()})
  result = configuration.Tracker(Base, ()).track(item)
  configuration.changed[0] = False
  return result


def changes(action):
  item = tracked()
  action(item)
  return configuration.changed[0]


item = tracked()
assert isinstance(item, Item) and type(item).__name__ == "Item" and type(item.tags).__name__ == "set"

for text in ("i.name = 'b'", "del i.name", "i.unset = 1", "i.members[0].name = 'c'", "i.parameters['z'] = 1", "del i.parameters['x']",
             "i.parameters.update(z=1)", "i.parameters.pop('x')", "i.parameters.popitem()", "i.parameters.setdefault('z', 1)", "i.parameters.clear()",
             "i.parameters['x'].append(1)", "i.parameters['x'][1]['y'] = 3", "i.parameters['x'][0] += 1", "i.members += [1]", "i.members *= 2",
             "i.members.sort()", "i.members.reverse()", "i.members.extend([1])", "i.members.insert(0, 1)", "i.members.remove(i.members[0])",
             "i.members.pop()", "del i.members[0]", "i.tags.add('u')", "i.tags |= {'u'}", "i.tags.discard('t')", "i.pair[1].append(1)",
             "i.private['a'] = 1", "i.private.update(a=1)"):
  assert changes(lambda i: exec(text, {"i": i})), text

for text in ("i.ToDict()", "i.Copy().name", "json.dumps(i.parameters, sort_keys=True)", "copy.deepcopy(i.parameters)", "copy.copy(i.members)",
             "dict(i.parameters, z=1)", "i.parameters.copy().update(z=1)", "list(i.members).append(1)", "i.members[:].append(1)",
             "copy.deepcopy(i.parameters)['x'].append(1)", "copy.copy(i.parameters).update(z=1)", "i.tags | {'u'}", "i.Copy().__setattr__('name', 'c')",
             "sorted(i.tags)", "i.unset"):
  assert not changes(lambda i: exec(text, {"i": i, "copy": copy, "json": json})), text

for value in (bytearray(b"x"), Private(a=1), object()):
  try:
    configuration.Tracker(Base, ()).track([value])
  except ValueError:
    continue
  raise AssertionError(value)


class Client(object):
  """A daemon's answers."""

  def __init__(self, answer):
    self.answer, self.calls = answer, 0

  def CallMethod(self, method, arguments):
    assert (method, arguments) == (configuration.HASH, [])
    self.calls += 1
    if isinstance(self.answer, Exception):
      raise self.answer
    return self.answer


def held():
  made = configuration.Held(lambda: "/nonexistent", lambda document: document)
  made.hash, made.data = "one", "the data"
  configuration.changed[0] = False
  return made


same, other, unknown = Client("one"), Client("two"), Client(LookupError("no such method"))
h = held()
assert h.usable(same) and h.usable(same) and h.data == "the data"
configuration.changed[0] = True
assert not h.usable(same) and same.calls == 2
for client in (other, unknown):
  h = held()
  assert not h.usable(client)
  assert not h.usable(same), "it does not come back"
h = held()
h.refresh()  # there is no daemon
assert h.hash is None and h.data is None
print("ok")
