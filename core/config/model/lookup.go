package model

import (
	"iter"
	"strings"
)

// ByName returns the uuid of the object with a name, found false without one. Of several objects with this name it is the smallest uuid.
func (k *Kind[T]) ByName(c *Config, name string) (uuid string, found bool) {
	for uuid := range c.users(k.names, name) {
		return uuid, true
	}
	return "", false
}

// ByShortName returns the uuid of the object whose name consists of the given text, a dot and any text. It finds none if
// several objects have such names.
func (k *Kind[T]) ByShortName(c *Config, short string) (uuid string, found bool) {
	for of := range c.owners(string(rune(k.names)) + short + ".") {
		if found {
			return "", false
		}
		uuid, found = of, true
	}
	return uuid, found
}

// Members iterates over the nodes of a group.
func (c *Config) Members(group string) iter.Seq[string] { return c.users(spaceMember, group) }

// Primaries iterates over the instances with a primary node.
func (c *Config) Primaries(node string) iter.Seq[string] { return c.users(spacePrimary, node) }

// DRBDDisks iterates over the disks that DRBD copies between a node and another one. A disk with several minors on the node
// occurs once per minor.
func (c *Config) DRBDDisks(node string) iter.Seq[string] {
	return c.owners(string(rune(spaceMinor)) + node + separator)
}

// owners iterates over the uuids of the objects whose index entries begin with a prefix: once for each such entry.
func (c *Config) owners(prefix string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for e := range c.index.From(prefix) {
			if !strings.HasPrefix(e, prefix) || !yield(e[strings.LastIndex(e, separator)+len(separator):]) {
				return
			}
		}
	}
}
