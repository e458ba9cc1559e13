// Package opcodefiles reads the opcodes that operators declare in YAML files (design.md 5).
// The daemon loads them at its start and on SIGHUP; the command line checks them. The error
// lists every mistake with file and line. The package keeps nothing.
package opcodefiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockstep/core/opcode"
)

// Load reads what an operator declares: the Files of a directory, with LoadFiles. A directory that is not there declares
// none.
func Load(dir string) ([]opcode.Definition, error) {
	paths, err := Files(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return LoadFiles(paths)
}

// Files is the *.yaml files of a directory, in the order of their names.
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read opcodes: %w", err)
	}
	var paths []string
	for _, entry := range entries { // ReadDir sorts
		if name := entry.Name(); filepath.Ext(name) == ".yaml" && !strings.HasPrefix(name, ".") { // editors leave others
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	return paths, nil
}

// LoadFiles reads files that each declare one opcode, or several as documents of their own. The error has a line
// "FILE:LINE: field: what is wrong" for every mistake in any of them, and says nothing else.
func LoadFiles(paths []string) ([]opcode.Definition, error) {
	var read definitionReader
	for _, path := range paths {
		read.file(path)
	}
	definitions := make([]opcode.Definition, len(read.definitions))
	for i, d := range read.definitions {
		definitions[i] = d.definition
	}
	// What the catalogue has against them; where a definition could not be read in full, that would only be confusing.
	var faults opcode.DefinitionErrors
	if _, err := opcode.Builtin().With(definitions); errors.As(err, &faults) {
		for _, fault := range faults {
			if d := read.definitions[fault.Definition]; !d.invalid {
				read.mistakes = append(read.mistakes, mistake{d.path, d.line(fault.Field), fault.Field + ": " + fault.Text})
			}
		}
	}
	if len(read.mistakes) > 0 {
		return nil, read.mistakes
	}
	return definitions, nil
}

// mistake is something wrong in a file; line is 0 if it is about the file as a whole.
type mistake struct {
	path string
	line int
	text string
}

// mistakes are never empty.
type mistakes []mistake

func (m mistakes) Error() string {
	sorted := slices.Clone(m)
	slices.SortStableFunc(sorted, func(a, b mistake) int {
		if c := strings.Compare(a.path, b.path); c != 0 {
			return c
		}
		return a.line - b.line
	})
	lines := make([]string, len(sorted))
	for i, one := range sorted {
		if one.line == 0 {
			lines[i] = one.path + ": " + one.text
		} else {
			lines[i] = fmt.Sprintf("%s:%d: %s", one.path, one.line, one.text)
		}
	}
	return strings.Join(lines, "\n")
}
