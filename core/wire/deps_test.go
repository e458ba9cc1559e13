package wire

import (
	"os/exec"
	"strings"
	"testing"
)

// The job process links this package and starts once per job: every import costs it time, at least for its
// initialisers.
func TestImportsStaySmall(t *testing.T) {
	output, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	banned := map[string]string{
		"net":           "connect with syscall, see connect.go",
		"net/http":      "LUXI needs none",
		"regexp":        "scan by hand",
		"crypto/tls":    "sockets are local",
		"log/slog":      "return errors, the caller logs",
		"text/template": "use fmt",
	}
	for _, name := range strings.Fields(string(output)) {
		if instead, ok := banned[name]; ok {
			t.Errorf("imports %s: %s", name, instead)
		}
		first, _, _ := strings.Cut(name, "/")
		if strings.Contains(first, ".") {
			t.Errorf("imports %s: only the standard library, please", name)
		}
	}
}
