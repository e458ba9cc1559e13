package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// schedules adds a schedule that was run, one whose due time was missed and that is paused, and one that has done nothing.
func (d *daemon) schedules() {
	d.Helper()
	d.cli("schedule", "add", "nightly", "--cron", "0 3 * * *", "--tz", "Europe/Berlin", "--lock", "backup", "--jitter", "10m", "--", "sh", "-c", "echo copied 12 files; sleep 0")
	id := d.cli("schedule", "run", "nightly")
	d.await("the end of the job", func() bool { return strings.Contains(d.cli("info", id), "success") })
	d.cli("drain", "on")
	d.cli("schedule", "add", "tick", "--every", "1s", "--catch-up", "none", "--", "true")
	d.await("a missed due time", func() bool { return strings.Contains(d.cli("schedule", "history", "tick"), "missed") })
	d.cli("schedule", "pause", "tick", "--until", "3d")
	d.cli("drain", "off")
	d.cli("schedule", "add", "a-report-with-a-long-name-for-the-department-of-statistics-x", "--every", "90m", "--overlap", "queue", "--", "./report", "--of", "the", "whole", "department", "of", "statistics")
}

// inTokyo gives the browser another zone than that of the server.
func (b *browser) inTokyo() {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Tokyo"})
	must(b, err)
}

// With the keyboard a schedule is found, run, paused until a time of the browser's zone, resumed, and removed after a question.
func TestSchedules(t *testing.T) {
	t.Parallel()
	d := newDaemon(t).start()
	d.schedules()
	b := newBrowser(t)
	b.inTokyo()
	b.login(d, "operator", "/ui/")
	b.do(chromedp.KeyEvent("gc"), seen("#schedule-nightly"), chromedp.KeyEvent("jj"+kb.Enter), holds("location.pathname === '/ui/schedules/nightly'"), seen("#run"))
	b.do(chromedp.Focus(chromedp.CSS("#run button")), chromedp.KeyEvent(kb.Enter), seen("#notice"))
	b.requireText("#notice", "The jobs of the schedule were submitted.")
	b.until(`document.querySelectorAll("#history tbody tr").length === 2 && document.querySelector("#history a").pathname.startsWith("/ui/jobs/")`)

	until := time.Now().UTC().AddDate(0, 0, 2).Truncate(time.Hour)
	b.do(chromedp.Focus(chromedp.CSS("#until summary")), chromedp.KeyEvent(kb.Enter), holds(`document.querySelector("#until").open`))
	typed := until.Add(9 * time.Hour).Format("2006-01-02T15:04")
	b.run(fmt.Sprintf(`(f => { f.value = %q; f.dispatchEvent(new Event("input", {bubbles: true})); })(document.querySelector("#until input[name=time]"))`, typed))
	if text := b.text("#until [data-offset]"); !strings.Contains(text, "+09:00") {
		t.Fatalf("beside the field is %q", text)
	}
	b.check(axeSource(t), "schedule-until")
	b.do(chromedp.Focus(chromedp.CSS("#until button")), chromedp.KeyEvent(kb.Enter), seen("#resume"))
	b.requireText("#notice", "The schedule is paused.")
	if shown := d.cli("--json", "schedule", "show", "nightly"); !strings.Contains(shown, `"until_ts": "`+until.Format("2006-01-02T15:04:05")) {
		t.Fatalf("not paused until %v: %s", until, shown)
	}
	b.press("#resume button")
	b.requireText("#notice", "The schedule goes on from now.")
	b.press("#remove button")
	b.check(axeSource(t), "schedule-remove")
	if text := b.text("h1"); text != "Remove the schedule nightly?" {
		t.Fatalf("the question is %q", text)
	}
	b.press("form[action='/ui/schedules/nightly/remove'] button")
	b.requireText("#notice", "The schedule was removed. Its jobs stay.")
	if list := d.cli("schedule", "list"); strings.Contains(list, "nightly") {
		t.Fatalf("the schedule is there: %s", list)
	}
	b.requireCalm()
}

// A job that is not due gets another time, in the browser's zone, and is started now.
func TestAnotherTimeForAJob(t *testing.T) {
	t.Parallel()
	d := newDaemon(t).start()
	id := d.submit([]string{"--delay", "2h"}, "true")
	b := newBrowser(t)
	b.inTokyo()
	b.login(d, "operator", "/ui/jobs/"+id)
	at := time.Now().UTC().AddDate(0, 0, 1).Truncate(time.Hour)
	b.run(fmt.Sprintf(`(f => { f.value = %q; f.dispatchEvent(new Event("input", {bubbles: true})); })(document.querySelector("#time-form input[name=time]"))`,
		at.Add(9*time.Hour).Format("2006-01-02T15:04")))
	if text := b.text("#time-form [data-offset]"); !strings.Contains(text, "+09:00") {
		t.Fatalf("beside the field is %q", text)
	}
	b.press("#time-form button")
	b.requireText("#notice", "The time of the job was changed.")
	if info := d.cli("--json", "info", id); !strings.Contains(info, at.Format("2006-01-02T15:04:05")) {
		t.Fatalf("the job is not due at %v: %s", at, info)
	}
	b.press("#now-form button")
	b.until(`document.querySelector(".s-success")`)
	b.until(`!document.querySelector("#time")`)
	b.requireCalm()
}

// Of many schedules the page has a part, and a search finds the others.
func TestManySchedules(t *testing.T) {
	t.Parallel()
	d := newDaemon(t).start()
	for i := range 101 {
		code, text := d.api("PUT", fmt.Sprintf("/3/schedules/report-%03d", i), `{"every":86400,"jobs":[[{"OP_ID":"OP_RUN_COMMAND","argv":["true"]}]]}`)
		if code != 200 {
			t.Fatal(text)
		}
	}
	b := newBrowser(t)
	b.login(d, "reader", "/ui/schedules")
	if n := eval[int](b, `document.querySelectorAll("#list tbody tr").length`); n != 100 {
		t.Fatalf("the page has %d schedules", n)
	}
	b.do(chromedp.KeyEvent("]"), seen("#schedule-report-100"), chromedp.KeyEvent("["), seen("#schedule-report-000"))
	b.do(chromedp.Focus(chromedp.CSS("input[name=search]")), chromedp.KeyEvent("100"+kb.Enter), holds(`document.querySelectorAll("#list tbody tr").length === 1`), seen("#schedule-report-100"))
	b.open(d.url + "/ui/schedules/report-100")
	if on := eval[bool](b, `document.querySelector("#run button").disabled && document.querySelector("#remove button").title.includes("needs the role submit")`); !on {
		t.Fatal("a reader may change the schedule")
	}
	b.requireCalm()
}
