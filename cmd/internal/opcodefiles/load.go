// Package opcodefiles reads the opcodes that operators declare in YAML files (design.md "Opcodes").
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

// Load reads the Files of a directory with LoadFiles. A missing directory declares no opcode.
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

// Files returns the *.yaml files of a directory, in the order of their names.
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read opcodes: %w", err)
	}
	var paths []string
	for _, entry := range entries { // ReadDir sorts
		if name := entry.Name(); filepath.Ext(name) == ".yaml" && !strings.HasPrefix(name, ".") { // editors leave hidden files and backups
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	return paths, nil
}

// LoadFiles reads files with one opcode each, or several as separate documents. The error has exactly one line
// "FILE:LINE: FIELD: MESSAGE" for each mistake in each file.
func LoadFiles(paths []string) ([]opcode.Definition, error) {
	var read definitionReader
	for _, path := range paths {
		read.file(path)
	}
	definitions := make([]opcode.Definition, len(read.definitions))
	for i, d := range read.definitions {
		definitions[i] = d.definition
	}
	// Add the mistakes that the catalogue finds, except in files with other mistakes: a field that could not be
	// read would be reported as missing.
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

// mistake is a mistake in a file; line 0: it concerns the whole file.
type mistake struct {
	path string
	line int
	text string
}

// mistakes is an error, not empty.
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
