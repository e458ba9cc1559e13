package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed examples
var examples embed.FS

// writeExamples makes the directory of declared opcodes and the users file of the remote
// API at the first start, with comments only, so that an operator finds where they belong.
// What is there already stays. A crash in between leaves out an example, nothing else.
func writeExamples(c Config) error {
	for name, path := range map[string]string{
		"drain.yaml.example": filepath.Join(c.OpcodesDir, "drain.yaml.example"),
		"users":              c.Rapi.Users,
	} {
		if !strings.HasPrefix(path, c.DataDir+"/") {
			continue // a place that the operator has chosen
		}
		content, err := examples.ReadFile("examples/" + name)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return fmt.Errorf("make the directory for an example: %w", err)
		}
		if err := writeNew(path, content); err != nil {
			return fmt.Errorf("write an example: %w", err)
		}
	}
	return nil
}

func writeNew(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
