// Package jobfile reads files of jobs, JSON or YAML, and makes submissions of them. Parse
// returns the jobs with their positions in the file, Encode the opcodes as they are submitted.
// The package opens no file and makes no call. An error names the line and column of the mistake.
package jobfile

import (
	"bytes"
	"path/filepath"
	"unicode/utf8"

	"lockstep/cmd/internal/doctree"
)

// parseFile reads a file as JSON or YAML. The extension of the name decides; without a known
// extension, a text that begins with a bracket is JSON.
func parseFile(name string, data []byte) (doctree.Node, error) {
	start := bytes.TrimLeft(data, " \t\r\n")
	switch extension := filepath.Ext(name); {
	case extension == ".json", extension != ".yaml" && extension != ".yml" && len(start) > 0 && (start[0] == '[' || start[0] == '{'):
		if err := checkUTF8(data); err != nil {
			return doctree.Node{}, err
		}
		return doctree.ParseJSON(data)
	}
	documents, mistakes := doctree.ParseYAML(data)
	switch {
	case len(mistakes) > 0:
		return doctree.Node{}, mistakes[0]
	case len(documents) == 0:
		return doctree.Node{}, doctree.Errorf(doctree.Position{Line: 1, Column: 1}, "the file is empty")
	case len(documents) > 1:
		return doctree.Node{}, doctree.Errorf(documents[1].At, "there is more than one YAML document in the file")
	}
	return documents[0], nil
}

// checkUTF8 refuses a text that a reader of JSON would change: it has another character for each byte that is not UTF-8.
func checkUTF8(data []byte) error {
	line := 0
	for text := range bytes.Lines(data) {
		if line++; !utf8.Valid(text) {
			return doctree.Errorf(doctree.Position{Line: line}, "the line is not UTF-8")
		}
	}
	return nil
}
