package jobs

import (
	"strings"
)

const redacted = "<redacted>"

// redact replaces secret parameters in a decoded JSON value, at any depth: opcodes can contain
// opcodes. The daemon redacts, too; this covers a daemon that does not.
func redact(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if secretParameter(key) && inner != nil {
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

func secretParameter(name string) bool {
	return strings.Contains(name, "secret") || name == "osparams_private"
}

// redactAll redacts values and keeps the names of a secret parameter, which are not secret.
func redactAll(value any) any {
	object, ok := value.(map[string]any)
	if !ok {
		return redacted
	}
	for key := range object {
		object[key] = redacted
	}
	return object
}
