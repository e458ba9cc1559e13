package history

import (
	"bytes"
	"encoding/json"
)

// MaxSize bounds the two files of the history together, in bytes.
//
// There are two files, and a full one takes the place of the older one by rename. A rename costs the same for any size and a
// crash leaves the state before it or after it; a rewrite of one file without its older half would copy 4 MiB while a change of
// the configuration waits.
const MaxSize = 8 << 20

// Log decides what is appended to the two files of the history, and when they are rotated. Its owner is their only writer.
type Log struct {
	size int // of the current file
	torn bool
	seen map[key]struct{} // entries of the files; after a rotation only those of the current file
}

// key identifies an entry. The serial number alone does not: writeConfig can set it back.
type key struct {
	serial int64
	time   float64
}

func (e *Entry) key() key { return key{e.Serial, e.Time} }

// Open returns the state for the content of the older and the current file. A missing file is empty.
func Open(older, current []byte) *Log {
	l := &Log{size: len(current), torn: len(current) > 0 && current[len(current)-1] != '\n', seen: map[key]struct{}{}}
	entries, _ := Read(older, current)
	for i := range entries {
		l.seen[entries[i].key()] = struct{}{}
	}
	return l
}

// Append is what to write for an entry.
type Append struct {
	// Rotate: the current file takes the place of the older one before Line is written. Its answer must be awaited first, because
	// a rename that is repeated after Line was written would lose the older entries.
	Rotate bool
	Line   []byte // for the end of the current file; nil: the files have the entry
}

// Append returns what to write for an entry. An entry that the files have is not written again: after a crash the changes of the
// journal are applied again.
func (l *Log) Append(e Entry) Append {
	if _, known := l.seen[e.key()]; known {
		return Append{}
	}
	a := Append{Line: e.Line()}
	if a.Rotate = l.size > 0 && l.size+len(a.Line) > MaxSize/2; a.Rotate {
		l.size, l.torn, l.seen = 0, false, map[key]struct{}{}
	}
	if l.torn {
		a.Line = append([]byte{'\n'}, a.Line...) // the rest of an interrupted write gets a line of its own
		l.torn = false
	}
	l.size += len(a.Line)
	l.seen[e.key()] = struct{}{}
	return a
}

// Failed reports that the Line of an entry was not written, or only a part of it. Append may be asked for it again.
func (l *Log) Failed(e Entry) {
	l.torn = true
	delete(l.seen, e.key())
}

// NotRotated reports that the rename of an Append has failed. The Line can be written nevertheless; the next Append rotates again.
func (l *Log) NotRotated() { l.size += MaxSize / 2 }

// Read decodes the files of the history, the older one first. It returns each entry once, and the number of damaged lines.
func Read(files ...[]byte) (entries []Entry, damaged int) {
	seen := map[key]bool{}
	for _, file := range files {
		for line := range bytes.Lines(file) {
			var e Entry
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			if json.Unmarshal(line, &e) != nil {
				damaged++
				continue
			}
			if !seen[e.key()] {
				seen[e.key()] = true
				entries = append(entries, e)
			}
		}
	}
	return entries, damaged
}
