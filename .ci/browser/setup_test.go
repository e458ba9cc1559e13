// Package browser drives headless Chromium at the console of real daemons. It is a separate module, because only these
// tests need a driver of browsers. Screenshots go to var/console, and are looked at before a change of the pages lands.
package browser

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const patience = 30 * time.Second

func root(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	must(t, err)
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// daemon is a lockstepd with its own directories.
type daemon struct {
	testing.TB
	dir, url string
	env      []string // variables besides those of the test
	cmd      *exec.Cmd
	done     chan struct{}
}

// newDaemon makes a daemon's directories below a temporary one.
func newDaemon(t testing.TB) *daemon {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("NOT RUN: chromium is missing; Debian has it as a package")
	}
	dir, err := os.MkdirTemp("", "lockstep-browser-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.MkdirAll(filepath.Join(dir, "lib", "rapi"), 0o750))
	must(t, os.WriteFile(filepath.Join(dir, "lib", "rapi", "users"), []byte("operator secret write\nreader secret read\n"), 0o600))
	return &daemon{TB: t, dir: dir}
}

// start starts the daemon and waits until the console is there.
func (d *daemon) start(flags ...string) *daemon {
	d.Helper()
	log, err := os.Create(filepath.Join(d.dir, "out"))
	must(d, err)
	args := append([]string{"--data-dir", d.dir + "/lib", "--run-dir", d.dir + "/run", "--log-dir", d.dir + "/log", "--rapi-address", "127.0.0.1:0",
		"--confd-address=", "--mond-address=", "--rapi-allow-commands"}, flags...)
	d.cmd = exec.Command(filepath.Join(root(d), "bin", "lockstepd"), args...)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.Env = append(os.Environ(), d.env...)
	must(d, d.cmd.Start())
	d.done = make(chan struct{})
	go func(done chan struct{}, cmd *exec.Cmd) { _ = cmd.Wait(); close(done) }(d.done, d.cmd)
	d.Cleanup(func() { d.kill() })
	started := regexp.MustCompile(`remote API started" address="([0-9.:]+)"`)
	d.await("the console", func() bool {
		data, _ := os.ReadFile(filepath.Join(d.dir, "out"))
		found := started.FindSubmatch(data)
		if found != nil {
			d.url = "http://" + string(found[1])
		}
		return found != nil
	})
	return d
}

// await waits for a condition. It looks ten times a second.
func (d *daemon) await(what string, holds func() bool) {
	d.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	end := time.After(patience)
	for !holds() {
		select {
		case <-ticker.C:
		case <-end:
			data, _ := os.ReadFile(filepath.Join(d.dir, "out"))
			d.Fatalf("%s did not come\n%s", what, data)
		}
	}
}

// kill ends the daemon at once.
func (d *daemon) kill() {
	select {
	case <-d.done:
	default:
		_ = d.cmd.Process.Signal(syscall.SIGKILL)
		<-d.done
	}
}

// log is what the daemon has logged.
func (d *daemon) log() string {
	d.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, "out"))
	must(d, err)
	return string(data)
}

// cli runs the command line against the daemon, and returns its output.
func (d *daemon) cli(args ...string) string {
	d.Helper()
	out, err := d.try(args...)
	if err != nil {
		d.Fatalf("lockstep %v: %v", args, err)
	}
	return out
}

// try is cli for a command that may fail.
func (d *daemon) try(args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(root(d), "bin", "lockstep"), args...)
	cmd.Env = append(os.Environ(), "LOCKSTEP_SOCKET="+d.dir+"/run/socket/ganeti-query")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}

// submit submits a shell command, and returns the job's id.
func (d *daemon) submit(flags []string, script string) string {
	d.Helper()
	return d.cli(append(append([]string{"run", "--detach"}, flags...), "--", "sh", "-c", script)...)
}

// browser is one Chromium.
type browser struct {
	testing.TB
	ctx context.Context

	mu         sync.Mutex
	complaints []string // errors in the console of pages, and violations of the policy
}

var chromiumFlags = []chromedp.ExecAllocatorOption{
	chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.ExecPath("chromium"),
	chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true), chromedp.WindowSize(1280, 900),
}

func newBrowser(t testing.TB) *browser {
	t.Helper()
	profile, err := os.MkdirTemp("", "lockstep-profile-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	allocated, end := chromedp.NewExecAllocator(context.Background(), append(chromiumFlags, chromedp.UserDataDir(profile))...)
	t.Cleanup(end)
	b := &browser{TB: t}
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	b.ctx = ctx
	must(t, chromedp.Do(ctx)) // starts the browser, which lives as long as this context
	b.listen()
	return b
}

// tab opens another tab of the same browser.
func (b *browser) tab() *browser {
	b.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.Cleanup(cancel)
	t := &browser{TB: b.TB, ctx: ctx}
	must(b, chromedp.Do(ctx)) // opens the tab, which lives as long as this context
	t.listen()
	return t
}

// listen collects the complaints from now on.
func (b *browser) listen() {
	b.Helper()
	must(b, chromedp.Listen(b.ctx, func(event any) {
		text := ""
		switch e := event.(type) {
		case *cdplog.EventEntryAdded:
			if e.Entry.Level == cdplog.EntryLevelError && !strings.Contains(e.Entry.Text, "Failed to load resource") && !strings.Contains(e.Entry.Text, "ERR_CONNECTION") {
				text = e.Entry.Text
			}
		case *cdpruntime.EventExceptionThrown:
			if text = e.ExceptionDetails.Text; e.ExceptionDetails.Exception != nil {
				text += ": " + e.ExceptionDetails.Exception.Description
			}
		case *page.EventJavascriptDialogOpening:
			text = "a dialog opened: " + e.Message
		}
		if text != "" {
			b.mu.Lock()
			b.complaints = append(b.complaints, text)
			b.mu.Unlock()
		}
	}))
	_, err := chromedp.Call(b.ctx, cdplog.Enable, cdp.Empty{})
	must(b, err)
}

// requireCalm fails after an error of a script or a violation of the policy.
func (b *browser) requireCalm() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 {
		b.Fatalf("the browser complains: %q", b.complaints)
	}
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		shown, end := context.WithTimeout(b.ctx, 2*time.Second)
		defer end()
		at, _ := chromedp.Run(shown, chromedp.Location())
		text, _ := chromedp.Run(shown, chromedp.Text(chromedp.CSS("body")))
		text = text[:min(len(text), 1500)]
		b.Fatalf("%v at %s:\n%s", err, at, text)
	}
}

// eval evaluates an expression.
func eval[T any](b *browser, expression string, options ...chromedp.EvaluateOption) T {
	b.Helper()
	var result T
	b.do(func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		result, err = chromedp.Evaluate[T](expression, options...)(ctx, t)
		return none, err
	})
	return result
}

// run evaluates an expression whose value is of no interest.
func (b *browser) run(script string) {
	b.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](script))
}

// holds is an action that waits until an expression is true. Errors pass: the page may be changing.
func holds(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			if done, err := chromedp.Evaluate[bool]("Boolean("+expression+")")(ctx, t); err == nil && done {
				return nil
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return fmt.Errorf("%s does not hold: %w", expression, ctx.Err())
			}
		}
	})
}

// seen waits for an element.
func seen(selector string) chromedp.Action[chromedp.Void] {
	return holds(fmt.Sprintf("document.readyState === 'complete' && document.querySelector(%q)", selector))
}

// until waits until an expression is true.
func (b *browser) until(expression string) {
	b.Helper()
	b.do(holds(expression))
}

// open goes to a page.
func (b *browser) open(address string) {
	b.Helper()
	b.do(chromedp.Navigate(address), seen("main"))
}

// login logs in with the keyboard only.
func (b *browser) login(d *daemon, name, next string) {
	b.Helper()
	b.open(d.url + next)
	b.do(seen("input[name=name]"), chromedp.Focus(chromedp.CSS("input[name=name]")),
		chromedp.KeyEvent(name+"\t"+"secret\r"), seen(".pages"))
}

func (b *browser) text(selector string) string {
	b.Helper()
	return eval[string](b, fmt.Sprintf("(document.querySelector(%q)||{innerText:''}).innerText", selector))
}

// look sets size and colours.
func (b *browser) look(width, height int64, dark bool) {
	b.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
	must(b, err)
	_, err = chromedp.Call(b.ctx, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	must(b, err)
}

// shoot writes a screenshot of the whole page.
func (b *browser) shoot(name string) {
	b.Helper()
	dir := filepath.Join(root(b), "var", "console")
	must(b, os.MkdirAll(dir, 0o755))
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	must(b, err)
	must(b, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

// api makes a request of the remote API.
func (d *daemon) api(method, path, body string) (int, string) {
	d.Helper()
	request, err := http.NewRequest(method, d.url+path, strings.NewReader(body))
	must(d, err)
	request.SetBasicAuth("operator", "secret")
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	must(d, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	must(d, err)
	return response.StatusCode, string(data)
}

// client is a client that is logged in, without a browser.
func (d *daemon) client() *http.Client {
	d.Helper()
	jar, err := cookiejar.New(nil)
	must(d, err)
	c := &http.Client{Jar: loopbackJar{jar}, Timeout: patience}
	response, err := c.PostForm(d.url+"/ui/login", url.Values{"name": {"operator"}, "password": {"secret"}})
	must(d, err)
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		d.Fatalf("login: %s", response.Status)
	}
	return c
}

// loopbackJar treats loopback as secure, as browsers do.
type loopbackJar struct{ http.CookieJar }

func secure(u *url.URL) *url.URL {
	s := *u
	s.Scheme = "https"
	return &s
}
func (j loopbackJar) SetCookies(u *url.URL, c []*http.Cookie) { j.CookieJar.SetCookies(secure(u), c) }
func (j loopbackJar) Cookies(u *url.URL) []*http.Cookie       { return j.CookieJar.Cookies(secure(u)) }

// freePort is a port that is free now.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	return port
}

// apiLog is the output of a job so far.
func (d *daemon) apiLog(id string) string {
	d.Helper()
	_, text := d.api("GET", "/3/jobs/"+id+"/log", "")
	return text
}
