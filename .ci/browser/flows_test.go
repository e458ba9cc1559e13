package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Without a mouse a job is submitted, its row and its log are live, it is selected in a filtered list, and canceled.
func TestByKeyboard(t *testing.T) {
	d := newDaemon(t).start()
	b := newBrowser(t)
	b.login(d, "operator", "/ui/jobs")
	watching := b.tab()
	watching.open(d.url + "/ui/jobs")
	b.do(chromedp.KeyEvent("gs"), seen("a[href='/ui/opcodes/OP_RUN_COMMAND']"),
		chromedp.Focus(chromedp.CSS("a[href='/ui/opcodes/OP_RUN_COMMAND']")), chromedp.KeyEvent(kb.Enter), seen("#p-argv"),
		chromedp.Focus(chromedp.CSS("#p-argv")), chromedp.KeyEvent("sh\r-c\recho first; read x < "+d.dir+"/pipe; echo second; sleep 300"),
		chromedp.Focus(chromedp.CSS("input[name=job-name]")), chromedp.KeyEvent("live"+kb.Enter), seen("#log"))
	watching.until(`document.querySelector("#job-1 .s-running")`)
	b.until(`document.querySelector("#log").innerText.includes("first")`)
	must(t, os.WriteFile(filepath.Join(d.dir, "pipe"), []byte("go\n"), 0o600))
	// The shell has failed to open the pipe, or reads the file: in both cases the log goes on.
	b.until(`document.querySelector("#log").innerText.includes("second")`)

	d.submit([]string{"--name", "other"}, "true")
	watching.until(`document.querySelector("#job-2 .s-success")`)
	watching.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("j"), chromedp.KeyEvent("x"))
	if on := eval[bool](watching, `document.querySelector("#pick-1").checked`); !on {
		t.Fatal("x does not select the job")
	}
	focused := eval[string](watching, "document.activeElement.id")
	for range 5 {
		d.submit(nil, "true")
	}
	watching.until(`document.querySelector("#job-7 .s-success")`)
	if still := eval[string](watching, "document.activeElement.id"); still != focused || focused != "link-1" {
		t.Fatalf("focus was at %q and is at %q", focused, still)
	}
	if on := eval[bool](watching, `document.querySelector("#pick-1").checked`); !on {
		t.Fatal("the selection is lost in a live update")
	}
	watching.do(chromedp.Focus(chromedp.CSS(".bulk button")), chromedp.KeyEvent(kb.Enter), seen("form[action='/ui/jobs/apply']"))
	if text := watching.text("h1"); text != "Cancel 1 job?" {
		t.Fatalf("the question is %q", text)
	}
	watching.do(chromedp.Focus(chromedp.CSS("form[action='/ui/jobs/apply'] button")), chromedp.KeyEvent(kb.Enter), seen("#notice"))
	b.do(chromedp.Focus(chromedp.CSS("#kill button")), chromedp.KeyEvent(kb.Enter), seen("form[action='/ui/jobs/apply']"))
	b.do(chromedp.Focus(chromedp.CSS("form[action='/ui/jobs/apply'] button")), chromedp.KeyEvent(kb.Enter), seen("#notice"))
	b.until(`document.querySelector("#head").innerText.includes("killed by operator")`)
	b.requireCalm()
	watching.requireCalm()
}

// The preview of a rule names the jobs that the rule then holds back.
func TestThePreviewIsWhatHappens(t *testing.T) {
	d := newDaemon(t).start()
	d.cli("config", "set", "max_running_jobs=1")
	d.submit(nil, "sleep 300")
	for range 3 {
		d.submit([]string{"--reason", "disk"}, "true")
	}
	b := newBrowser(t)
	b.login(d, "operator", "/ui/filters")
	b.do(chromedp.SetValue(chromedp.CSS("select[name=kind]"), "opcode"), chromedp.Focus(chromedp.CSS("input[name=value]")), chromedp.KeyEvent("OP_RUN_COMMAND"))
	b.until(`document.querySelector("#preview-count")`)
	before := b.text("#preview-count")
	b.do(chromedp.Click(chromedp.CSS("#rule-form .primary")), seen("#notice"))
	hits := b.text("#rules tbody tr td:nth-child(7)")
	if !strings.HasPrefix(before, hits+" of 4") || hits != "4" {
		t.Fatalf("the preview is %q, and the rule decides about %q", before, hits)
	}
	if why := d.cli("why", "3"); !strings.Contains(why, "ilter rule") {
		t.Fatalf("job 3: %s", why)
	}
	b.requireCalm()
}

// Several conditions make one rule: the live preview counts the jobs of both, and the rule that it names is edited again by its
// conditions.
func TestARuleOfSeveralConditions(t *testing.T) {
	d := newDaemon(t).start()
	d.cli("config", "set", "max_running_jobs=1")
	for range 4 {
		d.submit(nil, "sleep 300")
	}
	b := newBrowser(t)
	b.login(d, "operator", "/ui/filters")
	b.do(chromedp.SetValue(chromedp.CSS("select[name=kind]"), "jobid"), chromedp.SetValue(chromedp.CSS("input[name=field]"), "id"),
		chromedp.SetValue(chromedp.CSS("input[name=value]"), "2"), chromedp.Click(chromedp.CSS("button[name=more]")), seen(".condition + .condition"))
	if focused := eval[string](b, "document.activeElement.name"); focused != "kind" {
		t.Fatalf("focus is at %q, not at the new condition", focused)
	}
	b.do(chromedp.SetValue(chromedp.CSS("select[name=join]"), "any"), chromedp.Focus(chromedp.CSS(".condition + .condition input[name=value]")), chromedp.KeyEvent("4"))
	b.until(`document.querySelector("#preview-count") && document.querySelector("#preview-count").innerText.startsWith("2 of 4")`)
	b.do(chromedp.Click(chromedp.CSS("#rule-form .primary")), seen("#notice"))
	b.requireText("#rules .if", "job is 2 or 4")
	if rule := eval[string](b, `document.querySelector("#rules .if").title`); rule != `[["jobid",["|",["=","id",2],["=","id",4]]]]` {
		t.Fatalf("the rule is %q", rule)
	}
	b.do(chromedp.Click(chromedp.CSS("#rules a.button")), seen("#editor .condition + .condition"))
	if join := eval[string](b, `document.querySelector("select[name=join]").value + document.querySelectorAll("input[name=value]")[1].value`); join != "any4" {
		t.Fatalf("the editor has %q", join)
	}
	b.check(axeSource(t), "filters-conditions")
	b.requireCalm()
}

// Ten tabs with two live logs stay live over one connection each kind of which browsers permit six to a host.
func TestTenTabsAreLive(t *testing.T) {
	d := newDaemon(t).start()
	for range 2 {
		d.submit(nil, "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.2; done")
	}
	b := newBrowser(t)
	b.login(d, "operator", "/ui/jobs/1")
	tabs := []*browser{b}
	for i := range 9 {
		tab := b.tab()
		tab.open(d.url + []string{"/ui/jobs", "/ui/jobs/2"}[min(i, 1)*(1-min(i/2, 1))])
		tabs = append(tabs, tab)
	}
	tabs[0].until(`document.querySelector("#log").childElementCount > 10`)
	tabs[2].until(`document.querySelector("#log").childElementCount > 10`)
	d.submit([]string{"--name", "seen"}, "true")
	for i, tab := range tabs {
		if i != 0 && i != 2 {
			tab.run("document.hidden")
			tab.until(`document.querySelector("#job-3 .s-success")`)
		}
		tab.requireCalm()
	}
}

// What a job writes changes nothing but the text of its log: markup, escapes, long lines and bytes that are no text.
func TestHostileOutput(t *testing.T) {
	d := newDaemon(t).start()
	id := d.submit([]string{"--name", "hostile", "--reason", `<script>alert(1)</script>"'`},
		`printf '<script>alert(1)</script><img src=x onerror=alert(2)>\n'; printf '\033]0;title\007\033[2J\033[31;5mred\033[0m\n'; printf '\377\376\000bytes\n'; head -c 10000000 /dev/zero | tr '\0' a; echo; printf 'end\n' >&2`)
	d.await("the end of the job", func() bool {
		_, body := d.api("GET", "/2/jobs/"+id, "")
		return strings.Contains(body, `"status": "success"`)
	})
	b := newBrowser(t)
	b.login(d, "operator", "/ui/jobs/"+id)
	b.until(`document.querySelector("#log").textContent.includes("end")`)
	if n := eval[int](b, `document.querySelectorAll("#log script, #log img, #main script").length`); n != 0 {
		t.Fatal("markup of a job is an element of the page")
	}
	if text := eval[string](b, `document.querySelector("#log").textContent`); !strings.Contains(text, "<script>alert(1)</script>") && !strings.Contains(text, "Earlier") {
		t.Fatalf("the log has %.300q", text)
	}
	for _, path := range []string{"/ui/jobs", "/ui/", "/ui/timeline", "/ui/jobs/" + id + "/graph"} {
		b.open(d.url + path)
	}
	b.requireCalm()
	c := d.client()
	response, err := c.Get(d.url + "/ui/jobs/" + id + "/log?stream=stderr")
	must(t, err)
	defer response.Body.Close()
	if got := response.Header.Get("Content-Disposition"); !strings.HasPrefix(got, "attachment") {
		t.Fatalf("the log is shown as a page: %q", got)
	}
}

// A login opens a session that ends with the log-out, on the server, and pages say so.
func TestSessions(t *testing.T) {
	d := newDaemon(t).start()
	b := newBrowser(t)
	b.login(d, "reader", "/ui/settings")
	if disabled := eval[bool](b, `[...document.querySelectorAll("main button")].every(b => b.disabled && b.title.includes("needs the role"))`); !disabled {
		t.Fatal("a reader has a button that is not disabled with its reason")
	}
	b.login2(d)
	other := b.tab()
	other.open(d.url + "/ui/jobs")
	other.until(`document.querySelector("#live").innerText === "live"`)
	b.do(chromedp.Click(chromedp.CSS("form[action='/ui/logout'] button")), seen("input[name=name]"))
	other.until(`document.querySelector("#banner").innerText.includes("session has ended")`)
	other.open(d.url + "/ui/jobs")
	if at := eval[string](other, "location.pathname"); at != "/ui/login" {
		t.Fatalf("without a session the browser is at %s", at)
	}

	// Another site and a client without the cookie change nothing.
	c := d.client()
	for _, h := range []string{"Origin", "Sec-Fetch-Site"} {
		request, err := http.NewRequest(http.MethodPost, d.url+"/ui/drain", strings.NewReader("drained=1"))
		must(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set(h, map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}[h])
		response, err := c.Do(request)
		must(t, err)
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Fatalf("a foreign page may drain the queue: %s", response.Status)
		}
	}
	// Guessing is slowed down, without a WWW-Authenticate that would open a dialog.
	// One guess waits for its check, and the others are refused at once.
	codes := make(chan int, 12)
	for range cap(codes) {
		go func() {
			response, err := http.PostForm(d.url+"/ui/login", url.Values{"name": {"operator"}, "password": {"guess"}})
			if err != nil {
				return
			}
			response.Body.Close()
			if response.Header.Get("WWW-Authenticate") != "" {
				codes <- http.StatusUnauthorized
				return
			}
			codes <- response.StatusCode
		}()
	}
	refused := 0
	for refused < 3 {
		switch <-codes {
		case http.StatusUnauthorized:
			t.Fatal("a page asks the browser for a password")
		case http.StatusTooManyRequests:
			refused++
		}
	}
}

// What the user's options or the daemon's forbid is shown disabled, with the reason.
func TestWhatIsForbiddenIsDisabled(t *testing.T) {
	d, running, failed := populated(t)
	b := newBrowser(t)
	b.login(d, "reader", "/ui/")
	for _, path := range []string{"/ui/", "/ui/jobs", "/ui/jobs/" + running, "/ui/jobs/" + failed, "/ui/filters", "/ui/filters?edit=none", "/ui/nodes", "/ui/settings", "/ui/opcodes/OP_TEST_DELAY"} {
		b.open(d.url + path)
		open := eval[[]string](b, `[...document.querySelectorAll("main form[method=post] button")].filter(b => !/preview|confirm/.test((b.getAttribute("formaction") || b.form.getAttribute("action")))
			&& !(b.disabled && b.title.includes("needs the role"))).map(b => b.outerHTML)`)
		if len(open) > 0 {
			t.Errorf("%s: a reader may press %q", path, open)
		}
	}
	if n := eval[int](b, `document.querySelectorAll("main button:disabled").length`); n == 0 {
		t.Error("the form of an opcode has no disabled button")
	}
	b.requireCalm()

	careful := newDaemon(t).start("--rapi-allow-commands=false")
	b.login(careful, "operator", "/ui/opcodes/OP_RUN_COMMAND")
	if why := eval[string](b, `[...document.querySelectorAll("#opcode-form button.primary")].map(b => b.disabled + " " + document.querySelector("main").innerText).join()`); !strings.HasPrefix(why, "true ") || !strings.Contains(why, "rapi-allow-commands") {
		t.Errorf("without --rapi-allow-commands the form is %q", why)
	}
}

// Two daemons of one host have sessions side by side in one browser.
func TestTwoDaemonsOfOneHost(t *testing.T) {
	one, two := newDaemon(t).start(), newDaemon(t).start()
	b := newBrowser(t)
	b.login(one, "operator", "/ui/jobs")
	b.login(two, "reader", "/ui/jobs")
	b.open(one.url + "/ui/jobs")
	if name := b.text(".user"); !strings.HasPrefix(name, "operator") {
		t.Fatalf("at the first daemon the user is %q", name)
	}
	b.do(chromedp.Click(chromedp.CSS("form[action='/ui/logout'] button")), seen("input[type=password]"))
	b.open(two.url + "/ui/jobs")
	if name := b.text(".user"); !strings.HasPrefix(name, "reader") {
		t.Fatalf("after the log-out from the first daemon the user of the second is %q", name)
	}
	b.requireCalm()
}

// A session that was not used for twelve hours has expired: an open page says so, and leads to the login and back. The file of sessions
// is changed, while the daemon is stopped, into what it is twelve hours later.
func TestASessionExpires(t *testing.T) {
	d := newDaemon(t)
	address := "127.0.0.1:" + freePort(t)
	d.start("--rapi-address", address)
	b := newBrowser(t)
	b.login(d, "operator", "/ui/jobs?status=error")
	b.until(`document.querySelector("#live").innerText === "live"`)
	d.kill()
	b.until(`document.querySelector("#banner").innerText.includes("does not answer")`)
	path := filepath.Join(d.dir, "lib", "sessions.json")
	data, err := os.ReadFile(path)
	must(t, err)
	used := regexp.MustCompile(`"used":\d+`)
	if !used.Match(data) {
		t.Fatalf("the file of sessions is %s", data)
	}
	must(t, os.WriteFile(path, used.ReplaceAll(data, fmt.Appendf(nil, `"used":%d`, time.Now().Add(-12*time.Hour-time.Minute).Unix())), 0o600))
	d.start("--rapi-address", address)
	b.until(`document.querySelector("#banner").innerText.includes("session has ended")`)
	b.do(chromedp.Click(chromedp.CSS("#banner a")), seen("input[name=name]"), chromedp.Focus(chromedp.CSS("input[name=name]")),
		chromedp.KeyEvent("operator\tsecret\r"), seen(".pages"))
	if at := eval[string](b, "location.pathname + location.search"); at != "/ui/jobs?status=error" {
		t.Fatalf("the login leads to %s", at)
	}
}

// A page whose stream was cut off loads again by itself, and shows what has changed meanwhile.
func TestACutStreamIsLoadedAgain(t *testing.T) {
	d := newDaemon(t).start()
	p := newProxy(t, strings.TrimPrefix(d.url, "http://"))
	b := newBrowser(t)
	b.open("http://" + p.address + "/ui/jobs")
	b.do(seen("input[name=name]"), chromedp.Focus(chromedp.CSS("input[name=name]")), chromedp.KeyEvent("operator\tsecret\r"), seen(".pages"))
	b.until(`document.querySelector("#live").innerText === "live"`)
	b.run("window.here = true; 0")
	p.cut()
	b.until(`document.querySelector("#live").innerText === "not live"`)
	d.submit([]string{"--name", "missed"}, "true")
	p.mend()
	b.until(`document.querySelector("#job-1 .s-success") && document.querySelector("#live").innerText === "live" && window.here`)
}

// login2 logs the present user out and the operator in.
func (b *browser) login2(d *daemon) {
	b.Helper()
	b.do(chromedp.Click(chromedp.CSS("form[action='/ui/logout'] button")), seen("input[name=name]"),
		chromedp.Focus(chromedp.CSS("input[name=name]")), chromedp.KeyEvent("operator\tsecret\r"), seen(".pages"))
}

// A login by a link may do what its user may do at the socket: submit a command and run it again, also where a password may not.
func TestALinkHasTheRightsOfTheSocket(t *testing.T) {
	t.Parallel()
	d := newDaemon(t).start("--rapi-allow-commands=false")
	b := newBrowser(t)
	b.open(d.cli("open"))
	b.do(chromedp.KeyEvent(kb.Enter), seen(".pages"))
	b.open(d.url + "/ui/opcodes/OP_RUN_COMMAND")
	b.do(chromedp.Focus(chromedp.CSS("#p-argv")), chromedp.KeyEvent("echo\rhello"))
	b.press("#opcode-form .primary")
	b.until(`document.querySelector(".head .s-success")`)
	b.press("form[action$='/rerun'] button")
	b.requireText("#notice", "The job was submitted.")
	b.requireCalm()

	other := newBrowser(t)
	other.login(d, "operator", "/ui/jobs/1")
	if why := eval[string](other, `document.querySelector("form[action$='/rerun'] button").title`); !strings.Contains(why, "--rapi-allow-commands") {
		t.Fatalf("a login with a password may run a command again: %q", why)
	}
	c := d.client()
	for _, path := range []string{"/ui/jobs/1/rerun", "/ui/opcodes/OP_RUN_COMMAND"} {
		response, err := c.PostForm(d.url+path, url.Values{"p-argv": {"true"}})
		must(t, err)
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("%s with a password: %s", path, response.Status)
		}
	}
}

// A login link works once, by its button.
func TestALoginLink(t *testing.T) {
	d := newDaemon(t).start()
	link := d.cli("open")
	if !strings.HasPrefix(link, d.url+"/ui/open?token=") {
		t.Fatalf("the link is %q", link)
	}
	response, err := http.Get(link) // a preview
	must(t, err)
	response.Body.Close()
	if response.Header.Get("Referrer-Policy") != "no-referrer" || response.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("headers of the link: %v", response.Header)
	}
	b := newBrowser(t)
	b.open(link)
	b.do(chromedp.KeyEvent(kb.Enter), seen(".pages"))
	if title := eval[string](b, `document.querySelector(".user").title`); !strings.Contains(title, "uid=") || strings.Contains(b.text(".user"), "uid=") {
		t.Fatalf("logged in as %q, %q", b.text(".user"), title)
	}
	again := newBrowser(t)
	again.open(link)
	again.do(chromedp.KeyEvent(kb.Enter), seen(".card"))
	again.until(`document.body.innerText.includes("was used already")`)
	data, err := os.ReadFile(filepath.Join(d.dir, "out"))
	must(t, err)
	if token := strings.TrimPrefix(link, d.url+"/ui/open?token="); strings.Contains(string(data), token) {
		t.Fatal("the log of the daemon has the token")
	}
	b.requireCalm()
}

// Under many changes a page stays live, with short tasks, and keeps focus and memory.
func TestUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: -short; make browser-load runs it")
	}
	d := newDaemon(t).start()
	d.cli("filter", "add", "--action", "PAUSE", "--opcode", "OP_TEST_DELAY")
	b := newBrowser(t)
	b.login(d, "operator", "/ui/jobs")
	b.run(`window.long = 0; window.refreshes = 0; new PerformanceObserver(l => { for (const e of l.getEntries()) window.long = Math.max(window.long, e.duration); }).observe({type: "longtask"});
		const f = window.fetch; window.fetch = (...a) => { window.refreshes++; return f(...a); }; document.querySelector("input[name=search]").focus(); 0`)
	body := `{"jobs":[` + strings.TrimSuffix(strings.Repeat(`[{"OP_ID":"OP_TEST_DELAY","duration":1}],`, 100), ",") + `]}`
	memory := func() int {
		return eval[int](b, "Math.round((performance.memory || {usedJSHeapSize: 0}).usedJSHeapSize / 1e6)")
	}
	begin, jobs := time.Now(), 0
	middle := 0
	for time.Since(begin) < 30*time.Second {
		if code, text := d.api("POST", "/3/jobs", body); code != http.StatusCreated {
			t.Fatal(code, text)
		}
		jobs += 100
		if middle == 0 && time.Since(begin) > 15*time.Second {
			middle = memory()
		}
		if ahead := time.Duration(jobs)*time.Millisecond - time.Since(begin); ahead > 0 {
			<-time.After(ahead)
		}
	}
	long, refreshes := eval[float64](b, "window.long"), eval[int](b, "window.refreshes")
	t.Logf("%d changes in %v: longest task %.0f ms, %d updates, %d MB in the middle, %d MB at the end", jobs, time.Since(begin).Round(time.Second), long, refreshes, middle, memory())
	if long > 200 || refreshes > 125 || eval[string](b, "document.activeElement.name") != "search" {
		t.Fatalf("longest task %.0f ms, %d updates, focus at %s", long, refreshes, eval[string](b, "document.activeElement.name"))
	}
	b.requireCalm()
}
