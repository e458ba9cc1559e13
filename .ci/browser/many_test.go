package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// crowded is a daemon with 500 jobs of different commands: some have ended, some run, and the others wait for slots, locks and a rule. It
// returns the ids of a job that runs and of one that has failed.
func crowded(t *testing.T) (d *daemon, running, failed string) {
	t.Helper()
	d = newDaemon(t).start()
	failed = d.submit([]string{"--name", "replace-disk"}, "echo no spare disk >&2; exit 3")
	d.submit([]string{"--name", "verify-archive"}, "echo checked; echo done")
	for range 3 {
		d.submit(nil, "sleep 0.2") // from now on such jobs have estimates
	}
	d.cli("wait", "2", "3", "4", "5")
	d.cli("config", "set", "max_running_jobs=4")
	running = d.submit([]string{"--name", "migrate", "--lock", "node/n1", "--reason", "maintenance of n1"}, `for i in $(seq 1 40); do echo moved part $i of 4000; done; sleep 600`)
	d.submit([]string{"--name", "reboot-n1", "--lock", "node/n1", "--timeout", "1h"}, "sleep 5")
	d.cli("filter", "add", "--action", "PAUSE", "--opcode", "OP_TEST_DELAY", "--reason", "no tests during maintenance", "--for", "2h")
	commands := [][]string{
		{"rsync", "-a", "--delete", "--exclude=/var/cache", "/srv/www/", "backup.example.org:/srv/backup/www/"},
		{"pg_dump", "--format=custom", "--file=/srv/dumps/orders.dump", "orders"}, {"sh", "-c", "sleep 300"},
		{"sh", "-c", "for f in /srv/incoming/*.csv; do import \"$f\" && mv \"$f\" /srv/done/; done"}, {"zfs", "scrub", "tank"},
		{"certbot", "renew", "--quiet"}, {"nice", "make", "-C", "/srv/build", "all"},
	}
	var jobs []map[string]any
	for i := range 493 {
		op := map[string]any{"OP_ID": "OP_RUN_COMMAND", "argv": commands[i%len(commands)], "priority": (i%3 - 1) * 10}
		if i%31 == 5 {
			op = map[string]any{"OP_ID": "OP_TEST_DELAY", "duration": 5}
		}
		job := map[string]any{"ops": []any{op}}
		if i%3 == 0 {
			job["name"] = fmt.Sprintf("%s-%d", []string{"backup", "nightly-dump", "scrub", "import-of-the-day"}[i/3%4], i)
		}
		jobs = append(jobs, job)
	}
	body, err := json.Marshal(map[string]any{"jobs": jobs})
	must(t, err)
	if code, text := d.api("POST", "/3/jobs", string(body)); code != http.StatusCreated {
		t.Fatal(code, text)
	}
	return d, running, failed
}

// shootScreen writes a screenshot of what the window shows.
func (b *browser) shootScreen(name string) {
	b.Helper()
	dir := filepath.Join(root(b), "var", "console")
	must(b, os.MkdirAll(dir, 0o755))
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	must(b, err)
	must(b, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

// With 500 jobs each page fits the window of a notebook and of a phone, and is without findings. The list has 25 rows, of one line each,
// on 900 pixels, and the rest of each cell is in its title.
func TestEveryPageWith500Jobs(t *testing.T) {
	d, running, failed := crowded(t)
	b := newBrowser(t)
	axe := axeSource(t)
	b.login(d, "operator", "/ui/")
	for _, p := range pages {
		path := strings.NewReplacer("%s", running, "%f", failed).Replace(p[1])
		for _, way := range []struct {
			name          string
			width, height int64
		}{{"desk", 1280, 900}, {"phone", 390, 844}} {
			name := "500-" + p[0] + "-" + way.name
			b.look(way.width, way.height, false)
			b.open(d.url + path)
			b.until("document.readyState === 'complete' && document.fonts.status === 'loaded'")
			b.shootScreen(name)
			if over := eval[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
				t.Errorf("%s is %d pixels too wide", name, over)
			}
			if axe != "" {
				b.axe(axe, name)
			}
		}
	}
	b.look(1280, 900, false)
	b.open(d.url + "/ui/jobs")
	b.until(`document.querySelectorAll("#list tbody tr").length === 500`)
	if n := eval[int](b, `[...document.querySelectorAll("#list tbody tr")].filter(r => r.getBoundingClientRect().bottom <= innerHeight).length`); n < 25 {
		t.Errorf("a window of 900 pixels has %d rows", n)
	}
	if n := eval[int](b, `[...document.querySelectorAll("#list tbody tr")].filter(r => r.getBoundingClientRect().height > 32).length`); n > 0 {
		t.Errorf("%d rows have more than one line", n)
	}
	if cut := eval[[]string](b, `[...document.querySelectorAll("#list td.what, #list td.why")].filter(c => c.scrollWidth > c.clientWidth && !c.title.includes(c.lastChild.textContent.trim().slice(0, 190))).map(c => c.outerHTML)`); len(cut) > 0 {
		t.Errorf("cells that are cut have no title: %q", cut)
	}
	b.requireCalm()
}

// ids are the jobs that the list shows, in its order.
func (b *browser) ids() string {
	b.Helper()
	return eval[string](b, `[...document.querySelectorAll("#list tbody tr")].map(r => r.id.slice(4)).join(" ")`)
}

// The list is searched by what people typed, in names and commands, and sorted by its headers. A live page keeps both.
func TestSearchAndSort(t *testing.T) {
	t.Parallel()
	d := newDaemon(t).start()
	d.cli("config", "set", "max_running_jobs=1")
	d.submit([]string{"--name", "busy"}, "sleep 300")
	d.submit([]string{"--name", "Nightly", "--priority", "low"}, "true")
	d.submit([]string{"--priority", "high"}, "dump nightly orders")
	d.submit(nil, "echo '<b>bold'")
	b := newBrowser(t)
	b.login(d, "operator", "/ui/jobs")
	b.do(chromedp.KeyEvent("/"), holds("document.activeElement.name === 'search'"))
	b.run("document.activeElement.value = ''; 0") // the driver sends the character in spite of what the page says
	b.do(chromedp.KeyEvent("NIGHTLY"+kb.Enter), holds("location.search.includes('NIGHTLY') && document.readyState === 'complete'"))
	if got := b.ids(); got != "3 2" {
		t.Fatalf("the search has found %q", got)
	}
	b.press("th.c-priority a")
	if got := b.ids(); got != "3 2" {
		t.Fatalf("by priority the list is %q", got)
	}
	b.press("th.c-priority a")
	if got := b.ids() + eval[string](b, `document.querySelector("th.c-priority").ariaSort`); got != "2 3descending" {
		t.Fatalf("by priority, the highest number first, the list is %q", got)
	}
	d.submit([]string{"--name", "nightly-2"}, "true")
	b.until(`document.querySelector("#job-5")`)
	if got := b.ids(); got != "2 5 3" {
		t.Fatalf("the live list is %q", got)
	}
	b.open(d.url + "/ui/jobs")
	b.press("th.c-id a")
	if got := b.ids(); got != "1 2 3 4 5" {
		t.Fatalf("the oldest first the list is %q", got)
	}
	b.open(d.url + "/ui/jobs?search=run_command")
	b.requireText("#none", "No job matches.")
	b.open(d.url + "/ui/jobs?search=%3Cb%3E")
	if got := b.ids(); got != "4" {
		t.Fatalf("a search for markup has found %q", got)
	}
	b.requireCalm()
}

// The bar of actions is there while a job is selected, and leaves the list as it is.
func TestTheBarOfActions(t *testing.T) {
	t.Parallel()
	d := newDaemon(t).start()
	for range 3 {
		d.submit(nil, "true")
	}
	d.cli("wait", "1", "2", "3")
	b := newBrowser(t)
	b.login(d, "operator", "/ui/jobs")
	shown := func(want bool) {
		t.Helper()
		if is := eval[bool](b, `document.querySelector("#bulk").getClientRects().length > 0`); is != want {
			t.Fatalf("the bar is shown: %v", is)
		}
	}
	shown(false)
	b.do(chromedp.KeyEvent("jx"))
	shown(true)
	b.requireText("#picked", "1 job selected")
	b.do(chromedp.KeyEvent("x"))
	shown(false)
	b.do(chromedp.Click(chromedp.CSS("#pick-all")))
	b.requireText("#picked", "3 jobs selected")
	b.do(chromedp.KeyEvent(kb.Escape))
	shown(false)
	b.requireCalm()
}
