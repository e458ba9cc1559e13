package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Bounds of the log.
const (
	FileMax  = 64 << 10 // bytes of a file
	FilesMax = 100      // files
)

// File is the newest file of the log, the one to which entries are added. It is not changed: Add makes another File.
type File struct {
	First   uint64 // number of its first entry
	Next    uint64 // number of the next entry
	Content []byte
}

// NewFile is a file without entries.
func NewFile(first uint64) File { return File{First: first, Next: first} }

// Open reads the newest file. An error is damage: the file then has the entries before it, and Next is a number that no entry has.
func Open(first uint64, content []byte) (File, error) {
	f := File{First: first, Next: first, Content: content}
	entries, err := Decode(first, content)
	f.Next += uint64(len(entries))
	if err != nil {
		f.Next = first + uint64(bytes.Count(content, []byte{'\n'})) + 1
	}
	return f, err
}

// Add is the file with a further entry, which gets its number. false: the file has no room, and the entry begins the next one.
func (f File) Add(e Entry) (File, bool) {
	e = e.Bounded()
	e.Number = f.Next
	line := e.line()
	if len(f.Content) > 0 && len(f.Content)+len(line) > FileMax {
		return f, false
	}
	return File{f.First, f.Next + 1, slices.Concat(f.Content, line)}, true
}

// Decode reads a file whose name has the number first. An error is about the first damaged line; the entries before it are returned.
func Decode(first uint64, content []byte) ([]Entry, error) {
	var entries []Entry
	for line := range bytes.Lines(content) {
		want := first + uint64(len(entries))
		var e Entry
		err := json.Unmarshal(line, &e)
		switch {
		case err != nil:
			return entries, fmt.Errorf("entry %d: %w", want, err)
		case line[len(line)-1] != '\n':
			return entries, fmt.Errorf("entry %d is not complete", want)
		case e.Number != want:
			return entries, fmt.Errorf("entry %d has the number %d", want, e.Number)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Excess are the oldest of the files, named by their first numbers in order, that are more than FilesMax.
func Excess(files []uint64) []uint64 { return files[:max(0, len(files)-FilesMax)] }
