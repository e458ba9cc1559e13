// Package jobfile reads files of jobs, JSON or YAML, and makes submissions of them. Parse
// returns the jobs with their positions in the file, Encode the opcodes as they are submitted.
// The package opens no file and makes no call. Errors are all mistakes, each with its line and column.
package jobfile

import (
	"bytes"
	"path/filepath"
	"unicode/utf8"

	"lockstep/cmd/internal/doctree"
)

// file reads a file as JSON or YAML. The extension of the name decides; without a known
// extension, a text that begins with a bracket is JSON. Not ok: there is nothing to read.
func (r *reader) file(name string, data []byte) (root doctree.Node, ok bool) {
	start := bytes.TrimLeft(data, " \t\r\n")
	switch extension := filepath.Ext(name); {
	case extension == ".json", extension != ".yaml" && extension != ".yml" && len(start) > 0 && (start[0] == '[' || start[0] == '{'):
		if !r.add(checkUTF8(data)) {
			return doctree.Node{}, false
		}
		root, err := doctree.ParseJSON(data)
		return root, r.add(err)
	}
	documents, mistakes := doctree.ParseYAML(data)
	for _, mistake := range mistakes {
		r.add(mistake)
	}
	switch {
	case len(documents) == 0 && len(mistakes) == 0:
		r.addf(doctree.Position{Line: 1, Column: 1}, "the file is empty")
	case len(documents) > 1:
		r.addf(documents[1].At, "there is more than one YAML document in the file")
	case len(documents) == 1:
		return documents[0], true
	}
	return doctree.Node{}, false
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
