package datadir

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lockstep/cmd/lockstepd/internal/settings"
)

//go:embed examples
var examples embed.FS

// writeExamples creates, at the first start, the directory of declared opcodes and the users file
// of the remote API, with comments only: an operator finds there where they belong. It keeps
// existing files. After a crash in between an example is missing, which does no harm.
func writeExamples(c settings.Config) error {
	for name, path := range map[string]string{
		"drain.yaml.example": filepath.Join(c.OpcodesDir, "drain.yaml.example"),
		"users":              c.Rapi.Users,
	} {
		if !strings.HasPrefix(path, c.DataDir+"/") {
			continue // the operator has chosen another path
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
