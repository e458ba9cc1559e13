package docs_test

import (
	"fmt"
	"go/ast"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// doors are the packages that hear clients before these have logged in.
var doors = []string{"edge/rapi", "edge/login", "edge/console", "edge/mond", "edge/confd", "edge/peer", "edge/tlsserver", "edge/socket"}

// unboundedLines are the lines that these packages write as often as their cause comes, each with the reason why no stranger causes it.
var unboundedLines = map[string]string{
	"edge/login: users file missing; all logins to the remote API fail":                             "once for each change of the file",
	"edge/login: users file unreadable; the users read before stay valid":                           "once for each error in turn",
	"edge/login: users file: invalid line ignored":                                                  "once for each change of the file",
	"edge/login: users file is readable by all users of this machine; set its mode to 0640 or less": "once for each change of the file",
	"edge/login: users file loaded":                                                                 "once for each change of the file",
	"edge/rapi: remote API: request answered":                                                       "audit of a user who may write",
	"edge/console: console: logged in":                                                              "a user with the right password",
	"edge/console: console: logged out":                                                             "a user with a session",
	"edge/console: console: change requested":                                                       "audit of a user who may write",
	"edge/confd: configuration queries: keys loaded":                                                "once for each change of a key",
	"edge/confd: configuration queries: no key yet; queries are answered once the file is there (lockstep confd rotate-key makes it)": "once for each error in turn",
	"edge/confd: configuration queries: key cannot be read; the keys in force stay":                                                   "once for each error in turn",
	"edge/confd: configuration queries: configuration loaded":                                                                         "once for each change of the file",
	"edge/confd: configuration queries: the configuration cannot be read":                                                             "once for each error in turn",
	"edge/peer: certificate issued to a joining node":                                                                                 "a node with a valid token",
}

// A client that has not logged in causes at most one line of a kind a second: each line of these packages goes through edge/ratelog, or has its reason above.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	found := map[string]bool{}
	for _, door := range doors {
		for _, s := range sources(t, door) {
			ast.Inspect(s.file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !logs(call) {
					return true
				}
				message := "(not a constant)"
				if text, constant := call.Args[len(call.Args)-1].(*ast.BasicLit); constant {
					message, _ = strconv.Unquote(text.Value)
				}
				line := fmt.Sprintf("%s: %s", door, message)
				found[line] = true
				if unboundedLines[line] == "" {
					t.Errorf("%s: %q: a stranger may cause it: use edge/ratelog", s.set.Position(n.Pos()), message)
				}
				return true
			})
		}
	}
	for line := range unboundedLines {
		require.True(t, found[line], "there is no such line: %s", line)
	}
}

// logs reports whether a call writes a line: Info and the like, of a logger or an entry.
func logs(call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	switch strings.TrimSuffix(strings.TrimSuffix(s.Sel.Name, "f"), "ln") {
	case "Trace", "Debug", "Info", "Print", "Warn", "Warning", "Log":
		return !isPackage(s.X, "fmt")
	case "Error":
		return !isPackage(s.X, "http") && !isPackage(s.X, "fmt") // http.Error answers
	}
	return false
}

func isPackage(e ast.Expr, name string) bool {
	x, ok := e.(*ast.Ident)
	return ok && x.Name == name
}
