package browser

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// moving are the elements and pseudo-elements that have an animation or a transition, and the animations that run.
const moving = `(() => {
	const found = document.getAnimations().map(a => "runs: " + (a.effect && a.effect.target ? a.effect.target.outerHTML.slice(0, 80) : a.id));
	for (const e of document.querySelectorAll("*")) for (const pseudo of [null, "::before", "::after"]) {
		const s = getComputedStyle(e, pseudo);
		if (s.animationName !== "none" || s.transitionDuration.split(", ").some(d => parseFloat(d) > 0) || s.scrollBehavior !== "auto")
			found.push(e.outerHTML.slice(0, 80) + (pseudo || ""));
	}
	return found;
})()`

// prefer sets the browser to reduced motion, or to none of it.
func (b *browser) prefer(motion string) {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: motion}}})
	must(b, err)
	b.until(fmt.Sprintf("matchMedia('(prefers-reduced-motion: %s)').matches", motion))
}

// requireStill fails if something of the page moves, whether the browser is set to reduced motion or not.
func (b *browser) requireStill(name string) {
	b.Helper()
	for _, motion := range []string{"no-preference", "reduce"} {
		b.prefer(motion)
		if found := eval[[]string](b, moving); len(found) > 0 {
			b.Errorf("%s with prefers-reduced-motion: %s: %q", name, motion, found)
		}
	}
}

// A page does not move while it changes by itself.
func TestAChangeDoesNotMove(t *testing.T) {
	t.Parallel()
	d := newDaemon(t).start()
	b := newBrowser(t)
	b.login(d, "operator", "/ui/jobs")
	b.prefer("reduce")
	b.run(`window.moved = []; for (const kind of ["transitionrun", "animationstart"]) document.addEventListener(kind, e => window.moved.push(e.target.outerHTML), true); 0`)
	d.submit(nil, "true")
	b.until(`document.querySelector("#job-1 .s-success")`)
	b.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("x"))
	if found := eval[[]string](b, "window.moved.concat("+moving+")"); len(found) > 0 {
		t.Errorf("a change of the page moves %q", found)
	}
	b.requireCalm()
}

// times are those that a page shows: the time as RFC 3339, what is shown, and the title.
func (b *browser) times() [][3]string {
	b.Helper()
	return eval[[][3]string](b, `[...document.querySelectorAll("main time[datetime], main [data-time]")].map(t => [t.dateTime || t.dataset.time, t.textContent,
		t.title || (t.parentNode.querySelector("title") || {textContent: ""}).textContent])`)
}

// requireZone fails unless all times of the page are of a zone, and have their title.
func (b *browser) requireZone(path string, zone *time.Location) {
	b.Helper()
	shown := b.times()
	if len(shown) == 0 {
		b.Fatalf("%s shows no time", path)
	}
	for _, s := range shown {
		at, err := time.Parse(time.RFC3339, s[0])
		must(b, err)
		at = at.In(zone)
		if !strings.Contains(s[1], at.Format("03:04")) && !strings.Contains(s[1], at.Format("15:04")) || s[2] != s[0] {
			b.Errorf("%s shows %s as %q with the title %q", path, s[0], s[1], s[2])
		}
	}
}

// Times are in the zone of the browser, whatever that of the server is: in lists, sentences and charts, also after the page has changed
// by itself. Without script they are in the zone of the server, with the offset.
func TestTimesAreOfTheViewersZone(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/usr/share/zoneinfo/America/Caracas"); err != nil {
		t.Skip("NOT RUN: the definitions of time zones are missing; Debian has them as tzdata")
	}
	d := newDaemon(t)
	d.env = []string{"TZ=America/Caracas"} // -04:00, always
	d.start()
	ended := d.submit(nil, "true")
	d.cli("wait", ended)
	if code, text := d.api("POST", "/3/jobs", `{"ops": [{"OP_ID": "OP_TEST_DELAY", "duration": 300}, {"OP_ID": "OP_TEST_DELAY", "duration": 1}]}`); code != 201 {
		t.Fatal(code, text)
	}
	kolkata := time.FixedZone("Asia/Kolkata", 5*3600+1800)
	b := newBrowser(t)
	_, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"})
	must(t, err)
	b.login(d, "operator", "/ui/jobs/2")
	b.until(`document.querySelector("#why time")`) // at opcode 1 of 2, since …
	// Older engines name the same zone Asia/Calcutta.
	if zone := b.text("#zone"); zone != "Times: Asia/Kolkata" && zone != "Times: Asia/Calcutta" {
		t.Errorf("the foot of the page is %q", zone)
	}
	for _, path := range []string{"/ui/jobs/2", "/ui/jobs/1", "/ui/jobs", "/ui/timeline?window=10m", "/ui/timeline?window=7d"} {
		b.open(d.url + path)
		b.requireZone(path, kolkata)
	}
	if n := eval[int](b, `document.querySelectorAll("svg [data-time]").length`); n == 0 {
		t.Error("the chart has no times")
	}
	b.open(d.url + "/ui/jobs")
	b.until(`document.querySelector("#live").innerText === "live"`)
	d.submit(nil, "true")
	b.until(`document.querySelector("#job-3 .s-success")`)
	b.requireZone("the changed list", kolkata)
	b.requireCalm()

	_, err = chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	must(t, err)
	for _, path := range []string{"/ui/jobs/2", "/ui/jobs", "/ui/timeline?window=10m", "/ui/timeline?window=7d"} {
		b.open(d.url + path)
		b.requireZone(path, time.FixedZone("", -4*3600))
		for _, s := range b.times() {
			if !strings.HasSuffix(s[1], " -04:00") {
				t.Errorf("without script %s shows %q", path, s[1])
			}
		}
	}
}

// controls are the elements of a page that a mouse can use, by their place in the document.
const controls = `[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")].filter(e => !e.disabled && e.getAttribute("tabindex") !== "-1" && e.checkVisibility())`

// requireTab fails unless the tab key reaches each control of a page that was just opened, in their order, and the page shows where it is.
func (b *browser) requireTab(name string) {
	b.Helper()
	count := eval[int](b, "window.controls = "+controls+", window.controls.length")
	for i := range count {
		b.do(chromedp.KeyEvent(kb.Tab))
		at := eval[struct {
			Index     int
			HTML, Due string
			Ring      string
		}](b, fmt.Sprintf(`(a => ({Index: window.controls.indexOf(a), HTML: a.outerHTML.slice(0, 120), Due: window.controls[%d].outerHTML.slice(0, 120), Ring: getComputedStyle(a).outlineStyle}))(document.activeElement)`, i))
		if at.Index != i {
			b.Fatalf("%s: tab number %d is at %s, not at %s", name, i, at.HTML, at.Due)
		}
		if at.Ring == "none" {
			b.Errorf("%s: nothing shows that the focus is at %s", name, at.HTML)
		}
	}
}

// named are the roles whose elements a user acts on.
var named = map[string]bool{"button": true, "link": true, "textbox": true, "searchbox": true, "checkbox": true, "combobox": true, "DisclosureTriangle": true, "log": true}

// requireNames fails unless each control in the accessibility tree has a name. It returns the names of the buttons.
func (b *browser) requireNames(name string) map[string]bool {
	b.Helper()
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	must(b, err)
	buttons := map[string]bool{}
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil || !named[textOf(n.Role)] {
			continue
		}
		if textOf(n.Name) == "" {
			b.Errorf("%s: a %s has no name: node %s", name, textOf(n.Role), n.NodeID)
		}
		if textOf(n.Role) == "button" {
			buttons[textOf(n.Name)] = true
		}
	}
	return buttons
}

// textOf is a value of the accessibility tree.
func textOf(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	return strings.Trim(string(v.Value), `"`)
}

// The tab key reaches each button of a job's page.
func TestTheTabKey(t *testing.T) {
	t.Parallel()
	d, running, failed := populated(t)
	b := newBrowser(t)
	b.login(d, "operator", "/ui/")
	for id, want := range map[string][]string{running: {"Cancel", "End now", "Hold", "Set", "Log out"}, failed: {"Run again", "Archive", "Log out"}} {
		b.open(d.url + "/ui/jobs/" + id)
		buttons := b.requireNames("job " + id)
		for _, name := range want {
			if !buttons[name] {
				t.Errorf("job %s has no button %q, but %v", id, name, buttons)
			}
		}
		b.requireTab("job " + id)
	}
	b.requireCalm()
}
