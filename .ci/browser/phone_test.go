package browser

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// In the window of a phone the pages are in a menu, the filter is folded, and the timeline shows its newest end.
func TestOnAPhone(t *testing.T) {
	t.Parallel()
	d := newDaemon(t).start()
	d.submit([]string{"--name", "busy"}, "sleep 300")
	d.await("a running job", func() bool { return strings.Contains(d.cli("list"), "running") })
	b := newBrowser(t)
	b.login(d, "operator", "/ui/jobs")
	b.look(390, 844, false)
	shown := func(selector string) bool {
		return eval[bool](b, `document.querySelector("`+selector+`").checkVisibility()`)
	}
	if shown(".pages") || shown("input[name=user]") || !shown("input[name=search]") {
		t.Fatal("the menu or the filter is not folded")
	}
	if height := eval[int](b, `document.querySelector(".top").offsetHeight`); height > 60 {
		t.Errorf("the header has %d pixels", height)
	}
	b.do(chromedp.Focus(chromedp.CSS("#menu")), chromedp.KeyEvent(kb.Enter), holds(`document.querySelector("#menu").getAttribute("aria-expanded") === "true"`))
	if !shown(".pages") || !shown(".who form") {
		t.Fatal("the menu does not open")
	}
	b.check(axeSource(t), "menu")
	b.look(390, 844, false)
	b.press(".pages a[href='/ui/timeline']")
	if over := eval[bool](b, `(c => c.scrollWidth > c.clientWidth && c.scrollLeft + c.clientWidth >= c.scrollWidth - 1)(document.querySelector("#chart"))`); !over {
		t.Fatal("the timeline does not begin at its newest end")
	}
	b.requireCalm()
}

// With the keyboard alone jobs are found, selected, held and released, and the keys are listed.
func TestTheKeys(t *testing.T) {
	t.Parallel()
	d := newDaemon(t).start()
	d.cli("config", "set", "max_running_jobs=1")
	for range 3 {
		d.submit(nil, "sleep 300")
	}
	b := newBrowser(t)
	b.login(d, "operator", "/ui/")
	for key, path := range map[string]string{"t": "/ui/timeline", "r": "/ui/order", "c": "/ui/schedules", "a": "/ui/audit", "l": "/ui/locks", "f": "/ui/filters", "n": "/ui/nodes", "s": "/ui/opcodes", "e": "/ui/settings", "o": "/ui/"} {
		b.do(chromedp.KeyEvent("g"+key), holds("location.pathname === '"+path+"' && document.readyState === 'complete'"))
	}
	b.do(chromedp.KeyEvent("?"), holds("location.pathname === '/ui/help' && document.readyState === 'complete'"))
	for _, key := range []string{"j", "k", "x", "a", "Esc", "/", "g", "?", "[", "]"} {
		if listed := eval[bool](b, `[...document.querySelectorAll("kbd")].some(k => k.innerText === "`+key+`")`); !listed {
			t.Errorf("the help does not list the key %s", key)
		}
	}
	b.do(chromedp.KeyEvent("gj"), seen("#job-3"))
	b.do(chromedp.KeyEvent("jxjx"))
	b.requireText("#picked", "2 jobs selected")
	b.do(chromedp.KeyEvent("a"), holds(`document.activeElement.name === "action"`), chromedp.KeyEvent(kb.Home+kb.ArrowDown+kb.ArrowDown))
	b.until(`document.querySelector("select[name=action]").value === "hold"`)
	b.do(chromedp.KeyEvent("\t\t"+kb.Enter), seen("form[action='/ui/jobs/apply']"), chromedp.KeyEvent(kb.Enter), seen("#notice"))
	b.requireText("#notice", "Done for 2 of 2 jobs.")
	if why := d.cli("why", "2"); !strings.Contains(why, "held") {
		t.Fatalf("job 2: %s", why)
	}
	b.requireCalm()
}

// Output that is not text is one line, with its size and a download, as it comes and when the page is loaded again.
func TestOutputThatIsNotText(t *testing.T) {
	t.Parallel()
	d := newDaemon(t).start()
	id := d.submit(nil, "read x < "+d.dir+"/go; head -c 30000 /dev/urandom; echo; echo some text after it; sleep 300")
	must(t, syscall.Mkfifo(d.dir+"/go", 0o600))
	b := newBrowser(t)
	b.login(d, "operator", "/ui/jobs/"+id)
	must(t, os.WriteFile(d.dir+"/go", []byte("go\n"), 0o600))
	b.until(`document.querySelector("#log").innerText.includes("some text after it")`)
	for range 2 {
		if n := eval[int](b, `document.querySelectorAll("#log .binary").length`); n > 3 {
			t.Fatalf("30 kB that are not text have %d lines", n)
		}
		if text := b.text("#log .binary"); !strings.Contains(text, "that are not text: download") {
			t.Fatalf("the line is %q", text)
		}
		b.open(d.url + "/ui/jobs/" + id)
	}
	if to := eval[string](b, `document.querySelector("#log .binary a").pathname`); to != "/ui/jobs/"+id+"/log" {
		t.Fatalf("the download is %s", to)
	}
	b.requireCalm()
}

// Settings are typed with units. A value that is wrong is shown again, with the reason.
func TestSettingsWithUnits(t *testing.T) {
	t.Parallel()
	d := newDaemon(t).start()
	b := newBrowser(t)
	b.login(d, "operator", "/ui/settings")
	b.do(chromedp.SetValue(chromedp.CSS("input[name=archive_after]"), "30"), chromedp.SetValue(chromedp.CSS("select[name=order]"), "plain"))
	b.press("form[action='/ui/settings'] button")
	if text := b.text(".problem"); !strings.Contains(text, "30 has no unit") {
		t.Fatalf("the problem is %q", text)
	}
	if value := eval[string](b, `document.querySelector("input[name=archive_after]").value + document.querySelector("select[name=order]").value`); value != "30plain" {
		t.Fatalf("what was typed is %q", value)
	}
	b.do(chromedp.SetValue(chromedp.CSS("input[name=archive_after]"), "30d"))
	b.press("form[action='/ui/settings'] button")
	b.requireText("#notice", "The settings are in force.")
	if got := d.cli("config", "get", "archive_after") + " " + d.cli("config", "get", "order"); got != "30d plain" {
		t.Fatalf("the settings are %q", got)
	}
	b.requireCalm()
}

// A rule that the command line has made from words is shown in words, and edited without JSON.
func TestRulesInWords(t *testing.T) {
	t.Parallel()
	d := newDaemon(t).start()
	d.cli("filter", "add", "--action", "PAUSE", "--opcode", "OP_TEST_DELAY", "--opcode", "OP_RUN_COMMAND", "--job-newer", "--user", "ann", "--for", "2d")
	b := newBrowser(t)
	b.login(d, "operator", "/ui/filters")
	if text := b.text("#rules .if"); !strings.Contains(text, "opcode is OP_TEST_DELAY or OP_RUN_COMMAND") || strings.Contains(text, "[") {
		t.Fatalf("the rule is %q", text)
	}
	b.press("#rules a.button")
	if raw := eval[string](b, "document.querySelector('textarea[name=json]').value"); raw != "" {
		t.Fatalf("the rule is edited as JSON: %s", raw)
	}
	before := eval[string](b, "document.querySelector('#rules .if').title")
	b.press("#rule-form .primary")
	b.requireText("#notice", "The rule is in force.")
	if after := eval[string](b, "document.querySelector('#rules .if').title"); !strings.Contains(after, `["|",["=","OP_ID","OP_TEST_DELAY"],["=","OP_ID","OP_RUN_COMMAND"]]`) {
		t.Fatalf("the rule %s has become %s", before, after)
	}
	b.requireCalm()
}
