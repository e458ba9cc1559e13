package browser

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// pages are all pages, by the names of their screenshots. A %s is the id of the running job, a %f that of a failed one.
var pages = [][2]string{
	{"overview", "/ui/"}, {"jobs", "/ui/jobs"}, {"jobs-filtered", "/ui/jobs?status=error"}, {"job-running", "/ui/jobs/%s"}, {"job-failed", "/ui/jobs/%f"}, {"job-between-tries", "/ui/jobs/8"}, {"job-later", "/ui/jobs/9"},
	{"timeline", "/ui/timeline?window=10m"}, {"chain", "/ui/jobs/7/graph"}, {"locks", "/ui/locks"}, {"filters", "/ui/filters"}, {"order", "/ui/order"}, {"schedules", "/ui/schedules"}, {"schedule", "/ui/schedules/nightly"}, {"schedule-paused", "/ui/schedules/tick"}, {"audit", "/ui/audit"}, {"nodes", "/ui/nodes"},
	{"settings", "/ui/settings"}, {"opcodes", "/ui/opcodes"}, {"submit", "/ui/opcodes/OP_RUN_COMMAND"}, {"help", "/ui/help"}, {"missing", "/ui/jobs/99999"},
}

// populated is a daemon with jobs of each kind. It returns the id of a job that runs and of one that has failed.
func populated(t *testing.T) (d *daemon, running, failed string) {
	d = newDaemon(t).start()
	for _, name := range []string{"backup-n1", "backup-n2", "scrub"} {
		d.submit([]string{"--name", name}, "echo checking "+name+"; echo done")
	}
	failed = d.submit([]string{"--name", "replace-disk"}, `printf '\033[1mReplacing disk 3\033[0m\n'; printf '\033[33mwarning: the array is degraded\033[0m\n' >&2; printf '\033[31mno spare disk\033[0m\n' >&2; exit 3`)
	d.await("the end of a job", func() bool { return strings.Contains(d.cli("info", failed), "exit 3") })
	running = d.submit([]string{"--name", "migrate", "--lock", "node/n1", "--reason", "maintenance of n1"}, `echo '40 moving part 41' > "$LOCKSTEP_PROGRESS"; for i in $(seq 1 40); do printf '\033[32mok\033[0m moved part %s of 4000\n' $i; done; sleep 300`)
	waiting := d.submit([]string{"--name", "reboot-n1", "--lock", "node/n1"}, "true")
	d.submit([]string{"--name", "verify", "--after", waiting}, "true")
	flaky := d.submit([]string{"--name", "sync-mirror", "--keep-output", "--retry", "5", "--retry-delay", "10m", "--retry-on", "1,75,timeout"}, "echo the mirror is busy >&2; exit 75")
	d.await("the end of a try", func() bool { return strings.Contains(d.cli("info", flaky), "Tries:") })
	d.submit([]string{"--name", "cleanup", "--delay", "2h"}, "true")
	d.schedules()
	d.cli("filter", "add", "--action", "PAUSE", "--opcode", "OP_TEST_DELAY", "--reason", "no tests during maintenance")
	d.await("a running job", func() bool { return strings.Contains(d.cli("info", running), "part 40") })
	return d, running, failed
}

// Every page is whole in light, dark and narrow windows: no script complains, nothing violates the policy, nothing needs sideways
// scrolling at 320 pixels, axe-core has no finding, nothing moves, and each control has a name.
func TestEveryPage(t *testing.T) {
	d, running, failed := populated(t)
	b := newBrowser(t)
	axe := axeSource(t)
	b.open(d.url + "/ui/login")
	b.check(axe, "login")
	b.login(d, "operator", "/ui/")
	for _, p := range pages {
		name, path := p[0], strings.NewReplacer("%s", running, "%f", failed).Replace(p[1])
		b.open(d.url + path)
		b.until("document.readyState === 'complete'")
		b.check(axe, name)
		b.requireStill(name)
		b.requireNames(name)
	}
	b.requireCalm()
}

// check looks at a page in three ways.
func (b *browser) check(axe, name string) {
	b.Helper()
	for _, way := range []struct {
		name  string
		width int64
		dark  bool
	}{{"light", 1280, false}, {"dark", 1280, true}, {"narrow", 320, false}} {
		b.look(way.width, 900, way.dark)
		b.until("document.fonts.status === 'loaded'")
		b.shoot(name + "-" + way.name)
		if over := eval[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			wide := eval[[]string](b, `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll")).map(e => e.outerHTML.slice(0, 90)).slice(0, 6)`)
			b.Errorf("%s is %d pixels too wide at %d: %q", name, over, way.width, wide)
		}
		if axe != "" {
			b.axe(axe, name+" "+way.name)
		}
	}
	b.look(1280, 900, false)
}

// axeSource is the script of axe-core, which `make browser` fetches.
func axeSource(t *testing.T) string {
	data, err := os.ReadFile(filepath.Join(root(t), "bin", "axe-core", "axe.min.js"))
	if err != nil {
		t.Log("NOT RUN: axe-core is missing; make browser fetches it")
		return ""
	}
	return string(data)
}

// axe fails on each finding. Of a long list it reads the first rows: the others have the same elements.
func (b *browser) axe(source, name string) {
	b.Helper()
	b.run(source + ";0")
	text := eval[string](b, `axe.run({exclude: ["#list tbody tr:nth-child(n + 30)"]}, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations.map(v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map(n => n.html.slice(0, 160) + " " + (n.any[0] ? n.any[0].message : "")).slice(0, 3)}))))`,
		chromedp.EvalAwaitPromise)
	var found []struct {
		ID, Impact, Help string
		Nodes            []string
	}
	must(b, json.Unmarshal([]byte(text), &found))
	for _, f := range found {
		b.Errorf("%s: %s (%s): %q", name, f.Help, f.ID, f.Nodes)
	}
}

// Every page works without script: a job is submitted, filtered, looked at and canceled.
func TestWithoutScript(t *testing.T) {
	d := newDaemon(t).start()
	b := newBrowser(t)
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	must(t, err)
	b.login(d, "operator", "/ui/opcodes/OP_RUN_COMMAND")
	b.do(chromedp.SetValue(chromedp.CSS("#p-argv"), "sh\n-c\necho hello; sleep 300"), chromedp.SetValue(chromedp.CSS("input[name=job-name]"), "plain"),
		chromedp.Click(chromedp.CSS("#opcode-form button.primary")), seen("#notice"))
	d.await("output", func() bool { return strings.Contains(d.apiLog("1"), "hello") })
	b.open(d.url + "/ui/jobs/1")
	log, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS("#log")))
	must(t, err)
	if !strings.Contains(log, "hello") {
		t.Fatalf("the log has %q", log)
	}
	b.open(d.url + "/ui/jobs?name=pl*")
	b.do(chromedp.Click(chromedp.CSS("#pick-1")), chromedp.Click(chromedp.CSS(".bulk button")), seen("form[action='/ui/jobs/apply']"),
		chromedp.Click(chromedp.CSS("form[action='/ui/jobs/apply'] button")), seen("#notice"))
	b.open(d.url + "/ui/jobs/1")
	b.do(chromedp.Click(chromedp.CSS("#kill button")), seen("form[action='/ui/jobs/apply']"))
	b.do(chromedp.Click(chromedp.CSS("form[action='/ui/jobs/apply'] button")), seen("#notice"))
	d.await("the end of the job", func() bool { return strings.Contains(d.cli("info", "1"), "killed by") })
	b.open(d.url + "/ui/filters")
	b.do(chromedp.SetValue(chromedp.CSS("input[name=value]"), "OP_RUN_COMMAND"), chromedp.Click(chromedp.CSS("button[name=more]")), seen(".condition + .condition"),
		chromedp.SetValue(chromedp.CSS(".condition + .condition input[name=field]"), "user"), chromedp.SetValue(chromedp.CSS(".condition + .condition input[name=value]"), "root"),
		chromedp.Click(chromedp.CSS("#rule-form .row:last-child button")), seen("#preview-count"), chromedp.Click(chromedp.CSS("#rule-form .primary")), seen("#notice"))
	if rule, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS("#rules .if"))); err != nil || rule != `opcode is OP_RUN_COMMAND and user is "root"` {
		t.Fatalf("the rule is %q", rule)
	}
	b.requireCalm()
}
