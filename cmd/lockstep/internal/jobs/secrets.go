package jobs

import (
	"strings"
)

// Redacted is shown in the place of a secret.
const Redacted = "<redacted>"

// redact replaces secret parameters in a decoded JSON value, at any depth: opcodes can contain
// opcodes. The daemon redacts, too; this covers a daemon that does not.
func redact(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if SecretParameter(key) && inner != nil {
				value[key] = redactAll(inner)
			} else {
				value[key] = redact(inner)
			}
		}
	case []any:
		for i, inner := range value {
			value[i] = redact(inner)
		}
	}
	return value
}

// SecretParameter reports whether the values of a parameter are secret, by its name.
func SecretParameter(name string) bool {
	return strings.Contains(name, "secret") || name == "osparams_private"
}

// redactAll redacts values and keeps the names of a secret parameter, which are not secret.
func redactAll(value any) any {
	object, ok := value.(map[string]any)
	if !ok {
		return Redacted
	}
	for key := range object {
		object[key] = Redacted
	}
	return object
}
