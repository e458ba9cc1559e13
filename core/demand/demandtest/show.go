// Package demandtest shows declared and required locks as text, for tests.
package demandtest

import (
	"strings"

	"lockstep/core/lock"
)

var shownDemandKinds = map[lock.DemandKind]string{
	lock.SharedSet: "S", lock.UnknownShared: "S some", lock.AllShared: "S ALL",
	lock.ExclusiveSet: "X", lock.UnknownExclusive: "X some", lock.AllExclusive: "X ALL",
}

// ShowDeclaration is a declaration in words: X is exclusive, S shared.
func ShowDeclaration(d lock.Declaration) string {
	var parts []string
	if d.BGL {
		parts = append(parts, "BGL")
	}
	for level := lock.Instance; level <= lock.Network; level++ {
		if want := d.At(level); want.Kind != lock.Nothing {
			words := append([]string{level.String(), shownDemandKinds[want.Kind]}, want.Names...)
			parts = append(parts, strings.Join(words, " "))
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// ShowRequiredLocks is required locks in words, as ShowDeclaration has them.
func ShowRequiredLocks(required lock.RequiredLocks) string {
	text := "nothing"
	if required.Request != nil {
		text = showItems(required.Request)
	}
	if required.AnyOf != nil {
		text += "; at least " + string('0'+rune(required.Count)) + " of " + showItems(required.AnyOf)
	}
	return text
}

func showItems(items []lock.Item) string {
	parts := make([]string, len(items))
	for i, item := range items {
		parts[i] = item.Lock.String() + " " + map[lock.Mode]string{lock.Shared: "S", lock.Exclusive: "X"}[item.Mode]
	}
	return strings.Join(parts, ", ")
}
