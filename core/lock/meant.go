package lock

import "strings"

// MeantError is the error for a name with which a user may mean either of two locks.
type MeantError struct {
	Name string
	// Level is the level of Ganeti's that the name resembles or has; Own is the full name as a free lock.
	Level, Own string
}

func (e *MeantError) Error() string {
	if e.Name == BGL.member {
		return "BGL is Ganeti's big lock; write cluster/BGL, or " + e.Own + " for a lock of your own with that name"
	}
	return "did you mean " + e.Level + e.Name[strings.IndexByte(e.Name, '/'):] + "? A lock of your own with this name is " + e.Own
}

// Meant is the full name of the lock that a user means by a name. A name that is a FreeName and whose first word is no level means the free
// lock of that name: deploy is lock/deploy, and db/x is lock/db/x. All other names are as they were; ParseLock says whether they are locks.
// The error is a *MeantError: for BGL, and for a name with a slash whose first word is within one letter of a level, as nodes/n1.
func Meant(name string) (string, error) {
	first, _, slash := strings.Cut(name, "/")
	if _, err := ParseLevel(first); err == nil || !FreeName(name) {
		return name, nil
	}
	own := Free.String() + "/" + name
	if name == BGL.member {
		return "", &MeantError{Name: name, Level: Cluster.String(), Own: own}
	}
	if slash {
		for level := range Level(levels) {
			if level != Config && withinOneLetter(strings.ToLower(first), level.String()) {
				return "", &MeantError{Name: name, Level: level.String(), Own: own}
			}
		}
	}
	return own, nil
}

// withinOneLetter reports whether one letter more, less or other at most makes a of b.
func withinOneLetter(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	same := 0
	for same < len(a) && a[same] == b[same] {
		same++
	}
	switch len(b) - len(a) {
	case 0:
		return same == len(a) || a[same+1:] == b[same+1:]
	case 1:
		return a[same:] == b[same+1:]
	default:
		return false
	}
}
