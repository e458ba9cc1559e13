package browser

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// arguments collects the arguments of all processes of the machine until its end.
type arguments struct {
	mu   sync.Mutex
	seen map[string]bool
}

// watchArguments looks 50 times a second.
func watchArguments(t *testing.T) *arguments {
	a := &arguments{seen: map[string]bool{}}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			a.look()
			select {
			case <-ticker.C:
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() { close(done); <-ended })
	return a
}

// look reads the arguments of all processes once.
func (a *arguments) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil { // else it has ended
			a.seen[string(bytes.ReplaceAll(data, []byte{0}, []byte(" ")))] = true
		}
	}
}

// with are the arguments that contain a text.
func (a *arguments) with(text string) []string {
	a.look()
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []string
	for args := range a.seen {
		if strings.Contains(args, text) {
			found = append(found, args)
		}
	}
	return found
}

// Neither a password, nor the token of a login link, nor a session is in the arguments of a process, in a line of a log, or in a file
// other than that of the users: not after logins by name and by link, right and wrong, and not while a command asks with a password.
func TestSecretsStaySecret(t *testing.T) {
	const password, wrong = "correct-horse-7311", "wrong-horse-7312"
	d := newDaemon(t)
	users := filepath.Join(d.dir, "lib", "rapi", "users")
	must(t, os.WriteFile(users, []byte("operator "+password+" write\n"), 0o600))
	mond := "127.0.0.1:" + freePort(t)
	processes := watchArguments(t)
	d.start("--log-level", "debug", "--mond-address", mond)

	// By link, and by name.
	link, err := url.Parse(d.cli("open"))
	must(t, err)
	token := link.Query().Get("token")
	secrets := map[string]string{"the password": password, "the wrong password": wrong, "the token": token}
	var sessions []string
	login := func(path string, form url.Values, code int) {
		t.Helper()
		c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: patience}
		response, err := c.PostForm(d.url+path, form)
		must(t, err)
		response.Body.Close()
		if response.StatusCode != code {
			t.Fatalf("%s: %s", path, response.Status)
		}
		for _, cookie := range response.Cookies() {
			sessions = append(sessions, cookie.Value)
			secrets[fmt.Sprintf("session %d", len(sessions))] = cookie.Value
		}
	}
	_, err = http.Get(link.String()) // the page with the button
	must(t, err)
	login("/ui/open", url.Values{"token": {token}}, http.StatusSeeOther)
	login("/ui/open", url.Values{"token": {token}}, http.StatusForbidden)
	login("/ui/login", url.Values{"name": {"operator"}, "password": {wrong}}, http.StatusUnprocessableEntity)
	login("/ui/login", url.Values{"name": {"operator"}, "password": {password}}, http.StatusSeeOther)
	if len(sessions) != 2 || token == "" {
		t.Fatalf("%d sessions, and the link %s", len(sessions), link)
	}
	request, err := http.NewRequest(http.MethodPost, d.url+"/ui/jobs/apply", strings.NewReader("action=cancel&id=9"))
	must(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.AddCookie(&http.Cookie{Name: "__Host-lockstep-" + link.Port(), Value: sessions[1]})
	response, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: patience}).Do(request)
	must(t, err)
	response.Body.Close()
	if response.StatusCode != http.StatusSeeOther {
		t.Fatalf("an action with the session: %s", response.Status)
	}

	d.await("the collector's first report", func() bool { _, err := d.try("monitor", "--node", mond, "queue"); return err == nil })
	// A command that asks with a password takes it from a file. The file is a pipe, so that the command runs until it is written.
	pipe := filepath.Join(d.dir, "password")
	must(t, syscall.Mkfifo(pipe, 0o600))
	command := exec.Command(filepath.Join(root(t), "bin", "lockstep"), "monitor", "--node", mond, "--user", "operator", "--password-file", pipe, "queue")
	command.Env = append(os.Environ(), "LOCKSTEP_SOCKET="+d.dir+"/run/socket/ganeti-query")
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	must(t, command.Start())
	file, err := os.OpenFile(pipe, os.O_WRONLY, 0) // when the command reads it
	must(t, err)
	if len(processes.with(pipe)) == 0 {
		t.Fatal("the arguments of a running command were not seen")
	}
	_, err = file.WriteString(password + "\n")
	must(t, err)
	must(t, file.Close())
	if err := command.Wait(); err != nil {
		t.Fatalf("lockstep monitor: %v: %s", err, said.String())
	}
	must(t, os.Remove(pipe))

	d.await("a line about each login", func() bool { return strings.Count(d.log(), "console: logged in") == 2 })
	for name, secret := range secrets {
		if found := processes.with(secret); len(found) > 0 {
			t.Errorf("%s is an argument of %q", name, found)
		}
		must(t, filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || path == users {
				return nil // it was a temporary file
			}
			if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s is in %s", name, path)
			}
			return nil
		}))
	}
}
