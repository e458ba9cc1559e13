package browser

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// press clicks a button, and waits for the page that it leads to.
func (b *browser) press(selector string) {
	b.Helper()
	b.run("window.before = true; 0")
	b.do(chromedp.Click(chromedp.CSS(selector)), holds("!window.before && document.readyState === 'complete' && document.querySelector('main')"))
}

// pick selects jobs of the list, and presses the button that leads to the question about an action.
func (b *browser) pick(action string, ids ...string) {
	b.Helper()
	for _, id := range ids {
		b.do(chromedp.Click(chromedp.CSS("#pick-" + id)))
	}
	b.until(fmt.Sprintf("document.querySelector('#picked').innerText.startsWith('%d job')", len(ids)))
	b.do(chromedp.SetValue(chromedp.CSS("select[name=action]"), action))
	b.press(".bulk button:not([name])")
}

// requireText fails unless an element has a text.
func (b *browser) requireText(selector, want string) {
	b.Helper()
	if got := b.text(selector); got != want {
		b.Fatalf("%s is %q, not %q:\n%s", selector, got, want, b.text("main"))
	}
}

// listed is a job as the daemon lists it.
type listed struct {
	ID       int64
	Status   string
	Priority int
	Archived bool
}

// job asks the daemon for a job.
func (d *daemon) job(id string) listed {
	d.Helper()
	var all []listed
	must(d, json.Unmarshal([]byte(d.cli("list", "--json", "--all", "--archived")), &all))
	for _, j := range all {
		if fmt.Sprint(j.ID) == id {
			return j
		}
	}
	d.Fatalf("the daemon has no job %s", id)
	return listed{}
}

// changes are the lines of the daemon's log about changes by the console, without their times.
func (d *daemon) changes() []string {
	d.Helper()
	return regexp.MustCompile(`(?m)console: change requested" .*$`).FindAllString(d.log(), -1)
}

// requireChange fails unless the last line about a change has these fields.
func (d *daemon) requireChange(fields ...string) {
	d.Helper()
	lines := d.changes()
	if len(lines) == 0 {
		d.Fatal("the log has no line about a change")
	}
	for _, field := range append(fields, `user="user=operator"`, "address=127.0.0.1") {
		if !strings.Contains(lines[len(lines)-1]+" ", " "+field+" ") {
			d.Fatalf("the line has no %s: %s", field, lines[len(lines)-1])
		}
	}
}

// On the page of a job its priority is changed, it is archived, and it runs again as a new job. The page, the daemon and its log say so.
func TestActionsOnAJob(t *testing.T) {
	t.Parallel()
	d := newDaemon(t).start()
	d.cli("config", "set", "max_running_jobs=1")
	running := d.submit([]string{"--name", "busy"}, "sleep 300")
	first := d.submit(nil, "true")
	last := d.submit([]string{"--name", "last"}, "echo hello")
	b := newBrowser(t)
	b.login(d, "operator", "/ui/jobs/"+last)
	order := b.tab()
	order.open(d.url + "/ui/order")
	order.until(fmt.Sprintf(`document.querySelector("#next-%s + #next-%s")`, first, last))

	b.do(chromedp.SetValue(chromedp.CSS("#priority-form input"), "-5"))
	b.press("#priority-form button")
	b.requireText("#notice", "The priority was changed.")
	if value := eval[string](b, `document.querySelector("#priority-form input").value`); value != "-5" {
		t.Fatalf("the page has the priority %s", value)
	}
	if got := d.job(last); got.Priority != -5 || got.Status != "queued" {
		t.Fatalf("the daemon has %+v", got)
	}
	d.requireChange("action=priority", "job="+last, "done=true")
	order.until(fmt.Sprintf(`document.querySelector("#next-%s + #next-%s")`, last, first)) // by itself

	b.do(chromedp.SetValue(chromedp.CSS("#priority-form input"), "99"))
	b.press("#priority-form button")
	if text := b.text("main"); !strings.Contains(text, "from -20, the most urgent, to 19") {
		t.Fatalf("an invalid priority leads to %q", text)
	}
	if got := d.job(last); got.Priority != -5 {
		t.Fatalf("the daemon has %+v", got)
	}
	d.requireChange("action=priority", "job="+last, "done=false")

	d.cli("cancel", "--kill", running)
	d.cli("wait", last)
	b.open(d.url + "/ui/jobs/" + last)
	b.press("form[action$='/archive'] button")
	b.requireText("#notice", "The job was archived.")
	b.requireText(".head .tag", "archived")
	if n := eval[int](b, `document.querySelectorAll("form[action$='/archive']").length`); n != 0 {
		t.Fatal("an archived job can be archived")
	}
	if !d.job(last).Archived {
		t.Fatal("the daemon has not archived the job")
	}
	d.requireChange("action=archive", "job="+last, "done=true")

	b.press("form[action$='/rerun'] button")
	b.requireText("#notice", "The job was submitted.")
	again := strings.TrimPrefix(eval[string](b, "location.pathname"), "/ui/jobs/")
	if again == last {
		t.Fatal("the page is that of the old job")
	}
	d.requireChange("action=rerun", "job="+last, "new_job="+again, "done=true")
	b.until(`document.querySelector(".head .s-success") && document.querySelector("#log").textContent.includes("hello")`)
	b.requireText("h1 .jobname", "last")
	if got := d.job(again); got.Status != "success" || got.Archived {
		t.Fatalf("the daemon has %+v", got)
	}
	if n := len(d.changes()); n != 4 {
		t.Fatalf("4 actions have left %d lines: %q", n, d.changes())
	}
	b.requireCalm()
	order.requireCalm()
}

// Several jobs of the list are held, released, canceled, get another priority, run again and are archived. Each time a question with
// their number comes first, and the way back changes nothing. Another tab shows the changes by itself.
func TestActionsOnSelectedJobs(t *testing.T) {
	t.Parallel()
	d := newDaemon(t).start()
	d.cli("config", "set", "max_running_jobs=1")
	busy := d.submit([]string{"--name", "busy"}, "sleep 300") // 1
	var ids []string
	for range 4 {
		ids = append(ids, d.submit([]string{"--name", "many"}, "true")) // 2 to 5
	}
	b := newBrowser(t)
	b.login(d, "operator", "/ui/jobs")
	other := b.tab()
	other.open(d.url + "/ui/jobs?name=many")
	other.until(`document.querySelector("#live").innerText === "live"`)
	confirm := "form[action='/ui/jobs/apply'] button"
	apply := func(question, notice string) {
		t.Helper()
		b.requireText("h1", question)
		if focused := eval[bool](b, fmt.Sprintf("document.activeElement === document.querySelector(%q)", confirm)); !focused {
			t.Fatalf("the question %s does not have the focus at its button", question)
		}
		b.press(confirm)
		b.requireText("#notice", notice)
	}

	b.pick("hold", "2", "3")
	b.requireText("h1", "Hold 2 jobs?")
	b.requireText(".ids", "3\n2")
	b.press("section .button") // back
	if at := eval[string](b, "location.pathname"); at != "/ui/jobs" || len(d.changes()) != 0 {
		t.Fatalf("the way back leads to %s and has changed %q", at, d.changes())
	}
	b.pick("hold", "2", "3")
	apply("Hold 2 jobs?", "Done for 2 of 2 jobs.")
	d.requireChange("action=hold", `job="3,2"`, "done=true")
	other.until(`["2", "3"].every(id => document.querySelector("#job-" + id + " .why").innerText.includes("held"))`)
	if why := d.cli("why", "2"); !strings.Contains(why, "held") {
		t.Fatalf("job 2: %s", why)
	}

	b.pick("release", "2", "3")
	apply("Release 2 jobs?", "Done for 2 of 2 jobs.")
	other.until(`["2", "3"].every(id => !document.querySelector("#job-" + id + " .why").innerText.includes("held"))`)
	if why := d.cli("why", "2"); strings.Contains(why, "held") {
		t.Fatalf("job 2: %s", why)
	}
	rule := d.cli("filter", "add", "--action", "PAUSE", "--opcode", "OP_RUN_COMMAND")
	other.until(`document.querySelector("#job-2 .why").innerText.includes("rule")`)
	d.cli("filter", "delete", rule)
	other.until(`!document.querySelector("#job-2 .why").innerText.includes("rule")`)

	b.do(chromedp.SetValue(chromedp.CSS(".bulk input[name=priority]"), "7"))
	b.pick("priority", "4", "5")
	apply("Change the priority of 2 jobs?", "Done for 2 of 2 jobs.")
	other.until(`["4", "5"].every(id => document.querySelector("#job-" + id + " td:nth-child(7)").innerText === "7")`)
	if p := []int{d.job("3").Priority, d.job("4").Priority, d.job("5").Priority}; fmt.Sprint(p) != "[0 7 7]" {
		t.Fatalf("the priorities are %d", p)
	}

	// A running job is not canceled, which does not keep the action from the others.
	b.pick("cancel", busy, "4", "5")
	apply("Cancel 3 jobs?", "Done for 2 of 3 jobs. The others have ended, or do not permit it now.")
	d.requireChange("action=cancel", `job="5,4,1"`, "undone="+busy, "done=false")
	other.until(`["4", "5"].every(id => document.querySelector("#job-" + id + " .s-canceled"))`)
	if s := []string{d.job(busy).Status, d.job("3").Status, d.job("4").Status, d.job("5").Status}; fmt.Sprint(s) != "[running queued canceled canceled]" {
		t.Fatalf("the jobs are %q", s)
	}
	d.cli("cancel", "--kill", busy)
	d.cli("wait", "2", "3")

	b.open(d.url + "/ui/jobs")
	b.pick("rerun", "2", "4")
	apply("Run again 2 jobs?", "Done for 2 of 2 jobs.")
	d.requireChange("action=rerun", `job="4,2"`, `new_job="6,7"`, "done=true")
	other.until(`document.querySelector("#job-6 .s-success") && document.querySelector("#job-7 .s-success")`)

	// All that match a filter.
	b.open(d.url + "/ui/jobs?status=success")
	b.do(chromedp.Click(chromedp.CSS("#pick-all")), chromedp.SetValue(chromedp.CSS("select[name=action]"), "archive"))
	b.press(".bulk button[name=all]")
	apply("Archive 4 jobs?", "Done for 4 of 4 jobs.")
	b.requireText("#none", "No job matches.")
	other.until(`!document.querySelector("#job-2, #job-3, #job-6, #job-7") && document.querySelector("#job-4")`)
	for _, id := range []string{"2", "3", "6", "7"} {
		if !d.job(id).Archived {
			t.Errorf("job %s is not archived", id)
		}
	}
	b.open(d.url + "/ui/jobs?status=success&archived=1")
	if n := eval[int](b, `document.querySelectorAll("#list tbody .tag").length`); n != 4 {
		t.Errorf("%d jobs are shown as archived", n)
	}
	b.requireCalm()
	other.requireCalm()
}
