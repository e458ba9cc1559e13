package browser

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// firstPage is the shortest of several times of the first page of jobs.
func (d *daemon) firstPage(c *http.Client) time.Duration {
	d.Helper()
	best := time.Hour
	for range 15 {
		begin := time.Now()
		response, err := c.Get(d.url + "/ui/jobs")
		must(d, err)
		response.Body.Close()
		best = min(best, time.Since(begin))
		<-time.After(300 * time.Millisecond) // answers are shared for a quarter of a second
	}
	return best
}

// The time of the first page does not grow with the queue.
func TestTheFirstPageDoesNotGrow(t *testing.T) {
	large := 20_000
	if !testing.Short() {
		large = 100_000
	}
	d := newDaemon(t).start()
	d.cli("filter", "add", "--action", "PAUSE", "--opcode", "OP_TEST_DELAY")
	c := d.client()
	body := `{"jobs":[` + strings.TrimSuffix(strings.Repeat(`[{"OP_ID":"OP_TEST_DELAY","duration":1}],`, 1000), ",") + `]}`
	submit := func() {
		if code, text := d.api("POST", "/3/jobs", body); code != http.StatusCreated {
			t.Fatal(code, text)
		}
	}
	submit()
	few := d.firstPage(c)
	for range large/1000 - 1 {
		submit()
	}
	many := d.firstPage(c)
	t.Logf("first page of jobs: %v with 1,000 jobs, %v with %d", few.Round(100*time.Microsecond), many.Round(100*time.Microsecond), large)
	if many > 4*few+20*time.Millisecond {
		t.Errorf("the first page takes %v with %d jobs, and %v with 1,000", many, large, few)
	}
}
